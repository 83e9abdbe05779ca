"""Signals of the daemon's process, received as calls in its event loop.

The loop's own signal handlers are not used. Removing one sets the signal to its default action for a moment. A signal
that arrives in that moment, in any thread, kills a process that had almost ended well. Here a signal is handled until
it is ignored, with no moment in between.
"""

from __future__ import annotations

import asyncio
import signal
import socket
from collections import Counter
from collections.abc import Callable, Mapping
from types import FrameType


class Signals:
    """Calls `taken[number](times)` in the running loop when signals arrive. `ignore` ignores them for good."""

    def __init__(self, taken: Mapping[int, Callable[[int], None]]) -> None:
        self._taken = taken
        self._loop = asyncio.get_running_loop()
        self._receives, self._sends = socket.socketpair()
        self._receives.setblocking(False)
        self._sends.setblocking(False)
        self._loop.add_reader(self._receives, self._call)
        # The interpreter writes each number as a byte, from whichever thread the kernel interrupts.
        signal.set_wakeup_fd(self._sends.fileno(), warn_on_full_buffer=False)
        for number in taken:
            signal.signal(number, _only_wake)

    def ignore(self) -> None:
        """Ignore these signals until the process ends."""
        for number in self._taken:
            signal.signal(number, signal.SIG_IGN)
        signal.set_wakeup_fd(-1)
        self._loop.remove_reader(self._receives)
        # The sockets stay open: another thread may have been interrupted before that, and be about to write its byte.

    def _call(self) -> None:
        came = Counter(self._receives.recv(4096))
        for number, call in self._taken.items():
            if times := came[number]:
                call(times)


def _only_wake(_number: int, _frame: FrameType | None) -> None:
    """A handler that does nothing: with a handler set, the interpreter writes the wake-up byte."""
