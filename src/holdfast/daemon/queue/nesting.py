"""Nested runs: a run that was posted with a `parent` ends when its parent has its verdict.

Only this module reacts to the verdict of a parent, so that one order holds everywhere: first the inner run is queued,
then the outer run is looked at. A verdict that comes in between is seen by that look, or sees the inner run. The daemon
also follows outer runs that another process started, and after a restart it looks at every run again that is queued or
followed. A `parent` that is no run of this state directory is only a label: `holdfast submit` inside a run of another
state directory sets it.
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
    """Knows which runs are inside which. `find` returns a queued or live run, None for a run that is over."""

    def __init__(self, scheduler: Scheduler, find: Callable[[str], Awaitable[ScheduledRun | None]], log: Log) -> None:
        self._scheduler = scheduler
        self._find = find
        self._log = log
        self._inner: dict[str, dict[str, ScheduledRun]] = {}  # the runs that end with each outer run

    async def outer(self, parent: str | None) -> ScheduledRun | None:
        """The run that `parent` names; None: there is none here. RequestError: it is over. SpecError: not an id."""
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
        """End this run when the outer run has its verdict: now, if it has one already. Does nothing without `outer`."""
        if outer is None or outer is scheduled or scheduled.settled.is_set():
            return
        if outer.verdict.is_set():
            self._end(scheduled, outer.run_id)
        else:
            scheduled.outer = outer.run_id
            self._inner.setdefault(outer.run_id, {})[scheduled.run_id] = scheduled

    async def contain_again(self, scheduled: ScheduledRun, parent: str | None) -> None:
        """As `contain`, for a run of the last daemon. Returns when the parent was found or does not exist."""
        while parent is not None and not scheduled.settled.is_set():
            try:
                found = await self._find(parent)
            except (RunNotFoundError, JournalError):
                return  # the parent is only a label, or its record can never be read
            except HoldfastError as error:
                self._log.warning(f"its parent {parent} cannot be found yet: {error}", run_id=scheduled.run_id)
                await asyncio.sleep(_AGAIN_S)
                continue
            if found is None:
                self._end(scheduled, parent)
            else:
                self.contain(scheduled, found)
            return

    def decided(self, outer: ScheduledRun) -> None:
        """End the runs inside a run that has its verdict."""
        for scheduled in self._inner.pop(outer.run_id, {}).values():
            self._end(scheduled, outer.run_id)

    def forget(self, scheduled: ScheduledRun) -> None:
        """Forget a run that is settled: it need not be ended with its parent any more."""
        if scheduled.outer is not None and (others := self._inner.get(scheduled.outer)) is not None:
            others.pop(scheduled.run_id, None)
            if not others:
                del self._inner[scheduled.outer]

    def _end(self, scheduled: ScheduledRun, parent: str) -> None:
        reason = f"its parent {parent} is over"
        # A queued run ends at once; a live run has to be asked.
        self._scheduler.end_in_queue(scheduled.run_id, unstarted.stopped(_CAUSE, reason))
        self._scheduler.begin(self._stop(scheduled, reason))

    async def _stop(self, scheduled: ScheduledRun, reason: str) -> None:
        await scheduled.begun.wait()
        # A run with a verdict is already ending. If it were asked again, its guard would climb the ladder early.
        while scheduled.run is not None and not scheduled.verdict.is_set():
            try:
                if scheduled.run.outcome.status is None:
                    await scheduled.run.cancel(reason, cause=_CAUSE)
                return
            except HoldfastError as error:
                self._log.warning(f"the run cannot be asked to end with its parent: {error}", run_id=scheduled.run_id)
                if isinstance(error, RequestError) and error.errno == errno.ETIMEDOUT:
                    return  # the guard finds the request when it reads again
            await asyncio.sleep(_AGAIN_S)
