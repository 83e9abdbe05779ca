"""An alarm: a timer as a descriptor, which becomes readable at a time of CLOCK_MONOTONIC.

The timers of an event loop will not do: the loop's clock may be a test's clock, which jumps ahead when nothing happens.
Guards live in real time.
"""

from __future__ import annotations

import ctypes
import os

_CLOCK_MONOTONIC = 1
_ABSOLUTE = 1
_NEVER = float("inf")
_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC


class _Times(ctypes.Structure):
    _fields_ = [(name, ctypes.c_long) for name in ("interval_s", "interval_ns", "at_s", "at_ns")]


_libc = ctypes.CDLL(None, use_errno=True)


class Alarm:
    """One alarm, silent at first. OSError: there is no descriptor left for it."""

    __slots__ = ("_at", "fd")

    def __init__(self) -> None:
        self.fd: int = _libc.timerfd_create(_CLOCK_MONOTONIC, _FLAGS)
        if self.fd < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        self._at: float | None = None

    def ring_by(self, at: float) -> None:
        """Let the descriptor become readable at this time, or earlier if that was asked for before. Infinity: never."""
        if at == _NEVER or (self._at is not None and self._at <= at):
            return
        self._at = at
        seconds = int(at)
        times = _Times(0, 0, seconds, max(1, int((at - seconds) * 1e9)))  # all zeros would switch it off
        _libc.timerfd_settime(self.fd, _ABSOLUTE, ctypes.byref(times), None)

    def quiet(self) -> None:
        """Take note that it rang: it is silent until the next `ring_by`."""
        self._at = None
        try:
            os.read(self.fd, 8)
        except BlockingIOError:
            pass  # it was set again before anybody looked

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self.fd)
