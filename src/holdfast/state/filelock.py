"""A lock between processes on a file of its own, shared or exclusive, with a bound on the waiting."""

from __future__ import annotations

import fcntl
import os
import time
from typing import TYPE_CHECKING

from ..errors import StateError

if TYPE_CHECKING:
    from types import TracebackType

BOUND_S = 300.0  # making the index again from very many journals takes minutes; a stopped process takes for ever
_PAUSE_S = 0.02


class FileLock:
    """`with lock.shared():` or `with lock.exclusive():`. StateError: somebody held it for longer than the bound."""

    def __init__(self, path: str, bound_s: float = BOUND_S) -> None:
        self.path = path
        self.bound_s = bound_s

    def shared(self) -> _Held:
        """As many as want to, at once."""
        return _Held(self, fcntl.LOCK_SH)

    def exclusive(self) -> _Held:
        """Alone."""
        return _Held(self, fcntl.LOCK_EX)


class _Held:
    # A descriptor for each holder: locks of this kind belong to the open file, so threads exclude each other too.
    def __init__(self, lock: FileLock, kind: int) -> None:
        self._lock = lock
        self._kind = kind
        self._fd = -1

    def __enter__(self) -> None:
        self._fd = os.open(self._lock.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            self._wait()
        except BaseException:
            os.close(self._fd)
            raise

    def _wait(self) -> None:
        end = time.monotonic() + self._lock.bound_s
        while True:
            try:
                fcntl.flock(self._fd, self._kind | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() >= end:
                    raise StateError(
                        f"another process holds {self._lock.path} for more than {self._lock.bound_s:g} s",
                        remedy="see which with `fuser` on that file; it may be stopped",
                    ) from None
            time.sleep(_PAUSE_S)  # the kernel offers waiting without a bound, or a signal

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._fd)
