"""The two processes of a guard, sentinel and guard: find the guard, and kill both.

The owner starts the sentinel and has its PID and pidfd. The guard is the sentinel's child. Its PID is known from
STARTED, and from `/proc` before that. A PID alone may belong to a stranger by the time we signal it. So we pin the
process by a pidfd first, and then look whether its command line still names the guard's first run.

The sentinel is signalled first. A sentinel that sees its guard die would begin to take the run over.
"""

from __future__ import annotations

import os
import select

from ..values.fast_imports import signal

_DIES_WITHIN_MS = 1000  # a process in a system call that cannot be interrupted takes longer, or for ever


def guard_of(sentinel_pid: int) -> int:
    """The PID of the guard below this sentinel; 0 when there is none, or /proc does not tell."""
    if not sentinel_pid:
        return 0
    own = _words_of(sentinel_pid)[:2]
    return next((pid for pid in _children_of(sentinel_pid) if _words_of(pid)[:2] == own), 0)


def sentinel_of(guard_pid: int) -> int:
    """The PID of the sentinel above this guard; 0 when it has lost its sentinel, or /proc does not tell."""
    words = _words_of(guard_pid)[:2]
    fields = _read(f"/proc/{guard_pid}/stat").rpartition(b")")[2].split()
    parent = int(fields[1]) if len(fields) > 1 else 0
    return parent if len(words) > 1 and _words_of(parent)[:2] == words else 0


def kill_both(pidfd: int, sentinel_pid: int, guard_pid: int, first_run: str) -> None:
    """Kill sentinel and guard, as far as they are there, and wait until the guard is dead; the caller reaps.

    `pidfd` is the sentinel's; -1: none. `guard_pid`: what STARTED says; 0: nothing yet. `first_run` is the first run
    that this guard kept.
    """
    guard_pid = guard_of(sentinel_pid) or guard_pid  # before the sentinel dies, because that gives the guard to init
    guard = _pin(guard_pid, first_run)
    try:
        for target in (pidfd, guard):
            if target >= 0:
                _kill(target)
        if guard >= 0:
            gone = select.poll()
            gone.register(guard, select.POLLIN)
            gone.poll(_DIES_WITHIN_MS)
    finally:
        if guard >= 0:
            os.close(guard)


def _kill(pidfd: int) -> None:
    try:
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
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
    if first_run.encode() in _words_of(pid)[1:3]:
        return pidfd
    os.close(pidfd)
    return -1


def _children_of(pid: int) -> list[int]:
    return [int(word) for word in _read(f"/proc/{pid}/task/{pid}/children").split()]


def _words_of(pid: int) -> list[bytes]:
    return _read(f"/proc/{pid}/cmdline").split(b"\0")


def _read(path: str) -> bytes:
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
