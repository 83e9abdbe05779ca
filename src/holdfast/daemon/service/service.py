"""What the daemon can do, for HTTP and everything else that asks it; nothing here knows HTTP.

All methods are called on the event loop's thread. Reports are the contract's, as plain dicts ready for JSON.

Of one run, run.queued, run.started, run.verdict and run.settled are published in this order; after a crash the same
event may be published again, and the log keeps the first. A webhook is registered in the transaction that queues the
run and rides on its run.verdict. Runs that somebody else started in this state directory (`holdfast run`) can be seen,
waited for and ended here; they are not queued, published or drained.
"""

from __future__ import annotations

import asyncio
import errno
import os
import time
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ...state import run_directory, sessions
from ...state.index.session_list import SessionState
from ...state.index.summary import RunSummary
from ...values.errors import DrainingError, IdempotencyConflictError, RequestError, RunNotFoundError
from ...values.timestamps import format_timestamp
from ..queue import unstarted
from ..queue.admission import AdmissionLimits, keys_of
from ..queue.intake import Intake
from ..queue.nesting import Nesting
from ..queue.scheduled_run import ScheduledRun
from .history import not_found
from .input_watch import InputWatch

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from ...config import Config
    from ...state.directory import StateDirectory
    from ...state.index.summary import Filters
    from ..engines.engine import Engine, EngineRun
    from ..events.event_log import EventLog
    from ..queue.scheduler import Scheduler
    from ..queue.submission import Submission
    from ..store.store import Store
    from ..webhooks.deliveries import Deliveries
    from .history import History

Report: TypeAlias = dict[str, Any]
Reports: TypeAlias = list[Report]  # `list` is a method below, and within the class it would be taken for the type
_STATES = ("queued", "starting", "running", "stopping")
_VERSION = version("holdfast")
_RECENT = 512  # reports of runs that have just ended: whoever waited for one asks for it next


class Parts:
    """What a service is made of."""

    def __init__(
        self,
        state: StateDirectory,
        store: Store,
        engine: Engine,
        scheduler: Scheduler,
        history: History,
        events: EventLog,
        deliveries: Deliveries,
    ) -> None:
        self.state = state
        self.store = store
        self.engine = engine
        self.scheduler = scheduler
        self.history = history
        self.events = events
        self.deliveries = deliveries


class Service:
    """The daemon without its surfaces."""

    def __init__(self, parts: Parts, config: Config) -> None:
        self.state = parts.state
        self.store = parts.store
        self.events = parts.events
        self.deliveries = parts.deliveries
        self.scheduler = parts.scheduler
        self.history = parts.history
        self.config = config
        self.started_at = format_timestamp(time.time_ns())
        self.draining = False
        self.retry_after_s = 1.0  # while draining: what to tell those who are turned away
        self.stopped = asyncio.Event()  # at the very end of the shutdown, by `end_waits`
        self._waits: set[asyncio.Task[Any]] = set()
        self._engine = parts.engine
        self.nesting = Nesting(parts.scheduler, self._find)
        self._intake = Intake(parts.state, parts.store, parts.scheduler, self.nesting, parts.deliveries)
        self._adopting: dict[str, asyncio.Future[ScheduledRun]] = {}
        self._recent: dict[str, Report] = {}
        self.scheduler.on_settled.append(self._remember)
        self.attention = InputWatch(parts.events)
        self.scheduler.on_started.append(self.attention.begin)

    # Coming in.

    async def submit(self, submission: Submission, *, idempotency_key: str | None = None) -> tuple[Report, bool]:
        """Queue a run; its report as it is now, and whether it is new (False: the key was used for the same spec).

        DrainingError, QueueFullError, IdempotencyConflictError, SpecError, SessionClosedError, RunExistsError,
        StateError, RequestError (its parent is over): nothing was queued.
        """
        if idempotency_key is None:
            run_id, is_new = await self._take(submission, None)
        else:
            async with self._intake.turn(idempotency_key):
                self._check_admission()
                used = await self._intake.used(idempotency_key, submission)
                run_id, is_new = (used, False) if used is not None else await self._take(submission, idempotency_key)
        # One turn for what could start at once: of a short run the answer then has the outcome, and nobody asks twice.
        await asyncio.sleep(0)
        return await self._report_of_use(run_id), is_new

    async def _take(self, submission: Submission, key: str | None) -> tuple[str, bool]:
        self._check_admission()
        return await self._intake.take(submission, self.config, key)

    async def _report_of_use(self, run_id: str) -> Report:
        try:
            return await self.report(run_id)
        except RunNotFoundError:
            message = "the idempotency key was used for a run that has been removed since"
            raise IdempotencyConflictError(message, run_id=run_id, remedy="use a new key for a new run") from None

    def _check_admission(self) -> None:
        if self.draining:
            remedy = "try again when the next daemon is up"
            raise DrainingError("the daemon is shutting down", retry_after_s=self.retry_after_s, remedy=remedy)

    # Looking.

    async def report(self, run_id: str) -> Report:
        """The report of any run: queued, live or over. RunNotFoundError; JournalError when it cannot be read."""
        tracked = self.scheduler.runs.get(run_id)
        # One that ends in the queue is over as soon as its record is there, which others see as well.
        if tracked is not None and not (tracked.run is None and tracked.final is None and self.state.has(run_id)):
            return tracked.report
        if run_id in self._recent and self.state.has(run_id):
            return self._recent[run_id]
        return await self.history.report(run_id)

    async def evidence(self, run_id: str) -> Reports:
        """The facts so far, in order. Fails as `report`."""
        evidence: Reports = (await self.report(run_id))["evidence"]
        return evidence

    async def list(
        self, filters: Filters, *, states: tuple[str, ...] = (), cursor: str | None = None, limit: int = 50
    ) -> tuple[Reports, str | None]:
        """A page of the runs, newest first, and the cursor of the next. SpecError: that is no cursor."""
        waiting = [
            RunSummary(tracked.run_id, _ns_of(tracked), tracked.report, None, 0, 0, final=False)
            for tracked in self.scheduler.runs.values()
            if tracked.run is None and tracked.final is None
        ]
        return await self.history.page(filters, waiting, states, cursor, limit)

    async def wait(
        self, run_id: str, *, until: Literal["verdict", "settled"] = "verdict", timeout_s: float = 30.0
    ) -> Report:
        """The report when that is reached, when the time is up, or when the daemon stops. Fails as `report`."""
        tracked = await self._find(run_id)
        if tracked is None:
            return await self.report(run_id)
        reached = tracked.settled if until == "settled" else tracked.verdict
        if not reached.is_set():
            await self._unless_stopped(reached.wait(), timeout_s)
        return tracked.report

    def journal(self, run_id: str) -> int:
        """A new descriptor of the run's journal, for a JournalReader; the caller closes it. -1: it is still queued.

        RunNotFoundError.
        """
        try:
            if self.state.has(run_id):
                return run_directory.open_journal(self.state.run_path(run_id))
        except FileNotFoundError:
            pass
        if run_id in self.scheduler.runs:
            return -1
        raise not_found(self.state, run_id)

    async def output_wait(self, run_id: str, position: int) -> bool:
        """Return when there may be more in the journal beyond `position` (JournalReader.position), or it is settled.

        False: there is no more to come, now or ever. Read once more after that.
        """
        tracked = await self._find(run_id)
        if tracked is None or self.stopped.is_set():
            return False
        if tracked.run is None:
            await self._unless_stopped(tracked.begun.wait(), None)
            return not self.stopped.is_set()
        await self._unless_stopped(tracked.run.more_output(position), None)
        return not tracked.settled.is_set() and not self.stopped.is_set()

    async def _find(self, run_id: str) -> ScheduledRun | None:
        """The run if it waits or lives; one that somebody else started is adopted to be followed. None: it is over.

        RunNotFoundError.
        """
        tracked = self.scheduler.runs.get(run_id)
        if tracked is not None or run_id in self._recent:
            return tracked
        if run_id not in self._adopting:
            if (await self.history.report(run_id))["state"] in ("settled", None):
                return None
            if run_id in self.scheduler.runs:
                return self.scheduler.runs[run_id]
        # One that has room kept for it is ours, and recovery has not come to it yet.
        ours = self.scheduler.admission.keys(run_id)
        return await self.adopt(ScheduledRun(run_id, ours or keys_of(None, None, None), managed=ours is not None))

    async def adopt(self, tracked: ScheduledRun) -> ScheduledRun:
        """Follow a run that was started before; several who ask for the same one share it. As Engine.adopt."""
        run_id = tracked.run_id
        if run_id in self.scheduler.runs:
            return self.scheduler.runs[run_id]
        if run_id not in self._adopting:
            self._adopting[run_id] = asyncio.ensure_future(self._adopt(tracked))
            self._adopting[run_id].add_done_callback(lambda _: self._adopting.pop(run_id, None))
        return await asyncio.shield(self._adopting[run_id])

    async def _adopt(self, tracked: ScheduledRun) -> ScheduledRun:
        self.scheduler.follow(tracked, await self._engine.adopt(tracked.run_id))
        return tracked

    async def _unless_stopped(self, what: Coroutine[Any, Any, Any], timeout_s: float | None) -> None:
        if self.stopped.is_set():
            what.close()
            return
        task = asyncio.ensure_future(what)
        self._waits.add(task)
        try:
            await asyncio.wait((task,), timeout=timeout_s)
            if task.done() and not task.cancelled():
                task.result()
        finally:
            self._waits.discard(task)
            task.cancel()

    def end_waits(self) -> None:
        """The daemon stops: open streams and long polls have to end."""
        self.stopped.set()
        for task in self._waits:
            task.cancel()

    def _remember(self, tracked: ScheduledRun) -> None:
        assert tracked.final is not None
        self._recent[tracked.run_id] = tracked.final
        if len(self._recent) > _RECENT:
            del self._recent[next(iter(self._recent))]
        self.history.refresh_soon()

    def forget(self, run_id: str) -> None:
        """It was removed."""
        self._recent.pop(run_id, None)

    # Asking.

    async def cancel(self, run_id: str, *, reason: str = "", now: bool = False, cause: str = "user") -> Report:
        """Ask a run to end; the report after that is on record. A run that is over stays as it is. As `report`."""
        tracked = await self._find(run_id)
        if tracked is None:
            return await self.report(run_id)
        if self.scheduler.end_in_queue(run_id, unstarted.stopped(cause, reason)):
            await tracked.begun.wait()
        if tracked.run is not None:  # also one that was started in this very moment
            await tracked.run.cancel(reason, cause=cause, now=now)
        return tracked.report

    async def send_input(self, run_id: str, data: bytes, *, eof: bool = False) -> Report:
        """Write to the command's stdin, then perhaps end it. RequestError: it takes none (any more), or is queued."""
        tracked, run = await self._live(run_id)
        if not await run.write_stdin(data):  # also of nothing: whether there is a stdin does not depend on it
            raise RequestError("the command's stdin is closed", errno=errno.EPIPE, run_id=run_id)
        if eof:
            await run.close_stdin()
        return tracked.report

    async def extend(self, run_id: str, seconds: float) -> Report:
        """Move the deadline. RequestError: none, over its ceiling, passed, or still queued."""
        tracked, run = await self._live(run_id)
        await run.extend(seconds)
        return tracked.report

    async def signal(self, run_id: str, signal: str | int, *, tree: bool = False) -> Report:
        """Send one signal. RequestError: over, or still queued. SpecError: no such signal."""
        tracked, run = await self._live(run_id)
        await run.signal(signal, tree=tree)
        return tracked.report

    async def resize(self, run_id: str, rows: int, columns: int) -> Report:
        """Tell the run's terminal its size. RequestError: it has none."""
        tracked, run = await self._live(run_id)
        await run.resize(rows, columns)
        return tracked.report

    async def _live(self, run_id: str) -> tuple[ScheduledRun, EngineRun]:
        tracked = await self._find(run_id)
        if tracked is None:
            raise RequestError.too_late(run_id)
        if tracked.run is None:
            raise RequestError(
                "the run has not started", errno=errno.EAGAIN, run_id=run_id, remedy="wait for its start"
            )
        return tracked, tracked.run

    # Sessions.

    async def sessions(self) -> Reports:
        """Every session with runs or a closing mark: `name, queued, live, ended, closed, closed_at, reason`."""
        queued: dict[str, int] = {}
        for tracked in self.scheduler.runs.values():
            if tracked.spec is not None and tracked.spec.session is not None:
                queued[tracked.spec.session] = queued.get(tracked.spec.session, 0) + 1
        found = {session.name: session for session in await self.history.sessions()}
        empty = [SessionState(name, 0, 0, 0, None) for name in queued if name not in found]
        return [
            {
                "name": session.name,
                "queued": queued.get(session.name, 0),
                "live": session.live,
                "ended": session.ended,
                "closed": session.closed is not None,
                "closed_at": format_timestamp(session.closed.closed_at_ns) if session.closed else None,
                "reason": (session.closed.reason or None) if session.closed else None,
            }
            for session in [*empty, *found.values()]
        ]

    async def close_session(self, name: str, *, reason: str = "", now: bool = False) -> dict[str, Any]:
        """Close it and end its runs: `session, confirmed, survivors, unknown` (ids), `problems`. SpecError."""
        # Marked, then listed: a run that is submitted now sees the mark, or is seen below; one that is being started
        # sees it, or has a directory. The same order as in state/sessions.py.
        await asyncio.to_thread(sessions.mark_closed, self.state, name, reason)
        ended = [
            tracked
            for tracked in self.scheduler.runs.values()
            if tracked.spec is not None
            and tracked.spec.session == name
            and self.scheduler.end_in_queue(tracked.run_id, unstarted.stopped("session", reason))
        ]
        closing = await asyncio.to_thread(sessions.close, self.state, name, reason=reason, now=now)
        for tracked in ended:
            await tracked.begun.wait()
        done = {how: closing.those(how) for how in ("confirmed", "survivors", "unknown")}
        done["confirmed"] += [run.run_id for run in ended if run.run is None and run.run_id not in done["confirmed"]]
        return {"session": name, **done, "problems": [*closing.problems]}

    # The daemon itself.

    async def doctor(self) -> dict[str, Any]:
        """What `holdfast doctor --json` says, and the daemon's own state."""
        from ...doctor import examine

        found = await asyncio.to_thread(examine, self.state.path, trial=False)
        return {
            "healthy": found.healthy,
            "findings": [finding.as_dict() for finding in found.findings],
            "repairs": [repair.as_dict() for repair in found.repairs],
            "daemon": self.health(),
        }

    def health(self) -> dict[str, Any]:
        """`status` (ok, draining), `version`, `pid`, `started_at`, `runs` (as `counts`); never fails."""
        return {
            "status": "draining" if self.draining else "ok",
            "version": _VERSION,
            "pid": os.getpid(),
            "started_at": self.started_at,
            "runs": self.counts(),
        }

    def counts(self) -> dict[str, int]:
        """How many runs are `queued`, `starting`, `running`, `stopping`; how many of them are `waiting_for_input`; and
        the bounds `max_runs`, `queue_limit`."""
        found = dict.fromkeys(_STATES, 0)
        for tracked in self.scheduler.runs.values():
            if tracked.managed and tracked.state in found:
                found[tracked.state] += 1
        found["waiting_for_input"] = self.attention.count()
        return {**found, "max_runs": self.config.max_runs, "queue_limit": self.config.queue_limit}

    def reconfigure(self, config: Config) -> None:
        """These settings from now on. What was queued keeps the defaults it was queued with."""
        self.config = config
        self.scheduler.admission.change(limits_of(config))
        self.scheduler.pump()


def limits_of(config: Config) -> AdmissionLimits:
    """The part of the settings that admission goes by."""
    return AdmissionLimits(config.max_runs, config.concurrency, config.concurrency_per_key)


def _ns_of(tracked: ScheduledRun) -> int:
    from datetime import datetime

    queued_at = None if tracked.spec is None else tracked.spec.queued_at
    return 0 if queued_at is None else round(datetime.fromisoformat(queued_at).timestamp() * 1e6) * 1000
