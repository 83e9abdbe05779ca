"""The operations of the daemon, which HTTP and every other surface call; nothing here knows HTTP.

All methods are called on the event loop's thread. Reports are the contract's, as plain dicts ready for JSON.

The daemon publishes run.queued, run.started, run.verdict and run.settled of a run in this order. After a crash it may
publish the same event again, and the log keeps the first. A webhook is registered in the transaction that queues the
run, and gets its body in the transaction that stores run.verdict. Runs that another process started in this state
directory (`holdfast run`) can be seen, waited for and ended here; the daemon does not queue, publish or drain them.
"""

from __future__ import annotations

import asyncio
import errno
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias
from weakref import WeakValueDictionary

from ...journal import unstarted
from ...state.index.page_query import parse_cursor
from ...values.errors import IdempotencyConflictError, RequestError, RunNotFoundError
from ...values.spec import public_spec
from .run_finder import QueuedPage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...doctor.finding import Diagnosis, PlannedRepair, RepairResult
    from ...state.index.summary import Filters
    from ..engines.engine import EngineRun
    from ..events.event import EventFilter
    from ..events.event_log import EventLog
    from ..events.subscription import Subscription
    from ..queue.intake import Intake
    from ..queue.scheduled_run import ScheduledRun
    from ..queue.scheduler import Scheduler
    from ..queue.start_policy import Submitter
    from ..queue.submission import Submission
    from ..webhooks.deliveries import Deliveries
    from .daemon_sessions import DaemonSessions
    from .health import DaemonHealth
    from .history import History
    from .open_waits import OpenWaits
    from .run_finder import RunFinder
    from .usage_sampler import UsageSampler

Report: TypeAlias = dict[str, Any]
Reports: TypeAlias = list[Report]  # `list` is a method below, and within the class it would be taken for the type


class ServiceParts(NamedTuple):
    """The parts that a service calls."""

    scheduler: Scheduler
    intake: Intake
    finder: RunFinder
    history: History
    events: EventLog
    deliveries: Deliveries
    sessions: DaemonSessions
    health: DaemonHealth
    sampler: UsageSampler
    waits: OpenWaits


class Service:
    """The daemon without its surfaces."""

    def __init__(self, parts: ServiceParts) -> None:
        self._scheduler = parts.scheduler
        self._intake = parts.intake
        self._finder = parts.finder
        self._history = parts.history
        self._events = parts.events
        self._deliveries = parts.deliveries
        self._sessions = parts.sessions
        self._health = parts.health
        self._sampler = parts.sampler
        self._waits = parts.waits
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    # Posting a run.

    async def submit(
        self,
        submission: Submission,
        *,
        idempotency_key: str | None = None,
        asked: Submission | None = None,
        submitter: Submitter | None = None,
    ) -> tuple[Report, bool]:
        """Queue a run; its report as it is now, and whether it is new (False: the key was used for the same spec).

        `asked`: the posted run before the policy added its limits. The key belongs to that. `submitter`: the policy
        judges a run that had to wait as one of this client; None: the policy does not judge it.
        DrainingError, QueueFullError, IdempotencyConflictError, SpecError, SessionClosedError, RunExistsError,
        StateError, RequestError (its parent is over): nothing was queued.
        """
        run_id, is_new = await self._intake.submit(submission, idempotency_key, asked, submitter)
        # One turn of the loop for a run that can start at once: the answer for a short run then has its outcome, and
        # the client need not ask twice.
        await asyncio.sleep(0)
        try:
            return await self.report(run_id), is_new
        except RunNotFoundError:
            message = "the idempotency key was used for a run that has been removed since"
            raise IdempotencyConflictError(message, run_id=run_id, remedy="use a new key for a new run") from None

    # Reading runs.

    async def report(self, run_id: str) -> Report:
        """The report of any run: queued, live or over. RunNotFoundError; JournalError: its journal cannot be read."""
        return await self._finder.report(run_id)

    async def show(self, run_id: str) -> Report:
        """The report of any run, with the ports on which it listens now. Fails as `report`."""
        report = await self.report(run_id)
        scheduled = self._scheduler.runs.get(run_id)
        if scheduled is None or scheduled.run is None:
            return report
        return {**report, "ports": await asyncio.to_thread(scheduled.run.tree.ports)}

    async def evidence(self, run_id: str) -> Reports:
        """The facts so far, in order. Fails as `report`."""
        evidence: Reports = (await self.report(run_id))["evidence"]
        return evidence

    async def list(
        self, filters: Filters, *, states: tuple[str, ...] = (), cursor: str | None = None, limit: int = 50
    ) -> tuple[Reports, str | None]:
        """A page of the runs, newest first, and the cursor of the next page; None on the last page.

        SpecError: the cursor is not one of ours.
        """
        after = None if cursor is None else parse_cursor(cursor)
        queued = QueuedPage([], None)
        if not states or "queued" in states:
            queued = self._finder.queued(filters, after, limit + 1)
        return await self._history.page(filters, queued.runs, states, cursor, limit, cut_at=queued.cut_at)

    async def ended_between(self, since_ns: int, until_ns: int) -> tuple[Sequence[Any], bool]:
        """The timings of ended runs that began in this time, newest first, and whether some are left out."""
        return await self._history.ended_between(since_ns, until_ns)

    async def delivery(self, run_id: str) -> Report | None:
        """The delivery of a run's verdict to its webhook; None: the run has no webhook. Fails as `report`."""
        await self.report(run_id)  # there is such a run
        return await self._deliveries.show(run_id)

    def queued_spec(self, run_id: str) -> Report:
        """The public spec of a queued run; empty when it is not queued any more."""
        scheduled = self._scheduler.runs.get(run_id)
        return {} if scheduled is None or scheduled.spec is None else public_spec(scheduled.spec)

    def journal(self, run_id: str) -> int:
        """A new descriptor of the run's journal, which the caller closes. -1: the run is queued. RunNotFoundError."""
        return self._finder.journal(run_id)

    async def usage(self) -> Reports:
        """What each live run uses now: processes, CPU, memory, output. StateError: the state cannot be read."""
        return await asyncio.to_thread(self._sampler.look)

    # Waiting.

    async def wait(
        self, run_id: str, *, until: Literal["verdict", "settled"] = "verdict", timeout_s: float = 30.0
    ) -> Report:
        """Wait for the verdict or the end, until the time is up or the daemon stops, and return the report then.

        Fails as `report`.
        """
        scheduled = await self._finder.find(run_id)
        if scheduled is None:
            return await self.report(run_id)
        reached = scheduled.settled if until == "settled" else scheduled.verdict
        if not reached.is_set():
            await self._waits.wait(reached.wait(), timeout_s)
        return self._scheduler.report(scheduled)

    async def started(self, run_id: str) -> Report:
        """Wait until the command has started or never will, or the daemon stops; then return the report.

        Fails as `report`.
        """
        scheduled = await self._finder.find(run_id)
        if scheduled is None:
            return await self.report(run_id)
        await self._waits.wait(scheduled.begun.wait())
        if scheduled.run is not None:
            await self._waits.wait(scheduled.run.started())
        return scheduled.report

    async def output_wait(self, run_id: str, position: int) -> bool:
        """Wait until the journal may have more beyond `position` (JournalReader.position), or the run is settled.

        False: no more output will come, or the daemon stops. The caller reads once more after that.
        """
        scheduled = await self._finder.find(run_id)
        if scheduled is None or self._waits.ended:
            return False
        if scheduled.run is None:
            await self._waits.wait(scheduled.begun.wait())
            return not self._waits.ended
        await self._waits.wait(scheduled.run.more_output(position))
        return not scheduled.settled.is_set() and not self._waits.ended

    async def pause(self, seconds: float) -> bool:
        """Wait for so long; False as soon as the daemon stops."""
        return await self._waits.pause(seconds)

    def subscribe(self, after: int | None, event_filter: EventFilter) -> Subscription:
        """The events after this id, or from now on; the caller closes it. StateError: the daemon is stopping."""
        return self._events.subscribe(after, event_filter)

    # Requests to a run.

    async def cancel(
        self,
        run_id: str,
        *,
        reason: str = "",
        now: bool = False,
        cause: str = "user",
        grace: float | None = None,
    ) -> Report:
        """Ask a run to end; the report after the stop is on record. A run that is over stays so. Fails as `report`."""
        scheduled = await self._finder.find(run_id)
        if scheduled is None:
            return await self.report(run_id)
        if self._scheduler.end_in_queue(run_id, unstarted.stopped(cause, reason)):
            await scheduled.begun.wait()
        if scheduled.run is not None:  # also one that was started in this very moment
            await scheduled.run.cancel(reason, cause=cause, now=now, grace=grace)
        return scheduled.report

    async def send_input(self, run_id: str, data: bytes, *, eof: bool = False) -> Report:
        """Write to the command's stdin, then close it if `eof`. RequestError: stdin is closed, or the run is queued."""
        scheduled, run = await self._live(run_id)
        if not await run.write_stdin(data):  # also when data is empty: the answer says whether there is a stdin
            raise RequestError("the command's stdin is closed", errno=errno.EPIPE, run_id=run_id)
        if eof:
            await run.close_stdin()
        return scheduled.report

    def turn(self, run_id: str) -> asyncio.Lock:
        """The lock for requests that judge a run by its report before they change it."""
        return self._turns.setdefault(run_id, asyncio.Lock())

    async def extend(self, run_id: str, seconds: float) -> Report:
        """Move the deadline. RequestError: there is none, it is over the ceiling or passed, or the run is queued."""
        scheduled, run = await self._live(run_id)
        await run.extend(seconds)
        return scheduled.report

    async def guards_of(self, run_id: str) -> frozenset[int]:
        """The guards of a run and of the runs nested in it (`parent`). Fails as `report`."""
        reports = {run.run_id: run.report for run in self._scheduler.runs.values()}
        reports.setdefault(run_id, await self.report(run_id))
        inner = {run_id}
        while found := {one for one, report in reports.items() if report["parent"] in inner} - inner:
            inner |= found
        facts = [fact for one in inner for fact in reports[one]["evidence"]]
        return frozenset(int(fact["guard_pid"]) for fact in facts if fact["fact"] == "started")

    async def signal(self, run_id: str, signal: str | int, *, tree: bool = False) -> Report:
        """Send one signal. RequestError: the run is over or queued. SpecError: there is no such signal."""
        scheduled, run = await self._live(run_id)
        await run.signal(signal, tree=tree)
        return scheduled.report

    async def resize(self, run_id: str, rows: int, columns: int) -> Report:
        """Tell the run's terminal its size. RequestError: the run has no terminal."""
        scheduled, run = await self._live(run_id)
        await run.resize(rows, columns)
        return scheduled.report

    async def _live(self, run_id: str) -> tuple[ScheduledRun, EngineRun]:
        scheduled = await self._finder.find(run_id)
        if scheduled is None:
            raise RequestError("the run is over: it takes no more requests", errno=errno.ESRCH, run_id=run_id)
        if scheduled.run is None:
            raise RequestError(
                "the run has not started", errno=errno.EAGAIN, run_id=run_id, remedy="wait for its start"
            )
        return scheduled, scheduled.run

    # Sessions.

    async def sessions(self) -> Reports:
        """Every session with runs or a closing mark: `name, queued, live, ended, closed, closed_at, reason`."""
        return await self._sessions.show()

    async def close_session(
        self, name: str, *, reason: str = "", now: bool = False, grace_s: float | None = None
    ) -> Report:
        """Close a session and end its runs, as `DaemonSessions.close`."""
        return await self._sessions.close(name, reason=reason, now=now, grace_s=grace_s)

    async def open_session(self, name: str) -> Report:
        """Open a closed session, as `DaemonSessions.open_again`."""
        return await self._sessions.open_again(name)

    # The daemon itself.

    def health(self, session: str | None = None) -> Report:
        """What the daemon says about itself, as `DaemonHealth.show`; never fails."""
        return self._health.show(session)

    def is_ready(self) -> bool:
        """Whether a new run would be taken and started."""
        return self._health.ready

    async def hosts(self) -> Report:
        """The `engine`, and the `hosts` on which it starts runs. HoldfastError: they cannot be asked."""
        return await self._scheduler.hosts()

    async def doctor(self) -> Report:
        """What `holdfast doctor --json` says, the hosts that do not answer, and the daemon's own state."""
        return await self._health.doctor((await self.hosts())["hosts"])

    async def examine(self) -> Diagnosis:
        """What the doctor finds in the state directory."""
        return await self._health.examine()

    async def repair(self, repairs: Sequence[PlannedRepair]) -> Sequence[RepairResult]:
        """Carry out repairs that `examine` has proposed."""
        return await self._health.repair(repairs)

    def metrics(self) -> bytes:
        """The daemon's numbers as Prometheus reads them."""
        from .metrics import metrics

        return metrics(self._health, self._events, self._deliveries)
