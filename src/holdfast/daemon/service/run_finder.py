"""Finding the run that an id names: queued, live, just ended, or on disk only.

A live run that another process started (`holdfast run`) is adopted when a client asks for it. The daemon then follows
it, and does not queue, publish or drain it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

from ...state import run_directory
from ...state.index.summary import Filters, RunSummary
from ..queue.admission import keys_of
from ..queue.scheduled_run import ScheduledRun
from .history import not_found

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...state.directory import StateDirectory
    from ...values.spec import RunSpec
    from ..engines.engine import Engine
    from ..queue.queue_order import Place
    from ..queue.scheduler import Scheduler
    from .history import History


class QueuedPage(NamedTuple):
    """Queued runs, newest first. `cut_at` is the place of the last one when there are more; None: these are all."""

    runs: list[RunSummary]
    cut_at: Place | None


_RECENT = 512  # reports of runs that have just ended: a client that waited for a run asks for its report next


class RunFinder:
    """Finds runs by their ids, and adopts live ones."""

    def __init__(self, state: StateDirectory, scheduler: Scheduler, history: History, engine: Engine) -> None:
        self._state = state
        self._scheduler = scheduler
        self._history = history
        self._engine = engine
        self._adopting: dict[str, asyncio.Future[ScheduledRun]] = {}
        self._recent: dict[str, dict[str, Any]] = {}

    async def report(self, run_id: str) -> dict[str, Any]:
        """The report of any run: queued, live or over. RunNotFoundError; JournalError: its journal cannot be read."""
        scheduled = self._scheduler.runs.get(run_id)
        # A run that ends in the queue is over as soon as its record is on disk, because other processes see that too.
        if scheduled is not None and not (scheduled.is_queued and self._state.has(run_id)):
            return self._scheduler.report(scheduled)
        if run_id in self._recent and self._state.has(run_id):
            return self._recent[run_id]
        return await self._history.report(run_id)

    def journal(self, run_id: str) -> int:
        """A new descriptor of the run's journal, which the caller closes. -1: the run is queued. RunNotFoundError."""
        try:
            if self._state.has(run_id):
                return run_directory.open_journal(self._state.run_path(run_id))
        except FileNotFoundError:
            pass
        if run_id in self._scheduler.runs:
            return -1
        raise not_found(self._state, run_id)

    def queued(self, filters: Filters, after: Place | None, limit: int) -> QueuedPage:
        """The next queued runs of a list, at most this many, newest first.

        It looks at specs, and makes reports only for the runs of the page: there may be 100,000 queued runs.
        """
        found: list[RunSummary] = []
        if filters.statuses or filters.causes:
            return QueuedPage(found, None)  # a queued run has neither
        runs, matches = self._scheduler.runs, _matcher(filters)
        for place in self._scheduler.queue_order.after(after, filters.session):
            scheduled = runs[place[1]]
            if scheduled.spec is None or not matches(scheduled.spec, place[0]):
                continue
            if len(found) == limit:
                return QueuedPage(found, (found[-1].begun_ns, found[-1].run_id))
            found.append(RunSummary(place[1], place[0], self._scheduler.report(scheduled), None, 0, 0, final=False))
        return QueuedPage(found, None)

    async def find(self, run_id: str) -> ScheduledRun | None:
        """The run if it is queued or live; None: it is over. RunNotFoundError: there is no such run.

        A live run that another process started is adopted first.
        """
        scheduled = self._scheduler.runs.get(run_id)
        if scheduled is not None or run_id in self._recent:
            return scheduled
        if run_id not in self._adopting:
            if (await self._history.report(run_id))["state"] in ("settled", None):
                return None
            if run_id in self._scheduler.runs:
                return self._scheduler.runs[run_id]
        # A run that occupies a slot is ours: recovery has reserved the slot and not adopted the run yet.
        ours = self._scheduler.keys(run_id)
        return await self.adopt(ScheduledRun(run_id, ours or keys_of(None, None, None), managed=ours is not None))

    async def adopt(self, scheduled: ScheduledRun) -> ScheduledRun:
        """Follow a run that was started before; concurrent callers share one adoption. Fails as Engine.adopt."""
        run_id = scheduled.run_id
        if run_id in self._scheduler.runs:
            return self._scheduler.runs[run_id]
        if run_id not in self._adopting:
            self._adopting[run_id] = asyncio.ensure_future(self._adopt(scheduled))
            self._adopting[run_id].add_done_callback(lambda _: self._adopting.pop(run_id, None))
        return await asyncio.shield(self._adopting[run_id])

    async def _adopt(self, scheduled: ScheduledRun) -> ScheduledRun:
        self._scheduler.follow(scheduled, await self._engine.adopt(scheduled.run_id))
        return scheduled

    def remember(self, scheduled: ScheduledRun) -> None:
        """Keep the report of a run that has just settled."""
        assert scheduled.final is not None
        self._recent[scheduled.run_id] = scheduled.final
        if len(self._recent) > _RECENT:
            del self._recent[next(iter(self._recent))]
        self._history.refresh_soon()

    def forget(self, run_id: str) -> None:
        """Forget the report of a run that was removed from the state directory."""
        self._recent.pop(run_id, None)


def _matcher(filters: Filters) -> Callable[[RunSpec, int], bool]:
    """As `Filters.matches` but for the session, for the spec of a queued run and the time it was queued."""
    _, _, name, _, _, labels, since_ns, until_ns = filters

    def matches(spec: RunSpec, queued_ns: int) -> bool:
        return (
            name in (None, spec.name)
            and filters.parent in (None, spec.parent)
            and (not labels or set(labels) <= set(dict(spec.labels).items()))
            and (since_ns is None or queued_ns >= since_ns)
            and (until_ns is None or queued_ns < until_ns)
        )

    return matches
