"""The scheduler: starts queued runs, follows them to their end, and publishes each step.

Guaranteed orders. A crash between two steps leaves something from which the next daemon can tell what happened.

- A run is queued when its row is committed. Only then is it published.
- Start: run directory, guard, first fact; then the row moves from `queue` to `active`. After a crash, a row whose run
  has a directory was started (or ended in the queue). A row whose run has no directory was not. So a run starts once.
- The policy judges a run that has waited before the last look at stops: a stop that comes meanwhile wins.
- End in the queue: the finished record is written, then the row is deleted. A stop before the start wins: when a run is
  withdrawn from admission, exactly one of {start, expiry, stop} gets it, and the others find nothing.
- run.queued, run.started, run.verdict and run.settled of a run are published in this order; the row leaves `active`
  last. Clients that wait for a run are answered before its event is on disk.
- A run keeps its slot until it is settled, not until its verdict: a tree that unwinds still uses the host.

Everything happens on the event loop's thread, and nothing is awaited between a check and the action that follows it.
"""

from __future__ import annotations

import asyncio
import errno
import time
from typing import TYPE_CHECKING, Any

from ...journal import unstarted
from ...values.errors import HoldfastError, PolicyError, RunExistsError, SessionClosedError, SpecError
from ...values.timestamps import format_timestamp
from ..engines.engine import NoRoomError
from ..process.background_tasks import BackgroundTasks
from . import queue_rows
from .admission import Admission, WaitingRun
from .queue_order import QueueOrder
from .scheduled_run import ScheduledRun

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Awaitable, Callable, Coroutine

    from ...journal.unstarted import Ending
    from ...values.spec import RunSpec
    from ..engines.engine import Engine, EngineRun, Needs
    from ..events.event_log import EventLog
    from ..process.log import Log
    from ..store.store import Store
    from .admission import AdmissionLimits, ConcurrencyKeys
    from .queue_terms import QueueTerms
    from .run_records import RunRecords

_RETRY_S = 1.0
_LOOK_AGAIN_S = 5.0
_DELAY = "its delay"  # the name of a hold; no run has this id
_TRIES = 5  # of a start that fails for a temporary reason


class Scheduler:
    """Every queued or live run, and the only part that starts, follows and ends them."""

    def __init__(
        self, records: RunRecords, store: Store, engine: Engine, events: EventLog, limits: AdmissionLimits, log: Log
    ) -> None:
        self.runs: dict[str, ScheduledRun] = {}  # the oldest first
        self.queue_order = QueueOrder()
        self.on_verdict: list[Callable[[ScheduledRun], None]] = []  # called when a run has its verdict
        self.on_settled: list[Callable[[ScheduledRun], None]] = []  # called when a run of this daemon is over
        self.on_started: list[Callable[[ScheduledRun], None]] = []  # called when the daemon begins to follow a run
        self._records = records
        self._log = log
        self._tasks = BackgroundTasks(
            lambda error: log.error(f"this is a defect in Holdfast, please report it: {error!r}")
        )
        self._admission = Admission(limits)
        self._is_open = False  # whether queued runs may start
        self.may_start: Callable[[], bool] = lambda: True  # asked before each start; looked at again later
        self.judge: Callable[[RunSpec], Awaitable[RunSpec]] = _as_it_is  # before each start; PolicyError
        self._look_again: asyncio.TimerHandle | None = None
        self._store = store
        self._engine = engine
        self._events = events
        self._tries: dict[str, int] = {}
        self._last_failure = ""  # of a start that will be tried again
        self._all_settled: asyncio.Event | None = None

    # The queue.

    def enqueue(self, scheduled: ScheduledRun, sequence: int, terms: QueueTerms) -> None:
        """Queue a run whose row is committed. A run that is held gets its place in the line when it is released."""
        self.runs[scheduled.run_id] = scheduled
        scheduled.priority = terms.priority
        self.queue_order.add(scheduled)
        later = asyncio.get_running_loop().call_later
        for run_id in terms.after:
            scheduled.holds[run_id] = f"run {run_id} to succeed"
        if terms.delay_s > 0:
            scheduled.holds[_DELAY] = f"its time: {format_timestamp(terms.due_ns)}"
            scheduled.timers.append(later(terms.delay_s, self.release, scheduled, _DELAY))
        if terms.expires_in_s is not None:
            ending = unstarted.expired(terms.timeout_s)
            scheduled.timers.append(later(max(0.0, terms.expires_in_s), self.end_in_queue, scheduled.run_id, ending))
        waiting = WaitingRun(sequence, scheduled.run_id, terms.priority, scheduled.keys)
        if scheduled.holds:
            self._admission.hold(waiting)
        else:
            self._admission.enqueue(waiting)

    def release(self, scheduled: ScheduledRun, hold: str) -> None:
        """Take one hold from a run. Without any, it has its place in the line, and may start."""
        scheduled.holds.pop(hold, None)
        if not scheduled.holds and self._admission.release(scheduled.run_id):
            self.start_queued()

    def end_in_queue(self, run_id: str, ending: Ending) -> bool:
        """End a queued run without starting it; False: the run was started, is over, or is not known here."""
        scheduled = self.runs.get(run_id)
        if scheduled is None or scheduled.run is not None or scheduled.final is not None:
            return False
        if self._admission.withdraw(run_id) is not None:
            self._tasks.begin(self._end_in_queue(scheduled, ending))
        elif scheduled.ending is None:
            scheduled.ending = ending  # a task is just starting or ending the run, and checks this
        return True

    def report(self, scheduled: ScheduledRun) -> dict[str, Any]:
        """The report of a run as it is now; a queued run has its place in the queue in it, as `queue`."""
        report = scheduled.report
        return {**report, "queue": self._queue_place(scheduled)} if scheduled.is_queued else report

    def _queue_place(self, scheduled: ScheduledRun) -> dict[str, Any]:
        position = self._admission.position(scheduled.run_id)
        return {"position": position, "priority": scheduled.priority, "waits_for": self._waits_for(scheduled, position)}

    def _waits_for(self, scheduled: ScheduledRun, position: int | None) -> str:
        """What a queued run waits for, as a phrase."""
        if scheduled.waits_for is not None:
            return scheduled.waits_for
        if scheduled.holds:
            return " and ".join(scheduled.holds.values())
        if position is None:  # between two tries, or on its way
            return "another try: its last start failed" if scheduled.run_id in self._tries else "its start"
        if not self._is_open:
            return "the next daemon: this one starts no more runs"
        if not self.may_start():
            return "room on the disk"
        obstacle = self._admission.obstacle(scheduled.keys)
        return obstacle or ("its start" if position == 1 else f"the {position - 1} runs before it")

    async def check(self, needs: Needs) -> None:
        """Ask the engine about the needs of a posted run. Fails as Engine.check."""
        await self._engine.check(needs)

    async def hosts(self) -> dict[str, Any]:
        """The engine, and the hosts on which it starts runs."""
        return {"engine": self._engine.name, "hosts": await self._engine.hosts()}

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
        """Start every queued run that may start now."""
        while self._is_open and self._may_start_now() and (chosen := self._admission.take_next()) is not None:
            scheduled = self.runs[chosen.run_id]
            self._tasks.begin(self._start(scheduled, chosen, is_judged=not scheduled.has_waited))

    def _may_start_now(self) -> bool:
        """Whether `may_start` allows a start. If it does not, queued runs are looked at again in a while."""
        if not self.waiting or self.may_start():
            return True
        if self._look_again is None:
            self._look_again = asyncio.get_running_loop().call_later(_LOOK_AGAIN_S, self._start_queued_again)
        return False

    def _start_queued_again(self) -> None:
        self._look_again = None
        self.start_queued()

    async def _start(self, scheduled: ScheduledRun, waiting: WaitingRun, *, is_judged: bool) -> None:
        assert scheduled.spec is not None
        try:
            # Before the checks below, because it may wait: a stop that comes meanwhile is seen there.
            refused = None if is_judged else await self._refused(scheduled)
        except Exception as error:
            self._not_started(scheduled, waiting, error)
            if not isinstance(error, HoldfastError):
                raise  # a defect, which the log reports
            return
        if (ending := scheduled.ending or refused) is not None:
            await self._end_in_queue(scheduled, ending)
            return
        if not self._is_open:  # the scheduler was closed since the choice: the run keeps its place
            self._admission.vacate(scheduled.run_id)
            self._admission.enqueue(waiting)
            return
        try:
            # The local engine awaits nothing before the start: no stop comes between the checks above and the start.
            # An engine of other hosts takes longer, and `_started` looks for a stop that came meanwhile.
            run = await self._engine.start(scheduled.spec, scheduled.needs)
        except NoRoomError as error:
            self._wait_for_room(scheduled, waiting, error)
        except SessionClosedError:
            await self._end_in_queue(scheduled, unstarted.stopped("session", "its session was closed while it waited"))
        except RunExistsError as error:
            if not self._records.has(scheduled.run_id):
                self._not_started(scheduled, waiting, error)  # another process is making it right now
                return
            # Another process took the id after this run was queued. So the id names the run of that process.
            self._log.warning(f"the run was not started: {error}", run_id=scheduled.run_id)
            self._end(scheduled, await self._records.report(scheduled.run_id))
        except SpecError as error:  # such as a file for stdin that is not there: a later try would not find it, either
            self._log.warning(f"the run was not started: {error}", run_id=scheduled.run_id)
            step = "stdio" if error.field == "stdin" else "setup"
            await self._end_in_queue(scheduled, unstarted.not_started(error.errno or errno.EINVAL, step))
        except (HoldfastError, OSError) as error:
            self._not_started(scheduled, waiting, error)
        except Exception as error:
            self._not_started(scheduled, waiting, error)  # whatever the error is, the run does not keep its slot
            raise  # a defect, which the log reports
        else:
            await self._started(scheduled, run)

    async def _refused(self, scheduled: ScheduledRun) -> Ending | None:
        """How the policy ends the run before its start; None: the run may start, perhaps with lower limits."""
        assert scheduled.spec is not None
        try:
            scheduled.spec = await self.judge(scheduled.spec)
        except PolicyError as error:
            self._log.warning(f"the run was not started: {error}", run_id=scheduled.run_id)
            return unstarted.stopped("user", error.message)
        return None

    async def _started(self, scheduled: ScheduledRun, run: EngineRun) -> None:
        scheduled.forget_timers()  # not earlier: a run that cannot be started is still queued
        self.queue_order.discard(scheduled)
        scheduled.run, scheduled.spec = run, None
        scheduled.begun.set()
        self._tries.pop(scheduled.run_id, None)
        row = queue_rows.ActiveRow(scheduled.run_id, time.time_ns(), scheduled.keys.main)
        self._post(queue_rows.move_to_active(row), scheduled.run_id)
        if scheduled.ending is not None:
            self._tasks.begin(self._stop(scheduled, run, scheduled.ending))
        await self._follow(scheduled, run)

    async def _stop(self, scheduled: ScheduledRun, run: EngineRun, ending: Ending) -> None:
        """End a run that was asked to end while its engine started it."""
        detail = ending.detail
        try:
            await run.cancel(detail.get("reason") or "", cause=detail.get("cause", "user"))
        except HoldfastError as error:
            self._log.warning(f"the run cannot be asked to end: {error}", run_id=scheduled.run_id)

    def _wait_for_room(self, scheduled: ScheduledRun, waiting: WaitingRun, error: NoRoomError) -> None:
        """Put a run that no host takes now back to its place in the queue. It may wait for as long as it likes."""
        if scheduled.waits_for is None:
            self._log.info(f"the run waits: {error}", run_id=scheduled.run_id)
        scheduled.waits_for = error.message
        self._admission.vacate(scheduled.run_id)
        asyncio.get_running_loop().call_later(_RETRY_S, self._try_again, scheduled, waiting)

    def _not_started(self, scheduled: ScheduledRun, waiting: WaitingRun, error: Exception) -> None:
        """Put the run back to its place in the queue and try again later; after the last try record the failure."""
        tries = self._tries[scheduled.run_id] = self._tries.get(scheduled.run_id, 0) + 1
        self._log.warning(f"the run could not be started ({tries}): {error}", run_id=scheduled.run_id)
        self._last_failure = str(error)
        self._admission.vacate(scheduled.run_id)  # also when it ends now, because recording the end may take long
        if tries >= _TRIES:
            self._tries.pop(scheduled.run_id)
            code = getattr(error, "errno", None)
            self._tasks.begin(self._end_in_queue(scheduled, unstarted.not_started(code or errno.EIO)))
            return
        asyncio.get_running_loop().call_later(_RETRY_S * tries, self._try_again, scheduled, waiting)

    def _try_again(self, scheduled: ScheduledRun, waiting: WaitingRun) -> None:
        if scheduled.ending is not None:
            self._tasks.begin(self._end_in_queue(scheduled, scheduled.ending))
        elif scheduled.final is None:
            self._admission.enqueue(waiting)
            self.start_queued()

    async def _end_in_queue(self, scheduled: ScheduledRun, ending: Ending) -> None:
        scheduled.forget_timers()
        spec = scheduled.spec
        assert spec is not None
        await self._records.end_unstarted(spec, ending)
        self._end(scheduled, await self._records.report(scheduled.run_id))

    def shortages(self) -> list[str]:
        """Runs that could not be started and will be tried again, with the reason of the last failure."""
        count = len(self._tries)
        return [f"{count} runs could not be started yet: {self._last_failure}"] if count else []

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

    def has(self, run_id: str) -> bool:
        """Whether the run is queued, followed, or has a slot."""
        return run_id in self.runs or self.keys(run_id) is not None

    def vacate(self, run_id: str) -> None:
        """Free the slot of a run that cannot be found again, and start the queued runs that may start now."""
        self._admission.vacate(run_id)
        self.start_queued()

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Do this work in the background. `stop` cancels it."""
        self._tasks.begin(work)

    # Live runs.

    def follow(self, scheduled: ScheduledRun, run: EngineRun) -> None:
        """Follow a run that was found again; a run of this daemon occupies a slot."""
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
                # Its record cannot be read, or its guard is stopped or takes no connection. What is on disk counts.
                self._log.warning(f"the run cannot be followed: {error}", run_id=scheduled.run_id)
                report = await self._records.report(scheduled.run_id)
                if report["state"] in ("settled", None):
                    break
            await asyncio.sleep(_LOOK_AGAIN_S)
            run = await self._find_again(scheduled, run)
        self._end(scheduled, report)
        run.close()

    async def _until_settled(self, scheduled: ScheduledRun, run: EngineRun) -> dict[str, Any]:
        """Publish each step as it comes. The steps of a short run come together, and share one report."""
        await run.started()
        report = {**run.report}
        if run.outcome.started is not None:
            self._publish("run.started", scheduled, report)
        if report["status"] is None:
            await run.wait()
            report = {**run.report}
        self._decide(scheduled, report)
        return report if report["state"] == "settled" else {**await run.settled()}

    async def _find_again(self, scheduled: ScheduledRun, run: EngineRun) -> EngineRun:
        try:
            found = await self._engine.adopt(scheduled.run_id)
        except (HoldfastError, OSError):
            return run  # the next wait raises the error again
        run.close()
        scheduled.run = found
        return found

    def _decide(self, scheduled: ScheduledRun, report: dict[str, Any]) -> None:
        if not scheduled.verdict.is_set():
            scheduled.verdict.set()
            self._publish("run.verdict", scheduled, report)
            self._tell_verdict(scheduled)

    def _end(self, scheduled: ScheduledRun, report: dict[str, Any]) -> None:
        """Finish a run that is over: answer its waiters, free its slot, publish its events, then delete its rows."""
        was_decided = scheduled.verdict.is_set()
        scheduled.forget_timers()
        scheduled.end(report)
        self.runs.pop(scheduled.run_id, None)
        self.queue_order.discard(scheduled)
        self._tries.pop(scheduled.run_id, None)
        if not was_decided:
            self._tell_verdict(scheduled)  # before its slot is free: a nested run must not start in its place
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
        """The live runs of this daemon, in the order of their starts."""
        found = [scheduled for scheduled in self.runs.values() if scheduled.managed and scheduled.run is not None]
        return sorted(found, key=lambda scheduled: scheduled.started_ns)

    async def wait_idle(self) -> None:
        """Return when no run of this daemon is live."""
        while any(scheduled.managed and scheduled.run is not None for scheduled in self.runs.values()):
            self._all_settled = asyncio.Event()
            await self._all_settled.wait()

    async def stop(self) -> None:
        """Stop following. The runs go on in their guards."""
        self._is_open = False
        if self._look_again is not None:
            self._look_again.cancel()
        for scheduled in self.runs.values():
            scheduled.forget_timers()
        await self._tasks.stop()

    # Publishing.

    def _tell_verdict(self, scheduled: ScheduledRun) -> None:
        for told in self.on_verdict:
            told(scheduled)

    def _publish(self, type_: str, scheduled: ScheduledRun, report: dict[str, Any]) -> None:
        """Publish an event about a run of this daemon. A run that another process started gets no events.

        The event log keeps the order of these calls, reports its own failures, and ignores an event that it has stored.
        """
        if scheduled.managed:
            self._events.publish(type_, scheduled.run_id, {"report": report})

    def announce_queued(self, scheduled: ScheduledRun) -> None:
        """Publish that the run is queued."""
        self._publish("run.queued", scheduled, scheduled.report)

    def _post(self, action: Callable[[sqlite3.Connection], None], run_id: str) -> None:
        def done(_: None, error: Exception | None) -> None:
            if error is not None:
                self._log.warning(f"a change of its state was not stored: {error}", run_id=run_id)

        self._store.post(action, done)


async def _as_it_is(spec: RunSpec) -> RunSpec:
    return spec
