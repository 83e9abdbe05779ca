"""Interference with a cell from outside while it runs."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import TYPE_CHECKING

from tests.support.freezer import Freezer

from .oracle import wait_for_program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .oracle import Leaf

SECRET_FD = 9
_IN_POSITION_S = 10.0
_INTO_GRACE_S = 0.9  # the deadline of 0.6 s has passed by then, and the grace of 1.2 s has not
_ACROSS_S = 3.0  # the command is over by then, a second after its deadline
_STOPPING_S, _STOPPED_S, _BETWEEN_S = 6.0, 0.002, 0.004
# For all repeats of a cell: a peer that is slower is not tried more often. This is enough for a defect that
# shows at one stop of twenty (Go's forkExec), not of thousands: supervisord gets stuck once in some 27 cells.
_STOPS = 150

_SIGNALS = {"terminate": signal.SIGTERM, "interrupt": signal.SIGINT}
_STOPS_LEFT = iter(range(_STOPS))


class Interference:
    """One interference with one cell. LookupError if the command does not get into position."""

    def __init__(self, kind: str | None, leaf: Leaf, program: str | None) -> None:
        self.kind, self.leaf, self.program = kind, leaf, program
        self._stack = contextlib.ExitStack()

    def act(self, adapter: int, supervisor: int, answered: Callable[[], bool]) -> None:
        """Act when the adapter is about to start the command; return when it is done, or when all answers are there."""
        match self.kind:
            case "freeze":
                self._stack.enter_context(Freezer()).freeze(self._in_position())
            case "kill" | "terminate" | "interrupt" | "kill-in-grace":
                self._in_position()
                if self.kind == "kill-in-grace":
                    time.sleep(_INTO_GRACE_S)
                os.kill(supervisor, _SIGNALS.get(self.kind, signal.SIGKILL))
            case "stop-across":
                self._stop_across()
            case "stop-and-continue":
                _stop_and_continue(adapter, answered)

    def undo(self) -> None:
        """Thaw frozen processes."""
        self._stack.close()

    def _stop_across(self) -> None:
        """Stop everything but the command while its deadline passes and it exits: nobody watches it then."""
        self._in_position(minding=False)
        others = [member.pid for member in self.leaf.members() if member.program != self.program]
        for number, pause_s in ((signal.SIGSTOP, _ACROSS_S), (signal.SIGCONT, 0.0)):
            for pid in others:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
            time.sleep(pause_s)

    def _in_position(self, *, minding: bool = True) -> int:
        found = wait_for_program(self.leaf, self.program or "", _IN_POSITION_S, minding=minding)
        if found is None:
            raise LookupError(f"{self.program} did not get in position")
        return found


@contextlib.contextmanager
def secret_descriptor(path: str) -> Iterator[None]:
    """An open descriptor that a new process inherits, and should not pass on."""
    secret = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    os.dup2(secret, SECRET_FD)
    os.close(secret)
    yield
    os.close(SECRET_FD)


def _stop_and_continue(group: int, answered: Callable[[], bool]) -> None:
    """Stop and continue the supervisor at many moments, as a user at a keyboard might."""
    end = time.monotonic() + _STOPPING_S
    while not answered() and time.monotonic() < end and next(_STOPS_LEFT, None) is not None:
        try:
            os.killpg(group, signal.SIGTSTP)
            time.sleep(_STOPPED_S)
            os.killpg(group, signal.SIGCONT)
        except ProcessLookupError:
            return
        time.sleep(_BETWEEN_S)
