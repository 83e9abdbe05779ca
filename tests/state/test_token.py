"""The file of the access token: made once, readable by its user only, never taken from a link."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest

from holdfast.state.token import TOKEN_FILE, load_token
from holdfast.values.errors import StateError

if TYPE_CHECKING:
    from pathlib import Path


def test_the_token_is_made_once_and_for_its_user_alone(tmp_path: Path) -> None:
    before = os.umask(0)  # the mode is ours to set, whatever the umask
    try:
        token = load_token(str(tmp_path))
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / TOKEN_FILE).stat().st_mode) == 0o600
    assert len(token) >= 43  # 256 bits
    assert load_token(str(tmp_path)) == token
    assert os.listdir(tmp_path) == [TOKEN_FILE]
    (other := tmp_path / "other").mkdir()
    assert load_token(str(other)) != token


def test_a_token_that_others_may_read_is_no_secret(tmp_path: Path) -> None:
    load_token(str(tmp_path))
    (tmp_path / TOKEN_FILE).chmod(0o640)
    with pytest.raises(StateError, match="others may read"):
        load_token(str(tmp_path))


@pytest.mark.parametrize("text", ["", "short", "two words that are long enough", "\xff" * 40, "x" * 20 + "\0"])
def test_a_file_that_holds_no_token_is_not_taken_for_one(tmp_path: Path, text: str) -> None:
    (tmp_path / TOKEN_FILE).write_text(text)
    (tmp_path / TOKEN_FILE).chmod(0o600)
    with pytest.raises(StateError, match="holds no token"):
        load_token(str(tmp_path))


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("a secret of somebody else's, long enough")
    (tmp_path / TOKEN_FILE).symlink_to("elsewhere")
    with pytest.raises(StateError):
        load_token(str(tmp_path))


def test_the_file_system_says_no(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="cannot use"):
        load_token(str(tmp_path / "missing"))
