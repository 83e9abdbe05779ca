"""The lock on a file: when a process waits for the holder, and when it does not."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import threading
import time
from typing import TYPE_CHECKING

import pytest

from holdfast.state import file_lock
from holdfast.state.file_lock import FileLock
from holdfast.values.errors import StateError

from ..support.processes import holding_stopped, wait_exited

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "lock")


def test_shared_are_together_and_exclusive_is_alone(path: str) -> None:
    lock, nobody_waits = FileLock(path), FileLock(path, bound_s=0.0)
    refused = pytest.raises(StateError, match="for more than 0 s")
    with lock.shared(), nobody_waits.shared(), refused, nobody_waits.exclusive():
        pass
    with lock.exclusive():
        for other in (nobody_waits.shared(), nobody_waits.exclusive()):
            with pytest.raises(StateError, match="fuser"), other:
                pass
    with nobody_waits.exclusive():
        pass


def test_who_works_is_waited_for(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The holder releases the lock only after the other process has tried in vain."""
    order: list[str] = []
    tried = threading.Event()

    def look(_fd: int) -> Iterator[int]:
        tried.set()
        return iter(())

    def wait() -> None:
        with FileLock(path).exclusive():
            order.append("second")

    monkeypatch.setattr(file_lock, "holders", look)
    waiting = threading.Thread(target=wait)
    with FileLock(path).exclusive():
        waiting.start()
        assert tried.wait(30)
        order.append("first")
    waiting.join(30)
    assert order == ["first", "second"]


def test_who_is_stopped_is_not_waited_for_and_is_named(path: str) -> None:
    """Without the look at the holder, this takes five minutes, the bound for a big index."""
    with holding_stopped(path) as pid:
        began = time.monotonic()
        with pytest.raises(StateError) as refused, FileLock(path).shared():
            pass
        assert str(pid) in refused.value.message
        assert f"kill -CONT {pid}" in (refused.value.remedy or "")
        assert time.monotonic() - began < file_lock.BOUND_S / 2, "long before the bound"


class _Clock:
    """A clock with a fixed time for each look; sleeping takes no time."""

    def __init__(self, step_s: float) -> None:
        self.now = 0.0
        self._step_s = step_s

    def monotonic(self) -> float:
        self.now += self._step_s
        return self.now

    def sleep(self, _s: float) -> None: ...


class _Looks:
    """A replacement of `is_stopped`: the results of the looks, in order; after the last one the holder has ended."""

    def __init__(self, found: list[bool]) -> None:
        self.pids: list[int] = []
        self._found = found

    def __call__(self, pid: int) -> bool:
        self.pids.append(pid)
        if len(self.pids) == len(self._found):
            os.kill(pid, signal.SIGKILL)
            assert wait_exited(pid)
        return self._found[len(self.pids) - 1]


def test_who_is_stopped_and_continued_again_and_again_is_waited_for(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every second look finds the holder stopped, which never adds up to the two seconds that count."""
    clock, looks = _Clock(0.1), _Looks([True, False] * 50)
    monkeypatch.setattr(file_lock, "is_stopped", looks)
    monkeypatch.setattr(file_lock, "time", clock)
    with holding_stopped(path) as pid, FileLock(path).shared():
        assert looks.pids == [pid] * 100
        assert clock.now > 2 * file_lock.STOPPED_S


def test_the_time_in_which_we_were_stopped_ourselves_does_not_count(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both processes were stopped for a minute, and we are continued first: one look is not enough."""
    looks = _Looks([True] * 3)
    monkeypatch.setattr(file_lock, "is_stopped", looks)
    monkeypatch.setattr(file_lock, "time", _Clock(60.0))
    with holding_stopped(path) as pid, FileLock(path).shared():
        assert looks.pids == [pid] * 3


def test_only_those_who_hold_this_file_are_looked_at(path: str, tmp_path: Path) -> None:
    with holding_stopped(str(tmp_path / "other")), FileLock(path).exclusive():
        fd = os.open(path, os.O_RDWR)
        try:
            assert list(file_lock.holders(fd)) == [os.getpid()]
        finally:
            os.close(fd)


def test_without_a_list_of_locks_the_bound_is_left(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_lock, "holders", lambda _fd: iter(()))
    with holding_stopped(path), pytest.raises(StateError, match="for more than"), FileLock(path, 0.1).shared():
        pass


def test_the_file_is_let_go_of_after_a_refusal(path: str) -> None:
    before = set(os.listdir("/proc/self/fd"))
    with FileLock(path).exclusive(), contextlib.suppress(StateError), FileLock(path, 0.0).exclusive():
        pass
    assert set(os.listdir("/proc/self/fd")) == before
    fd = os.open(path, os.O_RDWR)
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(fd)
