"""Which runs wait for input: looked at, because no kernel tells; for as long as somebody wants to know.

Only runs with a pty or a stdin pipe are looked at, once a second while somebody listens to run.waiting, and at most so
many in one round: with more, each has its turn later. A look takes about 0.2 ms, so rounds are cut into short steps.
What changed from one look to the next is told. It is not stored: who comes later asks for the runs, which looks.
"""

from __future__ import annotations

import asyncio
import time
from itertools import islice
from typing import TYPE_CHECKING

from .event import WAITING

if TYPE_CHECKING:
    from .events import EventLog
    from .tracked import Tracked

EVERY_S = 1.0
_AT_ONCE = 200  # runs in one round
_STEP = 20  # runs before others get their turn
_ASKED = 50  # runs that are looked at for a question


class Attention:
    """The live runs of ours that can wait for input, and what was last seen of each."""

    def __init__(self, events: EventLog) -> None:
        self._events = events
        self._runs: dict[str, Tracked] = {}  # those whose look is longest ago first
        self._seen: dict[str, bool | None] = {}
        self._asked_at = float("-inf")
        self._task: asyncio.Task[None] | None = None

    def begin(self, tracked: Tracked) -> None:
        """A run was started, or found again."""
        if not tracked.managed or tracked.run is None or tracked.run.input.kind not in ("pty", "pipe"):
            return
        self._runs[tracked.run_id] = tracked
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._watch(), name="attention")

    def count(self) -> int:
        """How many wait for input now; looks again when the last look was a second ago."""
        if time.monotonic() - self._asked_at >= EVERY_S:
            self._asked_at = time.monotonic()
            for tracked in list(islice(self._runs.values(), _ASKED)):
                self._look(tracked)
        return sum(seen is True for seen in self._seen.values())

    async def _watch(self) -> None:
        while self._runs and not self._events.closed:
            await asyncio.sleep(EVERY_S)
            if self._events.wants(WAITING):
                await self._round()
            else:
                self._forget_ended()

    async def _round(self) -> None:
        for number, tracked in enumerate(list(islice(self._runs.values(), _AT_ONCE)), 1):
            self._look(tracked)
            if number % _STEP == 0:
                await asyncio.sleep(0)

    def _look(self, tracked: Tracked) -> None:
        run_id = tracked.run_id
        if self._runs.pop(run_id, None) is None:
            return
        before = self._seen.pop(run_id, False)
        if tracked.settled.is_set() or tracked.run is None:
            return  # its events have told the rest
        self._runs[run_id] = tracked
        now = self._seen[run_id] = tracked.run.input.is_waited_for()
        if now is not before:
            session = tracked.run.report["session"]
            self._events.tell(WAITING, run_id, session, {"waiting_for_input": now})

    def _forget_ended(self) -> None:
        for run_id in [run_id for run_id, tracked in self._runs.items() if tracked.settled.is_set()]:
            del self._runs[run_id]
            self._seen.pop(run_id, None)
