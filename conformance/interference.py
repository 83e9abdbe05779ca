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
    from collections.abc import Callable

    from .oracle import Leaf
    from .surroundings import Surroundings

_IN_POSITION_S = 10.0
_INTO_GRACE_S = 0.9  # the deadline of 0.6 s has passed by then, and the grace of 1.2 s has not
_ACROSS_S = 3.0  # the command is over by then, a second after its deadline
_STOPPED_SUPERVISOR_S = 2.0  # past the deadline, and past the end of the work
_STOPPING_S, _STOPPED_S, _BETWEEN_S = 6.0, 0.002, 0.004
# For all repeats of a cell: a peer that is slower is not tried more often. This is enough for a defect that
# shows at one stop of twenty (Go's forkExec), not of thousands: supervisord gets stuck once in some 27 cells.
_STOPS = 150

_SIGNALS = {"terminate": signal.SIGTERM, "interrupt": signal.SIGINT}
_STOPS_LEFT = iter(range(_STOPS))


class Interference:
    """One interference with one cell. LookupError if the command does not get into position."""

    def __init__(self, around: Surroundings, leaf: Leaf, program: str | None) -> None:
        self.kind, self.around, self.leaf, self.program = around.kind, around, leaf, program
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
            case "stop-supervisor":
                self._in_position(minding=False)
                _stop([supervisor], _STOPPED_SUPERVISOR_S)
            case "silence":
                self._in_position()
                assert self.around.filesystem is not None
                self.around.filesystem.fall_silent()
            case "stop-and-continue":
                _stop_and_continue(adapter, answered)

    def undo(self) -> None:
        """Thaw frozen processes, and let processes go on that wait for a silent file system."""
        self._stack.close()
        if self.around.filesystem is not None:
            self.around.filesystem.abort()

    def _stop_across(self) -> None:
        """Stop everything but the command while its deadline passes and it exits: nobody watches it then."""
        self._in_position(minding=False)
        _stop([member.pid for member in self.leaf.members() if member.program != self.program], _ACROSS_S)

    def _in_position(self, *, minding: bool = True) -> int:
        found = wait_for_program(self.leaf, self.program or "", _IN_POSITION_S, minding=minding)
        if found is None:
            raise LookupError(f"{self.program} did not get in position")
        return found


def _stop(pids: list[int], seconds: float) -> None:
    for number, pause_s in ((signal.SIGSTOP, seconds), (signal.SIGCONT, 0.0)):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        time.sleep(pause_s)


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
