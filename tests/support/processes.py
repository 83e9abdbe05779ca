"""Processes as tests see them: whether one is gone, which are below us, and the end of escaped ones.

The pytest process is a child subreaper. Whatever escapes from a run and outlives its guard therefore becomes a child of
pytest, however often it forked and whatever it did to its environment, and is found by asking for our own children.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_PR_SET_CHILD_SUBREAPER = 36
_BOUND_S = 60.0  # generous: only a failing test reaches it
_LOCK_AND_STOP = """
import fcntl, os, signal, sys
fcntl.flock(os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o600), fcntl.LOCK_EX)
os.kill(os.getpid(), signal.SIGSTOP)
"""


def become_subreaper() -> None:
    """Make orphaned descendants of this process its children."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def state_of(pid: int) -> str | None:
    """The state letter of /proc/PID/stat, or None if there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return stat[stat.rindex(")") + 2]


def parent_of(pid: int) -> int:
    """The parent of a process."""
    stat = Path(f"/proc/{pid}/stat").read_text()
    return int(stat[stat.rindex(")") + 2 :].split()[1])


def has_pending(pid: int, number: int) -> bool:
    """Whether a signal for the whole process waits to be taken."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return bool(int(fields["ShdPnd"], 16) & 1 << (number - 1))


def sentinel_of(guard: int) -> int:
    """The sentinel of a guard, which is its parent."""
    return parent_of(guard)


def stop_both(sentinel: int, guard: int, within_s: float = _BOUND_S) -> None:
    """SIGSTOP a sentinel and its guard; returns when both stand still.

    The guard may continue its sentinel once more before it stops, so we look again.
    """
    end = time.monotonic() + within_s
    while (state_of(sentinel), state_of(guard)) != ("T", "T"):
        assert time.monotonic() < end, f"not stopped: {describe(sentinel)}, {describe(guard)}"
        for pid in (sentinel, guard):
            os.kill(pid, signal.SIGSTOP)


def let_stop_both(names: dict[str, int], within_s: float = _BOUND_S) -> None:
    """Ask the child `stops_guard asked` to stop its sentinel and guard in a loop; returns when both stand still.

    Call it after the ready line has come. Nothing bounds the time until a guard that is stopped in a loop passes a line
    on, because its run has neither a deadline nor a request to end.
    """
    end = time.monotonic() + within_s
    os.kill(names["pid"], signal.SIGUSR1)
    while (state_of(names["sentinel"]), state_of(names["guard"])) != ("T", "T"):
        assert time.monotonic() < end, f"not stopped: {describe(names['sentinel'])}, {describe(names['guard'])}"


@contextlib.contextmanager
def stopping_both(sentinel: int, guard: int) -> Iterator[None]:
    """Stop both again and again, from outside of the run, until they are gone."""
    over = threading.Event()

    def stop() -> None:
        while not over.wait(0.0005):
            for pid in (sentinel, guard):
                try:
                    os.kill(pid, signal.SIGSTOP)
                except ProcessLookupError:
                    return

    thread = threading.Thread(target=stop)
    stop_both(sentinel, guard)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def kill_both(sentinel: int, guard: int, within_s: float = _BOUND_S) -> None:
    """SIGKILL a sentinel and its guard, so that neither can end the run; returns when both are dead, and the writer."""
    pids = [pid for pid in (sentinel, guard) if pid]
    writers = [pid for pid in children_of(sentinel) if pid != guard]  # they end with their parent
    for number in (signal.SIGSTOP, signal.SIGKILL):  # stopped first: the sentinel must not see the guard die
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
    for pid in (*pids, *writers):
        assert wait_exited(pid, within_s)


def is_gone(pid: int) -> bool:
    """Whether no process has this number any more; a zombie is still there."""
    return state_of(pid) is None


def wait_exited(pid: int, within_s: float = _BOUND_S) -> bool:
    """Wait until the process has exited, reaped or not; False if it is still alive after `within_s`."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        return bool(poll.poll(within_s * 1000))
    finally:
        os.close(pidfd)


def children_of(pid: int) -> list[int]:
    """The children of the main thread of a process; none if it is gone."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def own_children() -> set[int]:
    """Our children of all threads, zombies included: candidates only, because the list is not read in one moment."""
    children: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        try:
            children.update(map(int, (task / "children").read_text().split()))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return children


def descendants(pid: int) -> set[int]:
    """The processes below a process, as one walk over /proc finds them."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue
            parents.setdefault(int(stat[stat.rindex(")") + 2 :].split()[1]), []).append(int(entry.name))
    found: set[int] = set()
    left = [pid]
    while left:
        children = parents.get(left.pop(), [])
        found.update(children)
        left += children
    return found


def guards_below(pid: int) -> list[int]:
    """The guards below a process, without their sentinels and writers."""
    found = {below for below in descendants(pid) if "holdfast-guard" in describe(below)}
    return [guard for guard in found if parent_of(guard) in found and not is_writer(guard)]


def is_writer(pid: int) -> bool:
    """Whether this process is the writer of a journal: its command line is the sentinel's, its name is its own."""
    try:
        return Path(f"/proc/{pid}/comm").read_text() == "holdfast-write\n"
    except (FileNotFoundError, ProcessLookupError):
        return False


def reap(pid: int) -> bool:
    """Reap a dead child; False if it still lives."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG) is not None
    except ChildProcessError:
        return True


def describe(pid: int) -> str:
    """A process for a failure message."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except (FileNotFoundError, ProcessLookupError):
        return f"{pid} (gone meanwhile)"
    return f"{pid} [{state_of(pid)}] {command or '(no command line)'}"


def children_that_stay(known: set[int], within_s: float) -> list[int]:
    """Our children besides the known ones that do not exit within the bound; the others are reaped."""
    end = time.monotonic() + within_s
    while True:
        unexpected = own_children() - known
        if not unexpected:
            return []
        for pid in unexpected:
            wait_exited(pid, max(0.0, end - time.monotonic()))
        for pid in unexpected:
            reap(pid)
        if time.monotonic() >= end:  # also for a chain in which each one exits in time and leaves the next
            return sorted(own_children() - known)


def kill_children(known: set[int]) -> None:
    """Kill and reap every child besides the known ones, and the children that reparent to us by their death."""
    end = time.monotonic() + _BOUND_S
    while (unexpected := own_children() - known) and time.monotonic() < end:
        for pid in unexpected:  # all at once, then all again: a chain that re-forks is faster than any waiting
            try:
                os.kill(pid, signal.SIGKILL)  # a child of ours that nobody else waits for: the number is valid
            except (ProcessLookupError, PermissionError):
                continue
        for pid in unexpected:
            reap(pid)


@contextlib.contextmanager
def holding_stopped(path: str) -> Iterator[int]:
    """A stopped process that holds an exclusive lock on this file; its PID."""
    with subprocess.Popen([sys.executable, "-c", _LOCK_AND_STOP, path]) as holder:
        try:
            found = os.waitid(os.P_PID, holder.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
            assert found is not None
            assert found.si_code == os.CLD_STOPPED
            yield holder.pid
        finally:
            holder.kill()
