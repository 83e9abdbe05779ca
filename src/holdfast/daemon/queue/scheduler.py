"""Runs from the queue to their end: what is durable, what may start, who follows it, what is announced.

Orders that are guaranteed, each so that a crash between two steps leaves something the next daemon can tell:

- A run is queued when its row is committed, and only then is anybody told.
- Starting: run directory, guard, first fact; then the row goes from `queue` to `active`. After a crash a row whose run
  has a directory was started (or ended in the queue); one without was not. So each run starts once.
- A run ends in the queue by a finished record, then the row goes. A stop that comes before the start wins: once a run
  is withdrawn from admission, one of {start, expiry, stop} has it and the others find nothing.
- Of one run: run.queued, run.started, run.verdict, run.settled, each published before the next, `active` is left last.
  Waiters are told before the event is on disk: they need not wait for it.
- Room is given back when a run is settled, not at its verdict: what unwinds still uses the host.

Everything here takes place on the event loop's thread; nothing is awaited between a look and what follows from it.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from ...journal import unstarted
from ...values.errors import HoldfastError, RunExistsError, SessionClosedError
from ..process.background_tasks import BackgroundTasks
from . import queue_rows
from .admission import Admission, WaitingRun
from .scheduled_run import ScheduledRun

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Coroutine

    from ...journal.unstarted import Ending
    from ..engines.engine import Engine, EngineRun
    from ..events.event_log import EventLog
    from ..process.log import Log
    from ..store.store import Store
    from .admission import AdmissionLimits, ConcurrencyKeys
    from .run_records import RunRecords

_RETRY_S = 1.0
_LOOK_AGAIN_S = 5.0
_TRIES = 5  # of a start that fails for a reason that may pass


class Scheduler:
    """Every run that waits or takes place, and the one place that moves it on."""

    def __init__(
        self, records: RunRecords, store: Store, engine: Engine, events: EventLog, limits: AdmissionLimits, log: Log
    ) -> None:
        self.runs: dict[str, ScheduledRun] = {}  # in the order they came: oldest first
        self.on_verdict: list[Callable[[ScheduledRun], None]] = []  # called with each run that has its verdict now
        self.on_settled: list[Callable[[ScheduledRun], None]] = []  # called with each of our runs that is over
        self.on_started: list[Callable[[ScheduledRun], None]] = []  # called with each run that is followed from now on
        self._records = records
        self._log = log
        self._tasks = BackgroundTasks(
            lambda error: log.error(f"this is a defect in Holdfast, please report it: {error!r}")
        )
        self._admission = Admission(limits)
        self._is_open = False  # whether anything may start
        self._store = store
        self._engine = engine
        self._events = events
        self._tries: dict[str, int] = {}
        self._all_settled: asyncio.Event | None = None

    # The queue.

    def enqueue(
        self, scheduled: ScheduledRun, sequence: int, priority: int, expires_in_s: float | None, limit_s: float
    ) -> None:
        """A run whose row is committed waits from now on; `limit_s` is what its queue timeout was."""
        self.runs[scheduled.run_id] = scheduled
        self._admission.enqueue(WaitingRun(sequence, scheduled.run_id, priority, scheduled.keys))
        if expires_in_s is not None:
            loop = asyncio.get_running_loop()
            scheduled.expiry = loop.call_later(
                max(0.0, expires_in_s), self.end_in_queue, scheduled.run_id, unstarted.expired(limit_s)
            )

    def end_in_queue(self, run_id: str, ending: Ending) -> bool:
        """End a run that was not started; False when it was, or does not wait."""
        scheduled = self.runs.get(run_id)
        if scheduled is None or scheduled.run is not None or scheduled.final is not None:
            return False
        if self._admission.withdraw(run_id) is not None:
            self._tasks.begin(self._end_in_queue(scheduled, ending))
        elif scheduled.ending is None:
            scheduled.ending = ending  # it is about to be started, or just being ended: whoever has it looks at this
        return True

    def open(self) -> None:
        """Start queued runs from now on."""
        self._is_open = True
        self.start_queued()

    def close(self) -> None:
        """Start no more runs; queued runs stay queued."""
        self._is_open = False

    def change_limits(self, limits: AdmissionLimits) -> None:
        """Use these limits from now on. Running runs go on, even if they are too many now."""
        self._admission.change(limits)
        self.start_queued()

    def start_queued(self) -> None:
        """Start whatever may start."""
        while self._is_open and (chosen := self._admission.take_next()) is not None:
            scheduled = self.runs[chosen.run_id]
            self._tasks.begin(self._start(scheduled, chosen))

    async def _start(self, scheduled: ScheduledRun, waiting: WaitingRun) -> None:
        assert scheduled.spec is not None
        if scheduled.ending is not None:
            await self._end_in_queue(scheduled, scheduled.ending)
            return
        if not self._is_open:  # closed since it was chosen: it keeps its place
            self._admission.vacate(scheduled.run_id)
            self._admission.enqueue(waiting)
            return
        try:
            run = await self._engine.start(scheduled.spec)  # awaits nothing: from the look above it is one step
        except SessionClosedError:
            await self._end_in_queue(scheduled, unstarted.stopped("session", "its session was closed while it waited"))
        except RunExistsError as error:
            if not self._records.has(scheduled.run_id):
                self._not_started(scheduled, waiting, error)  # somebody is just making it
                return
            # Somebody else took the id since it was queued: that run is theirs, and this one cannot be told from it.
            self._log.warning(f"not started: {error}", run_id=scheduled.run_id)
            self._end(scheduled, await self._records.report(scheduled.run_id))
        except (HoldfastError, OSError) as error:
            self._not_started(scheduled, waiting, error)
        except Exception as error:
            self._not_started(scheduled, waiting, error)  # whatever it was, the run does not keep its room
            raise  # a defect: the log says so
        else:
            await self._started(scheduled, run)

    async def _started(self, scheduled: ScheduledRun, run: EngineRun) -> None:
        scheduled.forget_expiry()  # not before: one that cannot be started goes on waiting
        scheduled.run, scheduled.spec = run, None
        scheduled.begun.set()
        self._tries.pop(scheduled.run_id, None)
        row = queue_rows.ActiveRow(scheduled.run_id, time.time_ns(), scheduled.keys.main)
        self._post(queue_rows.move_to_active(row), scheduled.run_id)
        await self._follow(scheduled, run)

    def _not_started(self, scheduled: ScheduledRun, waiting: WaitingRun, error: Exception) -> None:
        """It stays where it was in the queue and is tried again; in the end it is on record that it cannot be."""
        tries = self._tries[scheduled.run_id] = self._tries.get(scheduled.run_id, 0) + 1
        self._log.warning(f"could not be started ({tries}): {error}", run_id=scheduled.run_id)
        self._admission.vacate(scheduled.run_id)  # also when it is ended now: to record that may take long
        if tries >= _TRIES:
            self._tries.pop(scheduled.run_id)
            code = getattr(error, "errno", None)
            self._tasks.begin(self._end_in_queue(scheduled, unstarted.not_started(code or 5)))
            return
        asyncio.get_running_loop().call_later(_RETRY_S * tries, self._try_again, scheduled, waiting)

    def _try_again(self, scheduled: ScheduledRun, waiting: WaitingRun) -> None:
        if scheduled.ending is not None:
            self._tasks.begin(self._end_in_queue(scheduled, scheduled.ending))
        elif scheduled.final is None:
            self._admission.enqueue(waiting)
            self.start_queued()

    async def _end_in_queue(self, scheduled: ScheduledRun, ending: Ending) -> None:
        scheduled.forget_expiry()
        spec = scheduled.spec
        assert spec is not None
        await self._records.end_unstarted(spec, ending)
        self._end(scheduled, await self._records.report(scheduled.run_id))

    # Slots.

    @property
    def waiting(self) -> int:
        """How many runs are queued."""
        return self._admission.waiting

    @property
    def running(self) -> int:
        """How many runs occupy a slot."""
        return self._admission.running

    def keys(self, run_id: str) -> ConcurrencyKeys | None:
        """The keys under which a run occupies a slot; None: it occupies none."""
        return self._admission.keys(run_id)

    def occupy(self, run_id: str, keys: ConcurrencyKeys) -> None:
        """Give a run that was found again a slot under these keys, whatever the limits are."""
        self._admission.vacate(run_id)
        self._admission.occupy(run_id, keys)

    def vacate(self, run_id: str) -> None:
        """Take the slot of a run that cannot be found again, and start what has room now."""
        self._admission.vacate(run_id)
        self.start_queued()

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Do this in the background until the scheduler stops."""
        self._tasks.begin(work)

    # Runs that take place.

    def follow(self, scheduled: ScheduledRun, run: EngineRun) -> None:
        """Go on with a run that was found again; it takes up room when it is one of ours."""
        scheduled.run = run
        scheduled.begun.set()
        self.runs[scheduled.run_id] = scheduled
        if scheduled.managed:
            self._admission.occupy(scheduled.run_id, scheduled.keys)
        self._tasks.begin(self._follow(scheduled, run))

    async def _follow(self, scheduled: ScheduledRun, run: EngineRun) -> None:
        for told in self.on_started:
            told(scheduled)
        while True:
            try:
                report = await self._until_settled(scheduled, run)
                break
            except (HoldfastError, OSError) as error:
                # Its record cannot be read, or its guard is stopped or has no room for us. What is on disk counts.
                self._log.warning(f"it cannot be followed: {error}", run_id=scheduled.run_id)
                report = await self._records.report(scheduled.run_id)
                if report["state"] in ("settled", None):
                    break
            await asyncio.sleep(_LOOK_AGAIN_S)
            run = await self._find_again(scheduled, run)
        self._end(scheduled, report)
        run.close()

    async def _until_settled(self, scheduled: ScheduledRun, run: EngineRun) -> dict[str, Any]:
        """Tell each step as it comes; of a short run they come together, and one report tells them all."""
        await run.started()
        report = run.report
        if run.outcome.started is not None:
            self._publish("run.started", scheduled, report)
        if report["status"] is None:
            await run.wait()
            report = run.report
        self._decide(scheduled, report)
        return report if report["state"] == "settled" else await run.settled()

    async def _find_again(self, scheduled: ScheduledRun, run: EngineRun) -> EngineRun:
        try:
            found = await self._engine.adopt(scheduled.run_id)
        except (HoldfastError, OSError):
            return run  # which says again what is wrong
        run.close()
        scheduled.run = found
        return found

    def _decide(self, scheduled: ScheduledRun, report: dict[str, Any]) -> None:
        if not scheduled.verdict.is_set():
            scheduled.verdict.set()
            self._publish("run.verdict", scheduled, report)
            self._tell_verdict(scheduled)

    def _end(self, scheduled: ScheduledRun, report: dict[str, Any]) -> None:
        """It is over. Those who wait first, then room for the next, then what is written about it, its rows last."""
        was_decided = scheduled.verdict.is_set()
        scheduled.forget_expiry()
        scheduled.end(report)
        self.runs.pop(scheduled.run_id, None)
        if not was_decided:
            self._tell_verdict(scheduled)  # before there is room: what ends with it must not start in its place
        self._admission.vacate(scheduled.run_id)
        self.start_queued()
        if not was_decided:
            self._publish("run.verdict", scheduled, report)
        self._publish("run.settled", scheduled, report)
        if scheduled.managed:
            self._post(queue_rows.remove(scheduled.run_id), scheduled.run_id)
            for told in self.on_settled:
                told(scheduled)
        if self._all_settled is not None and not self.busy:
            self._all_settled.set()

    @property
    def busy(self) -> list[ScheduledRun]:
        """The runs of ours that were started and are not settled, in the order of their starts."""
        found = [scheduled for scheduled in self.runs.values() if scheduled.managed and scheduled.run is not None]
        return sorted(found, key=lambda scheduled: scheduled.started_ns)

    async def wait_idle(self) -> None:
        """Return when none of our runs takes place."""
        while any(scheduled.managed and scheduled.run is not None for scheduled in self.runs.values()):
            self._all_settled = asyncio.Event()
            await self._all_settled.wait()

    async def stop(self) -> None:
        """Follow nothing any more. The runs go on in their guards."""
        self._is_open = False
        for scheduled in self.runs.values():
            scheduled.forget_expiry()
        await self._tasks.stop()

    # Telling.

    def _tell_verdict(self, scheduled: ScheduledRun) -> None:
        for told in self.on_verdict:
            told(scheduled)

    def _publish(self, type_: str, scheduled: ScheduledRun, report: dict[str, Any]) -> None:
        """The event log keeps the order of these calls, tells of its own failures, and drops what it has already."""
        if scheduled.managed:
            self._events.publish(type_, scheduled.run_id, {"report": report})

    def announce_queued(self, scheduled: ScheduledRun) -> None:
        """Tell that it waits."""
        self._publish("run.queued", scheduled, scheduled.report)

    def _post(self, action: Callable[[sqlite3.Connection], None], run_id: str) -> None:
        def done(_: None, error: Exception | None) -> None:
            if error is not None:
                self._log.warning(f"not written down: {error}", run_id=run_id)

        self._store.post(action, done)
