"""Recovery at the daemon's start: runs of the last daemon are queued again, or followed again.

What is on disk decides what happens to a run (scheduler.py has the order in which it gets there):

    row in `queue`, no directory                   not started: queued again, unless it is too old by now
    row in `queue`, a directory without a fact     about to start, and nothing has run: as above
    row in `queue`, a note of another host         that host is asked: started there, or queued again
    row in `queue`, a directory with facts         started, or ended in the queue: its row moves to `active`
    row in `active`                                followed: live, or finished now if its guard is gone
    no row, but its record says it was queued      followed, too (the rows were lost)
    no row                                         another process's run: finished if its guard is gone, else left alone

The recovery has one budget of time. What is not done by then goes on in the background: a guard that does not answer
holds up only its own run. An error in one run does not stop the others.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from ..journal import unstarted
from ..state.index.summary import read_live_summaries
from ..state.upkeep.aborted_start import discard_if_never_ran, remove_dead_probes
from ..values.durations import format_duration
from ..values.errors import HoldfastError, JournalError, RunNotFoundError, StateError
from ..values.spec import make_spec
from ..values.timestamps import format_timestamp
from .process.background_tasks import BackgroundTasks
from .queue import queue_rows
from .queue.admission import keys_of
from .queue.queue_rows import ActiveRow
from .queue.queue_terms import QueueTerms
from .queue.scheduled_run import ScheduledRun
from .queue.submission import Submission

if TYPE_CHECKING:
    from ..config import Config
    from ..state.directory import StateDirectory
    from ..state.index.summary import RunSummary
    from .process.log import Log
    from .queue.nesting import Nesting
    from .queue.queue_rows import QueueRow
    from .queue.scheduler import Scheduler
    from .queue.succession import Succession
    from .service.history import History
    from .service.run_finder import RunFinder
    from .store.store import Store

_AGAIN_S = 5.0
_AT_ONCE = 500  # queued runs, between two turns of the event loop


class RecoveryResult(NamedTuple):
    """How many runs were queued again, followed again, too old, and not yet done; for the log."""

    queued: int
    followed: int
    too_old: int
    unfinished: int


class RecoveryParts(NamedTuple):
    """The parts that a recovery calls."""

    state: StateDirectory
    store: Store
    scheduler: Scheduler
    finder: RunFinder
    nesting: Nesting
    history: History
    succession: Succession


class Recovery:
    """The recovery of one daemon. `run` returns when all is done or the budget is used up; the rest goes on."""

    def __init__(self, parts: RecoveryParts, log: Log) -> None:
        self._state = parts.state
        self._store = parts.store
        self._scheduler = parts.scheduler
        self._finder = parts.finder
        self._nesting = parts.nesting
        self._history = parts.history
        self._succession = parts.succession
        self._log = log
        self._max_age_s: float | None = None
        self._queued = self._too_old = self._followed = 0
        self._tasks = BackgroundTasks(lambda error: log.warning(f"the recovery of a run failed: {error}"))

    async def run(self, config: Config, unless: asyncio.Event) -> RecoveryResult:
        """Find all runs again, or stop early when `unless` is set. StateError: the daemon's store cannot be read."""
        self._max_age_s = config.max_age_s
        rows = await self._store.read(queue_rows.queued)
        active = await self._store.read(queue_rows.active)
        for run_id, _queued_ns, key in active:
            self._follow_later(run_id, key)
        self._tasks.begin(self._rows(rows, {run_id for run_id, _, _ in active}))
        end = asyncio.get_running_loop().time() + config.recovery_s
        cut_short = asyncio.ensure_future(unless.wait())
        while self._tasks and not cut_short.done() and (left := end - asyncio.get_running_loop().time()) > 0:
            # We wait for one task at a time, because a task may begin others.
            await asyncio.wait([*self._tasks, cut_short], timeout=left, return_when=asyncio.FIRST_COMPLETED)
        cut_short.cancel()
        return RecoveryResult(self._queued, self._followed, self._too_old, len(self._tasks))

    async def stop(self) -> None:
        """Stop the tasks that still run. The next daemon does the rest."""
        await self._tasks.stop()

    # Runs that were queued.

    async def _rows(self, rows: list[QueueRow], active: set[str]) -> None:
        """Queue the runs that never ran, follow the runs that did, and only then begin `_others`.

        `_others` finishes the record of every run whose guard is gone. If it came first, a run that was only about to
        start would become `lost`.
        """
        # One thread for the many runs that have no directory; a look at a directory may wait for its guard.
        begun = await asyncio.to_thread(_with_directory, self._state, rows)
        looks = (asyncio.to_thread(discard_if_never_ran, self._state, run_id) for run_id in begun)
        found = dict(zip(begun, await asyncio.gather(*looks, return_exceptions=True), strict=True))
        for number, row in enumerate(rows):
            never_ran = found.get(row.run_id, True)
            if number % _AT_ONCE == _AT_ONCE - 1:
                await asyncio.sleep(0)  # the service manager's watchdog, and signals
            if isinstance(never_ran, BaseException):
                # The run is neither started nor given up: its row stays for the next daemon.
                self._log.warning(f"what is left of it cannot be read: {never_ran}", run_id=row.run_id)
            elif never_ran and self._state.is_elsewhere(row.run_id):
                self._scheduler.occupy(row.run_id, keys_of(None, None, None))
                self._tasks.begin(self._ask_host(row))
            elif never_ran:
                self._queue(row)
            else:
                self._scheduler.occupy(row.run_id, keys_of(None, None, None))
                self._tasks.begin(self._move(row))
        self._tasks.begin(self._others({*active, *(row.run_id for row in rows)}))

    def _queue(self, row: QueueRow) -> None:
        age_s = max(0.0, (time.time_ns() - row.queued_ns) / 1e9)
        try:
            submission = msgspec.json.decode(row.submission, type=Submission)
            spec = submission.spec(row.run_id, format_timestamp(row.queued_ns))
        except (msgspec.MsgspecError, HoldfastError) as error:
            self._log.warning(f"its entry in the queue cannot be used: {error}", run_id=row.run_id)
            spec = make_spec(["?"], run_id=row.run_id, queued_at=format_timestamp(row.queued_ns))
            scheduled = ScheduledRun(row.run_id, keys_of(None, None, None), spec=spec)
            self._scheduler.enqueue(scheduled, row.sequence, QueueTerms())
            self._end(scheduled, "shutdown", "its entry in the queue cannot be read any more")
            return
        scheduled = ScheduledRun(row.run_id, submission.keys(spec), spec=spec, needs=submission.needs)
        terms = submission.terms(row.queued_ns, age_s)
        self._scheduler.enqueue(scheduled, row.sequence, terms)
        self._scheduler.announce_queued(scheduled)
        self._succession.begin(scheduled, terms.after)
        if spec.parent is not None:
            self._tasks.begin(self._nesting.contain_again(scheduled, spec.parent))
        max_age_s = self._max_age_s
        # A run that waits for another one is as old as that run makes it, and not too old.
        waited_s = 0.0 if terms.after else age_s - (submission.delay_s or 0.0)
        if max_age_s is not None and waited_s > max_age_s and (terms.expires_in_s is None or terms.expires_in_s > 0):
            self._too_old += 1
            age, limit = format_duration(round(age_s)), format_duration(max_age_s)
            self._end(scheduled, "shutdown", f"queued {age} ago, which is more than {limit}: not started any more")
            self._log.warning(f"too old to be started ({age})", run_id=row.run_id)
        else:
            self._queued += 1

    def _end(self, scheduled: ScheduledRun, cause: str, reason: str) -> None:
        self._scheduler.end_in_queue(scheduled.run_id, unstarted.stopped(cause, reason))
        self._tasks.begin(_settled(scheduled))

    async def _ask_host(self, row: QueueRow) -> None:
        """Follow a run that another host was asked to start; queue it again if that host has not started it."""
        while True:
            try:
                await self._finder.adopt(ScheduledRun(row.run_id, keys_of(None, None, None)))
                break
            except RunNotFoundError:
                self._scheduler.vacate(row.run_id)
                self._queue(row)
                return
            except HoldfastError as error:
                self._log.warning(f"its host cannot be asked yet: {error}", run_id=row.run_id)
                await asyncio.sleep(_AGAIN_S)
        self._followed += 1
        await self._store.write(queue_rows.move_to_active(ActiveRow(row.run_id, row.queued_ns, None)))

    async def _move(self, row: QueueRow) -> None:
        """Move the row of a run that was started from `queue` to `active`, and follow the run."""
        key = None
        try:
            submission = msgspec.json.decode(row.submission, type=Submission)
            key = submission.concurrency_key
            # The last daemon may not have published this event. If it has, the event log ignores the second one.
            spec = submission.spec(row.run_id, format_timestamp(row.queued_ns))
            self._scheduler.announce_queued(ScheduledRun(row.run_id, keys_of(key, None, None), spec=spec))
        except (msgspec.MsgspecError, HoldfastError) as error:
            self._log.warning(f"its entry in the queue cannot be read: {error}", run_id=row.run_id)
        await self._store.write(queue_rows.move_to_active(ActiveRow(row.run_id, row.queued_ns, key)))
        await self._follow(row.run_id, key)

    # Runs that were started.

    def _follow_later(self, run_id: str, key: str | None) -> None:
        # Its slot is occupied at once: no other run may start in its place meanwhile.
        self._scheduler.occupy(run_id, keys_of(key, None, None))
        self._tasks.begin(self._follow(run_id, key))

    async def _follow(self, run_id: str, key: str | None) -> None:
        while True:
            try:
                asked = await asyncio.to_thread(_asked_for, self._state, run_id)
                keys = keys_of(key, asked.get("session"), asked.get("labels"))
                self._scheduler.occupy(run_id, keys)
                scheduled = await self._finder.adopt(ScheduledRun(run_id, keys))
                self._followed += 1
                break
            except (RunNotFoundError, JournalError) as error:
                # The run was removed, or its journal cannot be read: that will not change.
                self._log.warning(f"cannot be followed again: {error}", run_id=run_id)
                self._scheduler.vacate(run_id)
                await self._store.write(queue_rows.remove(run_id))
                return
            except HoldfastError as error:
                self._log.warning(f"the run cannot be followed yet: {error}", run_id=run_id)
                await asyncio.sleep(_AGAIN_S)
        await self._nesting.contain_again(scheduled, asked.get("parent"))

    async def _others(self, known: set[str]) -> None:
        """Refresh the index, finish the records of lost guards, and follow runs of the last daemon without a row."""
        await asyncio.to_thread(remove_dead_probes)
        for entry in await self._live():
            if entry.problem is not None:
                self._log.warning(entry.problem, run_id=entry.run_id)
            elif entry.run_id not in known and entry.report.get("queued_at") is not None:
                self._follow_later(entry.run_id, None)

    async def _live(self) -> list[RunSummary]:
        try:
            return await self._history.refresh()
        except StateError as error:  # the next end of a run refreshes it; live runs are found without the index
            self._log.warning(f"the index was not brought up to date: {error}")
            return await asyncio.to_thread(lambda: [one for one in read_live_summaries(self._state) if not one.final])


def _with_directory(state: StateDirectory, rows: list[QueueRow]) -> list[str]:
    """The runs of which there is a directory, or a part of one."""
    return [
        row.run_id for row in rows if state.has(row.run_id) or os.path.lexists(state.hidden_path(row.run_id, "new"))
    ]


def _asked_for(state: StateDirectory, run_id: str) -> dict[str, Any]:
    from ..state.record import RunRecord

    with RunRecord(state, run_id) as record:
        record.read()
        return record.reader.spec or {}


async def _settled(scheduled: ScheduledRun) -> None:
    await scheduled.settled.wait()
