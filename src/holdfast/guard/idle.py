"""Guards that have ended a run and can keep another: starting one costs as much as a short run itself.

A guard comes here only with its tree gone, and goes to a new run only while this process still is what the guard
inherited from (see `inheritance`). Whoever holds them lets go of all of them before it is done; one whose owner dies
sees its socket close and exits.
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, NamedTuple

from .inheritance import fingerprint

if TYPE_CHECKING:
    from _socket import socket

MOST_IDLE = 32
LONGEST_RUN_ID = 20  # a guard shows the run it keeps in its command line, in the space of the first one's


class IdleGuard(NamedTuple):
    """A guard without a run."""

    control: socket
    pidfd: int
    pid: int

    def end(self) -> None:
        """End it and reap it: there is nothing that depends on it."""
        self.control.close()
        if self.pidfd < 0:
            return
        try:
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
            os.waitid(os.P_PIDFD, self.pidfd, os.WEXITED)
        except (ProcessLookupError, ChildProcessError):
            pass
        os.close(self.pidfd)


class IdleGuards:
    """Idle guards that were all started by a process that looked the same; once it looks otherwise they are closed.

    A run keeps the set its guard belongs to, so a guard that was started before a change never gets into the next.
    """

    __slots__ = ("_guards", "_is_closed", "_look")

    def __init__(self, look: tuple[object, ...] | None = None) -> None:
        self._guards: list[IdleGuard] = []
        self._look = look
        self._is_closed = look is None

    def for_now(self) -> IdleGuards:
        """This set, or a new one when this process has changed since."""
        look = fingerprint()
        if look is not None and look == self._look:
            return self
        self.close()
        return IdleGuards(look)

    @property
    def has_room(self) -> bool:
        """Whether one more would be kept."""
        return not self._is_closed and len(self._guards) < MOST_IDLE

    def take(self) -> IdleGuard | None:
        """One that passes on what a new one would."""
        return self._guards.pop() if self._guards else None

    def give(self, guard: IdleGuard) -> None:
        """Keep it for the next run; only while there is room."""
        self._guards.append(guard)

    def close(self) -> None:
        """End every one, and keep none from now on."""
        self._is_closed = True
        while self._guards:
            self._guards.pop().end()
