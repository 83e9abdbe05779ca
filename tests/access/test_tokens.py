"""The file of tokens: hashes only, for our user only, changed by any process, seen at once by a reader."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from holdfast.access.roles import ROLES, Role
from holdfast.access.tokens import PREFIX, NoTokenError, TokenExistsError, TokenFile
from holdfast.values.errors import SpecError, StateError

if TYPE_CHECKING:
    from pathlib import Path

HOUR_NS = 3600 * 10**9


@pytest.fixture
def state(tmp_path: Path) -> Path:
    path = tmp_path / "state"
    path.mkdir(0o700)
    return path


def test_only_a_hash_is_on_disk(state: Path) -> None:
    token, secret = TokenFile(str(state)).create("ci", "submit", session="nightly")
    assert secret.startswith(PREFIX)
    assert len(secret) > 40
    for file in state.iterdir():
        assert secret not in file.read_text()
        assert secret.removeprefix(PREFIX) not in file.read_text()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert secret not in repr(token)
    assert secret not in json.dumps(token.shown())


def test_another_process_changes_what_a_reader_finds(state: Path) -> None:
    reader = TokenFile(str(state))
    assert reader.find("hft_nothing") is None
    words = [sys.executable, "-m", "holdfast.cli.main", "token", "--state-dir", str(state)]
    made = subprocess.run([*words, "create", "ci", "--role", "read"], capture_output=True, text=True, check=True)
    secret = made.stdout.strip()
    found = reader.find(secret)
    assert found is not None
    assert (found.name, found.role, found.session) == ("ci", Role.READ, None)
    subprocess.run([*words, "revoke", "ci"], capture_output=True, check=True)
    assert reader.find(secret) is None


def test_a_name_is_used_once_at_a_time(state: Path) -> None:
    tokens = TokenFile(str(state))
    _, first = tokens.create("ci", "read")
    with pytest.raises(TokenExistsError, match="already"):
        tokens.create("ci", "admin")
    tokens.revoke("ci")
    with pytest.raises(NoTokenError):
        tokens.revoke("ci")
    _, second = tokens.create("ci", "admin")
    assert tokens.find(first) is None
    assert tokens.find(second) is not None


def test_many_processes_lose_no_token(state: Path) -> None:
    words = [sys.executable, "-m", "holdfast.cli.main", "token", "--state-dir", str(state), "create", "--role", "read"]
    started = [subprocess.Popen([*words, f"t{number}"], stdout=subprocess.PIPE) for number in range(6)]
    secrets = [process.communicate()[0].decode().strip() for process in started]
    tokens = TokenFile(str(state))
    assert [found.name for secret in secrets if (found := tokens.find(secret))] == [f"t{n}" for n in range(6)]


@pytest.mark.parametrize(
    ("name", "role", "session", "expires_ns", "field"),
    [
        ("", "read", None, None, "name"),
        ("a b", "read", None, None, "name"),
        ("../x", "read", None, None, "name"),
        ("x" * 65, "read", None, None, "name"),
        ("x", "root", None, None, "role"),
        ("x", "none", None, None, "role"),
        ("x", "read", "", None, "session"),
        ("x", "admin", "one", None, "session"),
        ("x", "read", None, 1, "expires_at"),
    ],
)
def test_wrong_values_make_nothing(
    state: Path, name: str, role: str, session: str | None, expires_ns: int | None, field: str
) -> None:
    tokens = TokenFile(str(state))
    with pytest.raises(SpecError) as refused:
        tokens.create(name, role, session=session, expires_ns=expires_ns)
    assert refused.value.field == field
    assert tokens.all() == []


def test_the_end_date_is_kept_and_judged(state: Path) -> None:
    now_ns = time.time_ns()
    token, secret = TokenFile(str(state)).create("ci", "read", expires_ns=now_ns + HOUR_NS)
    assert TokenFile(str(state)).find(secret) == token
    assert not token.has_ended(now_ns)
    assert token.has_ended(now_ns + HOUR_NS)


def test_a_file_that_others_may_read_is_refused(state: Path) -> None:
    tokens = TokenFile(str(state))
    _, secret = tokens.create("ci", "read")
    (state / "tokens.json").chmod(0o644)
    with pytest.raises(StateError, match="others may read"):
        TokenFile(str(state)).find(secret)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 1, "tokens": [{}]}', '{"version": 1, "tokens": 3}'])
def test_a_damaged_file_lets_nobody_in_and_says_so(state: Path, text: str) -> None:
    tokens = TokenFile(str(state))
    _, secret = tokens.create("ci", "read")
    (state / "tokens.json").write_text(text)
    with pytest.raises(StateError, match=r"tokens\.json is damaged"):
        tokens.find(secret)


def test_the_roles_are_the_contracts() -> None:
    assert list(ROLES) == ["read", "submit", "operate", "admin"]
    assert Role.READ < Role.SUBMIT < Role.OPERATE < Role.ADMIN
