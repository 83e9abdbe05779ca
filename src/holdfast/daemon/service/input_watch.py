"""The watch for runs that wait for input: it looks at them, because the kernel has no event for that.

The watch looks only at runs with a pty or a stdin pipe, once a second, while a client listens to run.waiting. It looks
at a bounded number of runs in one round; with more runs, each has its turn later. A look takes about 0.2 ms, so a round
is cut into short steps. A change from one look to the next is published as run.waiting. The event is not stored: a
client that comes later asks for the list of runs, and the daemon looks again for the answer.
"""

from __future__ import annotations

import asyncio
import time
from itertools import islice
from typing import TYPE_CHECKING

from ...proc.input_wait import NO_STDIN
from ...values.errors import HoldfastError
from ..events.event import WAITING

if TYPE_CHECKING:
    from ...proc.input_wait import Stdin
    from ..events.event_log import EventLog
    from ..queue.scheduled_run import ScheduledRun

EVERY_S = 1.0
_AT_ONCE = 200  # runs in one round
_STEP = 20  # runs before the event loop gets its turn
_ASKED = 50  # runs that `count` looks at


class _InputRun:
    """A run that can wait for input, and whether it did at the last look."""

    __slots__ = ("scheduled", "seen", "session")

    def __init__(self, scheduled: ScheduledRun, session: str | None) -> None:
        self.scheduled = scheduled
        self.session = session
        self.seen: bool | None = False

    def look(self) -> bool:
        """Look again; returns whether the answer has changed."""
        before, self.seen = self.seen, _stdin(self.scheduled).is_waited_for()
        return self.seen is not before


class InputWatch:
    """The live runs of this daemon that can wait for input."""

    def __init__(self, events: EventLog) -> None:
        self._events = events
        self._runs: dict[str, _InputRun] = {}  # the run that was looked at longest ago comes first
        self._asked_at = float("-inf")
        self._task: asyncio.Task[None] | None = None

    def begin(self, scheduled: ScheduledRun) -> None:
        """Watch a run that was started or adopted."""
        if scheduled.run is None or not scheduled.run.takes_input:
            return  # most runs: this check reads nothing
        if not scheduled.managed or _stdin(scheduled).kind not in ("pty", "pipe"):
            return
        try:
            self._runs[scheduled.run_id] = _InputRun(scheduled, scheduled.report["session"])
        except HoldfastError:
            return  # its record cannot be read, as in _stdin
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._watch(), name="input watch")

    def count(self, session: str | None = None) -> int:
        """How many runs, of this session or of all, wait for input; looks at them if the last call was a second ago."""
        if time.monotonic() - self._asked_at >= EVERY_S:
            self._asked_at = time.monotonic()
            for run_id in list(islice(self._runs, _ASKED)):
                self._look(run_id)
        watched_runs = self._runs.values() if session is None else self._of(session)
        return sum(watched.seen is True for watched in watched_runs)

    def _of(self, session: str) -> list[_InputRun]:
        return [watched for watched in self._runs.values() if watched.session == session]

    async def _watch(self) -> None:
        while self._runs and not self._events.closed:
            await asyncio.sleep(EVERY_S)
            self._forget_ended()
            if self._events.wants(WAITING):
                await self._round()

    async def _round(self) -> None:
        for number, run_id in enumerate(list(islice(self._runs, _AT_ONCE)), 1):
            self._look(run_id)
            if number % _STEP == 0:
                await asyncio.sleep(0)

    def _look(self, run_id: str) -> None:
        watched = self._runs.pop(run_id, None)
        if watched is None or watched.scheduled.settled.is_set():
            return  # its events tell that it is over
        self._runs[run_id] = watched
        if watched.look():
            self._events.tell(WAITING, run_id, watched.session, {"waiting_for_input": watched.seen})

    def _forget_ended(self) -> None:
        for run_id in [run_id for run_id, watched in self._runs.items() if watched.scheduled.settled.is_set()]:
            del self._runs[run_id]


def _stdin(scheduled: ScheduledRun) -> Stdin:
    """The stdin of the run; NO_STDIN if its record cannot be read, which the scheduler logs."""
    try:
        return NO_STDIN if scheduled.run is None else scheduled.run.input
    except HoldfastError:
        return NO_STDIN
