"""Runs inside runs: one that was posted with a `parent` of this state directory ends when that has its verdict.

The one place that reacts to that, so that the order holds everywhere: the inner run is in the queue, then the outer one
is looked at; a verdict that comes meanwhile either is seen by that look or sees the inner run. It holds for outer runs
that somebody else started as well, which are followed for this, and after a restart, when everything that is queued or
followed again is looked at again. A `parent` that is no run here is a label: `holdfast submit` inside a run that is
kept elsewhere, or nowhere, names it.
"""

from __future__ import annotations

import asyncio
import errno
from typing import TYPE_CHECKING

from ...journal import unstarted
from ...values.errors import HoldfastError, JournalError, RequestError, RunNotFoundError
from ...values.run_id import check_run_id

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ..process.log import Log
    from .scheduled_run import ScheduledRun
    from .scheduler import Scheduler

_CAUSE = "parent"
_AGAIN_S = 5.0


class Nesting:
    """Which runs are inside which. `find` gives a run that waits or lives, None when it is over; RunNotFoundError."""

    def __init__(self, scheduler: Scheduler, find: Callable[[str], Awaitable[ScheduledRun | None]], log: Log) -> None:
        self._scheduler = scheduler
        self._find = find
        self._log = log
        self._inner: dict[str, dict[str, ScheduledRun]] = {}  # by the outer run: those that end with it

    async def outer(self, parent: str | None) -> ScheduledRun | None:
        """The run this names; None when there is none here. RequestError: it is over. SpecError: it is no id."""
        if parent is None:
            return None
        try:
            found = await self._find(check_run_id(parent, field="parent"))
        except RunNotFoundError:
            return None
        if found is None or found.verdict.is_set():
            remedy = "leave `parent` out, or give a run that is not over"
            message = "the run that is given as parent is over: it takes no more runs"
            raise RequestError(message, errno=errno.ESRCH, run_id=parent, remedy=remedy)
        return found

    def contain(self, scheduled: ScheduledRun, outer: ScheduledRun | None) -> None:
        """It is in the queue, or lives, and from now on ends with this one: at once when that has its verdict."""
        if outer is None or outer is scheduled or scheduled.settled.is_set():
            return
        if outer.verdict.is_set():
            self._end(scheduled, outer.run_id)
        else:
            scheduled.outer = outer.run_id
            self._inner.setdefault(outer.run_id, {})[scheduled.run_id] = scheduled

    async def contain_again(self, scheduled: ScheduledRun, parent: str | None) -> None:
        """The same for a run that another daemon has taken in; returns when its parent was found, or is none."""
        while parent is not None and not scheduled.settled.is_set():
            try:
                found = await self._find(parent)
            except (RunNotFoundError, JournalError):
                return  # a label, or nothing can be said about it, now or later
            except HoldfastError as error:
                self._log.warning(f"its parent {parent} is not found yet: {error}", run_id=scheduled.run_id)
                await asyncio.sleep(_AGAIN_S)
                continue
            if found is None:
                self._end(scheduled, parent)
            else:
                self.contain(scheduled, found)
            return

    def decided(self, outer: ScheduledRun) -> None:
        """A run has its verdict: end the runs inside it."""
        for scheduled in self._inner.pop(outer.run_id, {}).values():
            self._end(scheduled, outer.run_id)

    def forget(self, scheduled: ScheduledRun) -> None:
        """A run is settled: it need not be ended with its parent any more."""
        if scheduled.outer is not None and (others := self._inner.get(scheduled.outer)) is not None:
            others.pop(scheduled.run_id, None)
            if not others:
                del self._inner[scheduled.outer]

    def _end(self, scheduled: ScheduledRun, parent: str) -> None:
        reason = f"its parent {parent} is over"
        # In the queue it is ended before anything else can take place; a live one has to be asked.
        self._scheduler.end_in_queue(scheduled.run_id, unstarted.stopped(_CAUSE, reason))
        self._scheduler.begin(self._stop(scheduled, reason))

    async def _stop(self, scheduled: ScheduledRun, reason: str) -> None:
        await scheduled.begun.wait()
        # One that has its verdict is on its way already: asked again, its guard would climb at once.
        while scheduled.run is not None and not scheduled.verdict.is_set():
            try:
                if scheduled.run.outcome.status is None:
                    await scheduled.run.cancel(reason, cause=_CAUSE)
                return
            except HoldfastError as error:
                self._log.warning(f"cannot be asked to end with its parent: {error}", run_id=scheduled.run_id)
                if isinstance(error, RequestError) and error.errno == errno.ETIMEDOUT:
                    return  # it finds the request when it reads again, and one is enough
            await asyncio.sleep(_AGAIN_S)
