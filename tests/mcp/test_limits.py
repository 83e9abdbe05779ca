"""Limits, without a server."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from holdfast.mcp.limits import LimitError, ServerLimits, is_within, real_directories
from holdfast.values.errors import SpecError

if TYPE_CHECKING:
    from pathlib import Path


def test_a_directory_is_within_itself_and_below_but_not_beside() -> None:
    assert is_within("/a/b", "/a/b")
    assert is_within("/a/b/c", "/a/b")
    assert not is_within("/a/bc", "/a/b")
    assert not is_within("/a", "/a/b")
    assert is_within("/anything", "/")


def test_what_was_checked_is_what_is_used(tmp_path: Path) -> None:
    inside, link = tmp_path / "inside", tmp_path / "link"
    inside.mkdir()
    link.symlink_to(inside)
    limits = ServerLimits(real_directories([str(tmp_path)]))
    checked = limits.directory(str(link))
    link.unlink()
    link.symlink_to("/")
    assert checked == str(inside.resolve())  # moving the link afterwards leads no command out
    with pytest.raises(LimitError):
        limits.directory(str(link))


def test_an_allowed_link_is_allowed_for_where_it_led_at_the_start(tmp_path: Path) -> None:
    place, link = tmp_path / "place", tmp_path / "link"
    place.mkdir()
    link.symlink_to(place)
    limits = ServerLimits(real_directories([str(link)]))
    link.unlink()
    link.symlink_to("/")
    assert limits.directory(None) == str(place.resolve())
    with pytest.raises(LimitError):
        limits.directory("/")


def test_the_current_directory_is_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert real_directories([]) == (os.path.realpath(tmp_path),)
    with pytest.raises(SpecError, match="is no directory"):
        real_directories(["no-such-place"])


def test_times_and_numbers() -> None:
    limits = ServerLimits(("/",), max_timeout_s=60, max_runs=2)
    assert limits.timeout(None) == 60  # every run has an end
    assert limits.timeout(60) == 60
    with pytest.raises(LimitError, match=r"at most 60 \(1m\)"):
        limits.timeout(61)
    limits.admit(1)
    with pytest.raises(LimitError):
        limits.admit(2)
