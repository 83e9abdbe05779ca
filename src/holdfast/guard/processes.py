"""The two processes of a guard, sentinel and guard: find them, continue them, and kill both.

The owner starts the sentinel and has its PID and pidfd. The guard is the sentinel's child. Its PID is known from
STARTED, and from `/proc` before that. A PID alone may belong to a stranger by the time we signal it. So we pin the
process by a pidfd first, and then look whether its command line still names the guard's first run.

A sentinel that sees its guard die begins to take the run over, and a guard that sees its sentinel die starts a
stand-in, which does the same later. So both are stopped before one of them is killed.
"""

from __future__ import annotations

import os
import select
import time

from ..values.fast_imports import signal
from ..values.identity import proc_is_ours
from ..values.process_memory import command_line
from .binary import guard_path

_GUARD = b"holdfast-guard\n"
_WRITER = b"holdfast-write\n"  # its memory, and so its command line, is the sentinel's
_WRITERS_EXIT_SIGNAL = b"0"  # it has this from its first moment, and its name only later
_NAME_MAX = 15  # the kernel keeps so much of a process's name
_DIE_WITHIN_S = 1.0  # a process in a system call that cannot be interrupted takes longer, or for ever


def guard_of(sentinel_pid: int) -> int:
    """The PID of the guard below this sentinel; 0 when there is none, or /proc does not tell."""
    if not sentinel_pid:
        return 0
    own = words_of(sentinel_pid)[:2]
    found = (pid for pid in _children_of(sentinel_pid) if words_of(pid)[:2] == own)
    return next((pid for pid in found if _exit_signal(pid) != _WRITERS_EXIT_SIGNAL), 0)


def sentinel_of(guard_pid: int) -> int:
    """The PID of the sentinel above this guard; 0 when it has lost its sentinel, or /proc does not tell."""
    words = words_of(guard_pid)[:2]
    fields = read(f"/proc/{guard_pid}/stat").rpartition(b")")[2].split()
    parent = int(fields[1]) if len(fields) > 1 else 0
    return parent if len(words) > 1 and words_of(parent)[:2] == words else 0


def kill_both(pidfd: int, sentinel_pid: int, guard_pid: int, first_run: str, within_s: float = _DIE_WITHIN_S) -> None:
    """Kill sentinel and guard, as far as they are there, and wait until they are dead; the caller reaps.

    A stand-in, which the guard starts when it sees its sentinel die, is killed as well. `pidfd` is the sentinel's; -1:
    the caller did not start it. `guard_pid`: what STARTED says; 0: nothing yet. `first_run` is the first run that this
    guard kept.
    """
    until = time.monotonic() + within_s
    guard_pid = guard_of(sentinel_pid) or guard_pid  # before the sentinel dies, because that gives the guard to init
    guard = _pin(guard_pid, first_run)
    sentinel = _pin(sentinel_of(guard_pid), first_run) if pidfd < 0 else pidfd
    pinned = {guard, sentinel} - {-1, pidfd}
    try:
        for target in (sentinel, guard):  # both stand still: neither does anything about the death of the other
            _send(target, signal.SIGSTOP)
        # Before the guard dies: a stand-in that sees it die takes the run over, and forks.
        pinned |= _kill_stand_ins(guard_pid, sentinel_pid, first_run, until)
        for target in (sentinel, guard):
            _send(target, signal.SIGKILL)
        for target in (sentinel, guard):
            _await_exit(target, until)
        # After the guard's death no other stand-in can appear. One that came before the guard stood still is found now.
        pinned |= _kill_stand_ins(guard_pid, sentinel_pid, first_run, until)
    finally:
        for target in pinned:
            os.close(target)


def _kill_stand_ins(guard_pid: int, sentinel_pid: int, first_run: str, until: float) -> set[int]:
    """Kill the stand-ins of this guard, and wait until they are dead; returns their pidfds.

    They are in the session of their guard. A guard of another run with this id is not.
    """
    others = _named_as_guards() - {guard_pid, sentinel_pid}
    stand_ins = {_pin(pid, first_run) for pid in others if _session_of(pid) == guard_pid} - {-1}
    for target in stand_ins:
        _send(target, signal.SIGKILL)
    for target in stand_ins:
        _await_exit(target, until)
    return stand_ins


def _named_as_guards() -> set[int]:
    """Every process with the name of a guard. Only /proc tells of stand-ins: they are children of init, or of another.

    A writer has another name. It ends by itself, when it has written what it has.
    """
    return _named({_GUARD, os.fsencode(os.path.basename(guard_path()))[:_NAME_MAX] + b"\n"})


def _named(names: set[bytes]) -> set[int]:
    pids = {int(name) for name in os.listdir("/proc") if name.isdigit()} if proc_is_ours() else set()
    return {pid for pid in pids if read(f"/proc/{pid}/comm") in names}


def _exit_signal(pid: int) -> bytes:
    fields = read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return fields[35] if len(fields) > 35 else b""


def _session_of(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return -1  # there is no such process any more


def _await_exit(pidfd: int, until: float) -> None:
    if pidfd >= 0:
        gone = select.poll()
        gone.register(pidfd, select.POLLIN)
        gone.poll(max(0.0, until - time.monotonic()) * 1000)


def _send(pidfd: int, number: int) -> None:
    try:
        if pidfd >= 0:
            signal.pidfd_send_signal(pidfd, number)
    except ProcessLookupError:
        pass


def _pin(pid: int, first_run: str) -> int:
    """A pidfd of this process if it is a guard whose first run is this one; else -1."""
    if pid <= 1:
        return -1
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return -1
    if is_guard_of(pid, first_run):
        return pidfd
    os.close(pidfd)
    return -1


def is_guard_of(pid: int, first_run: str) -> bool:
    """Whether this process shows the command line of a guard whose first run is this one."""
    return first_run.encode() in words_of(pid)[1:3]


def has_guard(run_id: str) -> bool:
    """Whether a live guard, in whatever state directory, shows this run on its command line."""
    return any(is_guard_of(pid, run_id) for pid in _named_as_guards())


def continue_both(guard_pid: int, first_run: str) -> None:
    """Send SIGCONT to this guard and to its sentinel, as far as they are there; for a process that is not their parent.

    A process that is not stopped does not notice. If both are gone, their writer is continued.
    """
    found = [_continue_if_guard(pid, first_run) for pid in (sentinel_of(guard_pid), guard_pid)]
    if not any(found):
        continue_writers(first_run)


def continue_writers(first_run: str) -> None:
    """Send SIGCONT to the writers that a dead guard left: one that is stopped keeps the lock on the journal.

    The kernel continues a writer when its parent dies. This is for a writer that somebody has stopped after that.
    """
    for pid in _named({_WRITER}) | _named_as_guards():  # it has its name only after a moment
        _continue_if_guard(pid, first_run)


def _continue_if_guard(pid: int, first_run: str) -> bool:
    if (pidfd := _pin(pid, first_run)) < 0:
        return False
    continue_one(pidfd)
    os.close(pidfd)
    return True


def continue_one(pidfd: int) -> None:
    """Send SIGCONT to this process, which may be dead. A process that is not stopped does not notice."""
    _send(pidfd, signal.SIGCONT)


def has_exited(pidfd: int) -> bool:
    """Whether this process is dead."""
    gone = select.poll()
    gone.register(pidfd, select.POLLIN)
    return bool(gone.poll(0))


def _children_of(pid: int) -> list[int]:
    return [int(word) for word in read(f"/proc/{pid}/task/{pid}/children").split()]


def words_of(pid: int) -> list[bytes]:
    """The command line of a process; empty when there is no such process, or it cannot be read."""
    return command_line(pid).split(b"\0")


def read(path: str) -> bytes:
    """The beginning of a file in /proc; empty when it cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(fd, 65536)
    except OSError:
        return b""
    finally:
        os.close(fd)
