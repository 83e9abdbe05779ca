"""A lock file between processes, shared or exclusive, with a bound on the wait.

A process waits for a holder that works. If the holder is stopped for two seconds, the wait ends with an error that
names it, because no other process can release its lock.
"""

from __future__ import annotations

import fcntl
import os
import time
from typing import TYPE_CHECKING

from ..values.errors import StateError
from ..values.identity import is_stopped
from .owned_files import open_or_create

if TYPE_CHECKING:
    from collections.abc import Iterator

BOUND_S = 300.0  # a rebuild of the index from very many journals takes minutes
STOPPED_S = 2.0  # longer than a debugger's stop at a breakpoint, shorter than Ctrl-Z
_PAUSE_S = 0.02
_MOMENT_S = 5 * _PAUSE_S


class FileLock:
    """`with lock.shared():` or `with lock.exclusive():`. StateError: the holder is stopped, or the bound has passed."""

    def __init__(self, path: str, bound_s: float = BOUND_S) -> None:
        self.path = path
        self.bound_s = bound_s

    def shared(self) -> _HeldLock:
        """Hold the lock together with other shared holders."""
        return _HeldLock(self, fcntl.LOCK_SH)

    def exclusive(self) -> _HeldLock:
        """Hold the lock alone."""
        return _HeldLock(self, fcntl.LOCK_EX)


class _HeldLock:
    # One descriptor per holder: flock(2) belongs to the open file, so threads of one process exclude each other, too.
    def __init__(self, lock: FileLock, kind: int) -> None:
        self._lock = lock
        self._kind = kind
        self._fd = -1

    def __enter__(self) -> None:
        self._fd = open_or_create(self._lock.path, os.O_RDWR)
        try:
            self._wait()
        except BaseException:
            os.close(self._fd)
            raise

    def _wait(self) -> None:
        looked = time.monotonic()
        end = looked + self._lock.bound_s
        stopped_s = 0.0
        while not self._try():
            stopped = next((pid for pid in holders(self._fd) if is_stopped(pid)), None)
            now = time.monotonic()
            # Each look counts for a moment at most: this process may itself have been stopped since the last look.
            stopped_s = 0.0 if stopped is None else stopped_s + min(now - looked, _MOMENT_S)
            looked = now
            if stopped is not None and stopped_s >= STOPPED_S:
                raise StateError(
                    f"process {stopped} holds {self._lock.path} and is stopped",
                    remedy=f"continue it (kill -CONT {stopped}), or end it",
                )
            if now >= end:
                raise StateError(
                    f"another process holds {self._lock.path} for more than {self._lock.bound_s:g} s",
                    remedy="see which with `fuser` on that file",
                )
            time.sleep(_PAUSE_S)  # the kernel offers only a wait without a bound, or one that a signal ends

    def _try(self) -> bool:
        try:
            fcntl.flock(self._fd, self._kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)


def holders(fd: int) -> Iterator[int]:
    """The PIDs of processes that hold a lock on this file, as far as `/proc/locks` shows them."""
    file = os.fstat(fd)
    name = f"{os.major(file.st_dev):02x}:{os.minor(file.st_dev):02x}:{file.st_ino}"
    try:
        with open("/proc/locks", encoding="ascii") as locks:
            lines = locks.readlines()
    except OSError:
        return
    for line in lines:
        # "1: FLOCK  ADVISORY  WRITE 4711 fe:00:131 0 EOF". A waiting process has an arrow behind the first number.
        match line.split():
            case [_, "FLOCK", _, _, pid, at, _, _] if at == name:
                yield int(pid)
