"""Runs that start after other runs: each is held until every run that it names in `after` has succeeded.

A run ends when it is settled: nothing of its tree uses the host any more. If it has not succeeded, the run that waits
for it is cancelled, and with that every run that waits in turn. The daemon looks at the named run after it has queued
the waiting one, so an end in between is seen. After a restart it looks again, and finds also what ended without it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ...journal import unstarted
from ...values.errors import HoldfastError, JournalError, RunNotFoundError, SpecError
from ...values.run_id import check_run_id

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from ..process.log import Log
    from .scheduled_run import ScheduledRun
    from .scheduler import Scheduler

_AGAIN_S = 5.0


class Succession:
    """Releases held runs. `find` returns a queued or live run, None for a run that is over; `report` any report."""

    def __init__(
        self,
        scheduler: Scheduler,
        find: Callable[[str], Awaitable[ScheduledRun | None]],
        report: Callable[[str], Awaitable[dict[str, Any]]],
        log: Log,
    ) -> None:
        self._scheduler = scheduler
        self._find = find
        self._report = report
        self._log = log

    async def check(self, run_ids: Sequence[str]) -> None:
        """SpecError: one of the ids names no run of this state directory."""
        for run_id in run_ids:
            try:
                await self._report(check_run_id(run_id, field="after"))
            except RunNotFoundError:
                remedy = "give the id of a run that holdfast ps --all lists"
                raise SpecError(f"there is no run {run_id} to start after", field="after", remedy=remedy) from None

    def begin(self, scheduled: ScheduledRun, run_ids: Sequence[str]) -> None:
        """Release this queued run when the named runs have succeeded; cancel it when one of them has not."""
        for run_id in run_ids:
            self._scheduler.begin(self._succeed(scheduled, run_id))

    async def _succeed(self, scheduled: ScheduledRun, run_id: str) -> None:
        while not scheduled.settled.is_set():
            try:
                report = await self._ended(run_id)
            except (RunNotFoundError, JournalError):
                self._end(scheduled, f"nobody knows how the run {run_id} has ended, for which it waited")
            except HoldfastError as error:
                self._log.warning(f"the run {run_id} cannot be found yet: {error}", run_id=scheduled.run_id)
                await asyncio.sleep(_AGAIN_S)
                continue
            else:
                self._decide(scheduled, run_id, report)
            return

    async def _ended(self, run_id: str) -> dict[str, Any]:
        """The report of a run when it is over. HoldfastError: it cannot be found, or its record cannot be read."""
        before = await self._find(run_id)
        if before is None:
            return await self._report(run_id)
        await before.settled.wait()
        return before.report

    def _decide(self, scheduled: ScheduledRun, run_id: str, report: dict[str, Any]) -> None:
        if report["status"] == "succeeded":
            self._scheduler.release(scheduled, run_id)
            return
        outcome = "unknown" if report["status"] is None else f"{report['status']}/{report['cause']}"
        self._end(scheduled, f"the run {run_id}, for which it waited, has not succeeded ({outcome})")

    def _end(self, scheduled: ScheduledRun, reason: str) -> None:
        self._scheduler.end_in_queue(scheduled.run_id, unstarted.stopped("user", reason))
