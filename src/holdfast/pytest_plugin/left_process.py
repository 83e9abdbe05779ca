"""Processes below pytest: which there are, what they are, which test started them, and how they are ended.

The pytest process is a subreaper: an orphan becomes its child, whatever it did to its session. So only the children of
this process have to be listed after each test, which is one small read for each thread.
"""

from __future__ import annotations

import ctypes
import os
import select
import time
from typing import NamedTuple

from ..runs.supervisor import Supervisor
from ..values.identity import is_exiting
from ..values.process_memory import command_line, environment

_PR_SET_CHILD_SUBREAPER = 36
_CURRENT_TEST = b"PYTEST_CURRENT_TEST="  # pytest sets it for each phase of a test, and children inherit it
_GRACE_S = 1.0
# Helpers of the standard library that live as long as the program on purpose.
_ALLOWED = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")


class LeftProcess(NamedTuple):
    """One process that a test left behind."""

    pid: int
    command: str
    starter: str | None  # the test and its phase, as the process itself inherited them

    def __str__(self) -> str:
        by = "" if self.starter is None else f", started by {self.starter}"
        return f"process {self.pid}: {self.command}{by}"


def become_subreaper() -> None:
    """Make orphaned descendants of this process its children."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def children() -> set[int]:
    """The PIDs of our children of all threads, zombies included."""
    found: set[int] = set()
    for task in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{task}/children", "rb", buffering=0) as file:
                found.update(map(int, file.read().split()))
        except OSError:
            continue  # the thread has ended meanwhile
    return found


def live_children(known: set[int], allowed: tuple[str, ...], within_s: float) -> list[LeftProcess]:
    """The children besides the known ones that are still alive after this time. A zombie is no process any more."""
    new = {pid for pid in children() - known if is_exiting(pid) is False}
    if not new:
        return []
    end = time.monotonic() + within_s
    while (new := {pid for pid in new if not _exits_by(pid, end)}) and time.monotonic() < end:
        pass
    seen = [_look_at(pid) for pid in sorted(new | {pid for pid in children() - known if is_exiting(pid) is False})]
    return [process for process in seen if not any(word in process.command for word in (*_ALLOWED, *allowed))]


def end_all(processes: list[LeftProcess]) -> None:
    """End these processes and those below them by the ladder, and reap the ones that are our children."""
    import anyio

    anyio.run(_end, [process.pid for process in processes])
    for process in processes:
        try:
            os.waitpid(process.pid, os.WNOHANG)
        except ChildProcessError:
            continue  # somebody else waited for it


async def _end(pids: list[int]) -> None:
    async with Supervisor() as supervisor:
        for pid in pids:
            await supervisor.register(pid, grace=_GRACE_S)


def _look_at(pid: int) -> LeftProcess:
    words = command_line(pid).rstrip(b"\0").split(b"\0")
    marks = [word for word in environment(pid).split(b"\0") if word.startswith(_CURRENT_TEST)]
    starter = marks[0].removeprefix(_CURRENT_TEST).decode(errors="replace") if marks else None
    return LeftProcess(pid, b" ".join(words).decode(errors="replace") or "?", starter)


def _exits_by(pid: int, end: float) -> bool:
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        return bool(poll.poll(max(0.0, end - time.monotonic()) * 1000))
    finally:
        os.close(pidfd)
