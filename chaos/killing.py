"""Kill a process on purpose: pin it by a pidfd, look at it again, then send the signal."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_GUARD = b"holdfast-guard"


def kill_guard(pid: int, run_id: str) -> bool:
    """SIGKILL the guard of this run, if this process is the guard."""
    return _kill(pid, lambda: is_guard(pid, run_id))


def kill_leader(pid: int, guard_pid: int) -> bool:
    """SIGKILL the run's first process."""
    return _kill(pid, lambda: parent_of(pid) == guard_pid)


def kill_child(pid: int, parent_pid: int) -> bool:
    """SIGKILL another process of the run, found below its guard or its leader."""
    return _kill(pid, lambda: parent_of(pid) == parent_pid)


def find_guard(owner_pid: int, run_id: str) -> int | None:
    """The guard of this run among the children of its owner; it exists before the owner knows it."""
    return next((pid for pid in children_of(owner_pid) if is_guard(pid, run_id)), None)


def is_guard(pid: int, run_id: str) -> bool:
    """Whether this process is the guard of this run."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return _GUARD in os.path.basename(words[0]) and run_id.encode() in words


def children_of(pid: int) -> list[int]:
    """The children of a process, of all its threads."""
    found: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            found += map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split())
    except OSError:
        pass
    return found


def parent_of(pid: int) -> int:
    """Its parent's PID; -1 if the process is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return -1
    return int(stat[stat.rindex(")") + 2 :].split()[1])


def _kill(pid: int, is_it: Callable[[], bool]) -> bool:
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        if not is_it():
            return False
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    except ProcessLookupError:
        return False
    finally:
        os.close(pidfd)
    return True
