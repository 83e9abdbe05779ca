"""The owner's lock: the lock alone, never a number, says whether it is missing, alive, stale, damaged or invalid."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from holdfast.state import owner_lock
from holdfast.state.owner_lock import OwnerAliveError, look, take
from holdfast.values.errors import StateError
from holdfast.values.identity import boot_id, read_identity

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from holdfast.state.directory import StateDirectory

# Waits for a line before it takes the lock, so that several can start at once; holds it until its stdin ends.
_OWNER = """
import sys
from holdfast.state.directory import StateDirectory
from holdfast.state.owner_lock import OwnerAliveError, take
state = StateDirectory.open(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
try:
    held = take(state, sys.argv[2])
except OwnerAliveError as error:
    print("refused", error, flush=True)
else:
    print("taken", flush=True)
    sys.stdin.read()
    held.release()
"""


class Process:
    """Another process that takes the lock when it is told to."""

    def __init__(self, state: StateDirectory, what: str = "test") -> None:
        argv = [sys.executable, "-c", _OWNER, state.path, what]
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.read() == "ready"

    def read(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().decode().strip()

    def go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()

    def take(self) -> str:
        self.go()
        return self.read()

    def end(self) -> None:
        """End as a service does: release the lock."""
        self.process.communicate()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.returncode is None:
            self.kill()


def file_of(state: StateDirectory) -> Path:
    return Path(state.path, owner_lock.NAME)


def test_it_is_missing_then_alive_then_missing_again(state: StateDirectory) -> None:
    assert look(state) == ("missing", None, None)
    with Process(state, "a daemon") as owner:
        assert owner.take() == "taken"
        seen = look(state)
        assert seen.state == "alive"
        assert seen.owner is not None
        assert (seen.owner.pid, seen.owner.what, seen.owner.boot_id) == (owner.process.pid, "a daemon", boot_id())
        assert seen.owner[:3] == read_identity(owner.process.pid)
        assert file_of(state).stat().st_mode & 0o777 == 0o600
        owner.end()
    assert look(state).state == "missing"
    assert os.listdir(state.path) == [name for name in os.listdir(state.path) if not name.startswith("owner")]


def test_an_owner_that_is_killed_leaves_it_stale_and_the_next_one_takes_it(state: StateDirectory) -> None:
    with Process(state, "first") as first:
        assert first.take() == "taken"
        first.kill()
    seen = look(state)
    assert (seen.state, seen.owner and seen.owner.what) == ("stale", "first")
    with take(state, "second"):
        seen = look(state)
        assert (seen.state, seen.owner and seen.owner.what) == ("alive", "second")
    assert look(state).state == "missing"


def test_a_second_owner_is_refused_and_told_who_has_it(state: StateDirectory) -> None:
    with Process(state, "a daemon") as owner:
        assert owner.take() == "taken"
        with pytest.raises(OwnerAliveError, match=rf"process {owner.process.pid} \(a daemon\) owns") as caught:
            take(state, "me too")
        assert caught.value.owner is not None
        assert caught.value.owner.pid == owner.process.pid
        assert caught.value.remedy
    assert [name for name in os.listdir(state.path) if name.endswith(".new")] == []


@pytest.mark.parametrize("before", ["missing", "stale"])
def test_of_many_at_once_one_gets_it(state: StateDirectory, before: str) -> None:
    if before == "stale":
        with Process(state) as first:
            first.take()
            first.kill()
    assert look(state).state == before
    several = [Process(state, f"number {number}") for number in range(4)]
    try:
        for each in several:
            each.go()
        answers = [each.read() for each in several]
        assert sorted(answer.split()[0] for answer in answers) == ["refused", "refused", "refused", "taken"]
        winner = several[answers.index("taken")]
        seen = look(state)
        assert seen.state == "alive"
        assert seen.owner is not None
        assert seen.owner.pid == winner.process.pid
    finally:
        for each in several:
            each.kill()


def test_a_number_that_went_to_somebody_else_makes_nobody_an_owner(state: StateDirectory) -> None:
    """The note names a live process with its start time, but nobody holds the lock: it is stale."""
    with take(state, "me"):
        note = file_of(state).read_bytes()
    file_of(state).write_bytes(note)
    seen = look(state)
    assert seen.state == "stale"
    assert seen.owner is not None
    assert seen.owner[:3] == read_identity(os.getpid())
    with take(state, "me again"):
        assert look(state).state == "alive"


def test_an_owner_whose_note_is_wrong_is_alive_all_the_same(state: StateDirectory) -> None:
    with Process(state) as owner:
        assert owner.take() == "taken"
        note = json.loads(file_of(state).read_bytes())
        for text in (b"", b"nonsense", json.dumps({**note, "pid": 2**22 + 1}).encode()):
            file_of(state).write_bytes(text)
            assert look(state).state == "alive"
            with pytest.raises(OwnerAliveError):
                take(state, "me")


_DAMAGED = [b"", b"1234\n", b"\xff\xfe", b"[" * 4000, b"null", b'{"pid": 1}', b'{"format": 1, "pid": "x"}', bytes(200)]


@pytest.mark.parametrize("content", _DAMAGED)
def test_a_damaged_file_that_nobody_holds_is_moved_aside(state: StateDirectory, content: bytes) -> None:
    aside = file_of(state).with_name(owner_lock.DAMAGED_NAME)
    aside.write_bytes(b"an earlier one")
    file_of(state).write_bytes(content)
    seen = look(state)
    assert (seen.state, seen.owner) == ("damaged", None)
    assert seen.why
    with take(state, "me") as owned:
        assert look(state).state == "alive"
        assert owned.moved_aside == str(aside)
        assert aside.read_bytes() == content
    assert look(state).state == "missing"
    with take(state, "me again") as owned:
        assert owned.moved_aside is None


def test_of_many_that_meet_a_damaged_file_one_gets_it(state: StateDirectory) -> None:
    file_of(state).write_bytes(b"")
    several = [Process(state, f"number {number}") for number in range(4)]
    try:
        for each in several:
            each.go()
        answers = sorted(each.read().split()[0] for each in several)
        assert answers == ["refused", "refused", "refused", "taken"]
        assert look(state).state == "alive"
    finally:
        for each in several:
            each.kill()


def test_control_a_damaged_file_that_is_held_stays(state: StateDirectory) -> None:
    with Process(state) as owner:
        assert owner.take() == "taken"
        file_of(state).write_bytes(b"")
        with pytest.raises(OwnerAliveError):
            take(state, "me")
        assert not owner_lock.clear(state)
        assert file_of(state).read_bytes() == b""
        assert not file_of(state).with_name(owner_lock.DAMAGED_NAME).exists()


def test_a_note_of_another_format_is_invalid_and_left_alone(state: StateDirectory) -> None:
    content = b'{"format": 2, "pid": 1}'
    file_of(state).write_bytes(content)
    seen = look(state)
    assert (seen.state, seen.owner) == ("invalid", None)
    assert seen.why
    with pytest.raises(StateError, match="owner") as caught:
        take(state, "me")
    assert not isinstance(caught.value, OwnerAliveError)
    assert not owner_lock.clear(state)
    assert file_of(state).read_bytes() == content


def test_a_directory_in_its_place_is_invalid(state: StateDirectory) -> None:
    file_of(state).mkdir()
    assert look(state).state == "invalid"
    with pytest.raises(StateError):
        take(state, "me")


def test_only_a_stale_one_is_cleared(state: StateDirectory) -> None:
    assert not owner_lock.clear(state)
    with Process(state) as owner:
        assert owner.take() == "taken"
        assert not owner_lock.clear(state)
        assert look(state).state == "alive"
        owner.kill()
    assert owner_lock.clear(state)
    assert look(state).state == "missing"


def test_a_damaged_one_is_moved_aside_when_it_is_cleared(state: StateDirectory) -> None:
    file_of(state).write_bytes(b"1234")
    assert owner_lock.clear(state)
    assert look(state).state == "missing"
    assert file_of(state).with_name(owner_lock.DAMAGED_NAME).read_bytes() == b"1234"


def test_letting_go_does_not_take_away_somebody_elses(state: StateDirectory) -> None:
    """The lock was removed by hand and taken by another process: the release of the first must not touch it."""
    mine = take(state, "me")
    file_of(state).unlink()
    with Process(state, "other") as other:
        assert other.take() == "taken"
        mine.release()
        mine.release()
        seen = look(state)
        assert (seen.state, seen.owner and seen.owner.what) == ("alive", "other")


def test_a_directory_that_cannot_be_written_is_an_error(state: StateDirectory) -> None:
    gone = type(state)(os.path.join(state.path, "not-there"))
    assert look(gone).state == "missing"
    with pytest.raises(StateError, match="not-there"):
        take(gone, "me")
