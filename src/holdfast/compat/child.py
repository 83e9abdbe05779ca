"""A child of a drop-in: one live run behind the interface of a process, which several threads may use.

Theory of operation. One thread at a time reads what the guard says; it holds `reading`. Requests are packets that need
no lock and whose answers nobody waits for: what they bring about is in the journal, and the reader finds it there.

The exit and the end. A process has exited when its command has, and callers of `wait` learn that at once. The run is
settled when its whole tree is gone, which is later if the command left stragglers. A child that has exited and is not
settled goes to `_ending`, and later calls finish it. Nothing waits for that: its guard ends the tree by itself.
"""

from __future__ import annotations

import os
import select
import threading
import time
from typing import TYPE_CHECKING, Any

from ..runs.guard_watch import ms_until, watch
from ..values.errors import HoldfastError, RequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ..runs.live import LiveRun

_KILLED = -9  # the code of a command whose exit nobody saw: whatever it was, it does not run any more
_SETTLES_S = 0.05  # how long the caller of `wait` waits for the end of a tree that has nobody left in it
_TAKEN = 1 << 16

_ending: list[Child] = []


class Child:
    """The run of one process of a drop-in."""

    __slots__ = ("_is_closed", "live", "on_close", "owner_pid", "pid", "reading")

    def __init__(self, live: LiveRun) -> None:
        self.live = live
        self.reading = threading.RLock()
        self.owner_pid = os.getpid()
        self.pid = 0
        self.on_close: Callable[[], None] | None = None  # called before the descriptor is closed
        self._is_closed = False

    @property
    def is_ours(self) -> bool:
        """Whether this process started the run. A fork of it must not read from the guard."""
        return os.getpid() == self.owner_pid

    @property
    def descriptor(self) -> int:
        """Readable when the guard has something to say; see `look`."""
        return self.live.control.fileno()

    @property
    def exit_code(self) -> int | None:
        """The code of the command as `subprocess` has it, negative for a signal; None while it runs."""
        outcome = self.live.outcome
        if outcome.exit_code is not None:
            return outcome.exit_code
        if outcome.signal is not None:
            return -outcome.signal
        return _KILLED if self.live.ended or self._is_finalized else None

    @property
    def _is_finalized(self) -> bool:
        """Whether the garbage collector has closed the run, with an event loop that nobody uses. Its guard ends it."""
        return self.live.journal < 0

    def look(self) -> int | None:
        """Take in what the guard has said, without waiting; returns the exit code, if there is one."""
        if not self.is_ours or self._is_closed or not self.reading.acquire(blocking=False):
            return self.exit_code
        try:
            self._take_in()
        finally:
            self.reading.release()
        return self.exit_code

    def wait(self, timeout: float | None) -> int | None:
        """Block until the command has exited; None when the timeout was over before that."""
        until = None if timeout is None else time.monotonic() + timeout
        if not self.reading.acquire(timeout=-1 if timeout is None else max(0.0, timeout)):
            return None
        try:
            while self.exit_code is None and not self._is_over(until):
                self._serve((), until)
            if self.exit_code is None:
                self._take_in()  # with no time at all, this is the only look
            if self.exit_code is not None:
                self._settle(time.monotonic() + _SETTLES_S, ())
            return self.exit_code
        finally:
            self.reading.release()

    def wait_settled(self, unread: Collection[int] = ()) -> None:
        """Block until the whole tree is gone. What comes on the `unread` descriptors is read and thrown away."""
        with self.reading:
            self._settle(None, unread)

    def start_ending(self, *, now: bool = False, signal: int = 0, reason: str = "") -> None:
        """Ask for the end of the whole tree, with its grace or at once. A run that has ended does not mind."""
        try:
            self.live.ask_stop("user", reason, now=now, signal=signal)
        except RequestError:
            pass

    def signal(self, number: int) -> None:
        """Send one signal to the command alone. A run that has ended does not mind."""
        try:
            self.live.ask_signal(number, tree=False)
        except RequestError:
            pass

    def finish(self) -> bool:
        """Reap the guard if the run has settled; False while it has not. Does not wait for it."""
        if self._is_closed or not self.is_ours or self._is_finalized:
            return True
        if not self.reading.acquire(blocking=False):
            return False
        try:
            self._take_in()
            if self.live.ended and self.live.reap():
                self._close()
        except HoldfastError:
            pass  # whoever waits for the child gets it
        finally:
            self.reading.release()
        return self._is_closed

    def _settle(self, until: float | None, unread: Collection[int]) -> None:
        if self._is_closed or not self.is_ours or self._is_finalized:
            return
        reading = list(unread)
        while not self.live.ended and not self._is_over(until):
            self._serve(reading, until)
        if self.live.ended:
            self.live.reap(wait=True)
            self._close()
        else:
            self.finish_later()

    def finish_later(self) -> None:
        """Leave it to later calls to reap the guard, if nobody does before."""
        if not self._is_closed and self not in _ending:
            _ending.append(self)

    def duplicate_sentinel(self) -> int:
        """A descriptor that is readable when the run is settled, which the caller closes; -1: it is settled already."""
        return -1 if self.finish() or self.live.pidfd < 0 else os.dup(self.live.pidfd)

    def _serve(self, unread: Collection[int], until: float | None) -> None:
        """Wait for the guard once, and take in what it says."""
        poll = select.poll()
        poll.register(self.live.control.fileno(), select.POLLIN)
        for fd in unread:
            poll.register(fd, select.POLLIN)
        wait_ms = ms_until(self.live.watchdog.next_at)
        if until is not None:
            wait_ms = min(wait_ms, max(0.0, until - time.monotonic()) * 1000)
        for fd, _ in poll.poll(wait_ms):
            if fd == self.live.control.fileno():
                self._take_in()
            elif not os.read(fd, _TAKEN) and isinstance(unread, list):
                unread.remove(fd)
        watch(self.live)

    def _take_in(self) -> None:
        if not self._is_closed and not self.live.ended and not self._is_finalized:
            self.live.hear_guard()

    def _close(self) -> None:
        self._is_closed = True
        if self.on_close is not None:
            self.on_close()
            self.on_close = None
        self.live.close()

    @staticmethod
    def _is_over(until: float | None) -> bool:
        return until is not None and time.monotonic() >= until


def finish_ended() -> None:
    """Reap the guards of children that have settled since their exit."""
    for child in list(_ending):
        if child.finish() and child in _ending:
            _ending.remove(child)


def report_of(child: Child) -> dict[str, Any]:
    """The report of the child's run as it is now."""
    child.look()
    return child.live.report()
