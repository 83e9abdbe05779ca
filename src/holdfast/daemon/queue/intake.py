"""The intake of posted runs: check, store, then queue them; turn them away while the daemon drains (503).

One transaction stores the row, the idempotency key and the webhook: after a crash all of them are there, or none. Two
posts with the same key at the same time take turns: the second finds the run of the first. A run is published and can
start only after its transaction. While the daemon drains, every post gets a DrainingError, which HTTP answers with 503.
"""

from __future__ import annotations

import asyncio
import errno
import time
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakValueDictionary

import msgspec

from ...journal import unstarted
from ...state import sessions
from ...values.errors import DrainingError, QueueFullError, ResourceError, RunExistsError
from ...values.run_id import check_run_id, new_run_id
from ...values.timestamps import format_timestamp
from ..engines.engine import NO_NEEDS
from . import queue_rows
from .scheduled_run import ScheduledRun

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from ...config import Config
    from ...state.directory import StateDirectory
    from ..store.store import Store
    from ..webhooks.deliveries import Deliveries
    from .disk_room import DiskRoom
    from .nesting import Nesting
    from .queue_terms import QueueTerms
    from .scheduler import Scheduler
    from .start_policy import Submitter
    from .submission import Submission
    from .succession import Succession


class IntakeResult(NamedTuple):
    """The run of a post, and whether the post made it (False: the idempotency key was used before)."""

    run_id: str
    is_new: bool


class Intake:
    """Takes posted runs into the queue."""

    def __init__(
        self,
        state: StateDirectory,
        store: Store,
        scheduler: Scheduler,
        nesting: Nesting,
        succession: Succession,
        deliveries: Deliveries,
        disk: DiskRoom,
        settings: Callable[[], Config],
    ) -> None:
        self._state = state
        self._store = store
        self._scheduler = scheduler
        self._nesting = nesting
        self._succession = succession
        self._deliveries = deliveries
        self._disk = disk
        self._settings = settings
        self._retry_after_s: float | None = None  # while the daemon drains
        self._incoming: dict[str, asyncio.Event] = {}  # runs whose rows are being written
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._defaults: tuple[Config, dict[str, Any]] | None = None

    @property
    def is_closed(self) -> bool:
        """Whether every post is turned away."""
        return self._retry_after_s is not None

    def close(self, retry_after_s: float) -> None:
        """Turn every post away from now on. `retry_after_s` is when the next daemon may be up."""
        self._retry_after_s = retry_after_s

    async def submit(
        self,
        submission: Submission,
        key: str | None,
        asked: Submission | None = None,
        submitter: Submitter | None = None,
    ) -> IntakeResult:
        """Queue a run, or find the run that this idempotency key was used for.

        `asked`: the posted run before the daemon's settings changed it. The key belongs to that. `submitter`: as in
        `Service.submit`.
        DrainingError, QueueFullError, IdempotencyConflictError, SpecError, SessionClosedError, RunExistsError,
        StateError, ResourceError (the disk is low), RequestError (its parent is over): nothing was queued.
        """
        if key is None:
            return await self._take(submission, None, submitter)
        # One post at a time for each key: the second finds the run of the first.
        async with self._turns.setdefault(key, asyncio.Lock()):
            self._check_open()
            digest = (asked or submission).digest()
            used = await self._store.read(lambda connection: queue_rows.run_of_key(connection, key, digest))
            if used is not None:
                return IntakeResult(await self._arrived(used), False)
            return await self._take(submission, (key, digest), submitter)

    def _check_open(self) -> None:
        if self._retry_after_s is not None:
            remedy = "try again when the next daemon is up"
            raise DrainingError("the daemon is shutting down", retry_after_s=self._retry_after_s, remedy=remedy)

    async def _take(
        self, submission: Submission, key: tuple[str, str] | None, submitter: Submitter | None
    ) -> IntakeResult:
        self._check_open()
        if submission.needs != NO_NEEDS:
            await self._scheduler.check(submission.needs)
        config = self._settings()
        outer = await self._nesting.outer(submission.parent)
        await self._succession.check(submission.after or ())
        run_id = new_run_id() if submission.run_id is None else check_run_id(submission.run_id)
        queued_ns = time.time_ns()
        if self._defaults is None or self._defaults[0] is not config:
            self._defaults = (config, _defaults(config))
        complete = submission.with_defaults(self._defaults[1])
        scheduled = self._make_run(run_id, complete, format_timestamp(queued_ns))
        self._check_room(run_id, config)
        row = {
            "run_id": run_id,
            "queued_ns": queued_ns,
            "submission": msgspec.json.encode(complete),
            "role": None if submitter is None else submitter.role,
            "uid": None if submitter is None else submitter.uid,
        }
        use = None if key is None else {"key": key[0], "digest": key[1], "run_id": run_id, "used_ns": queued_ns}
        self._incoming[run_id] = asyncio.Event()
        taken: asyncio.Future[IntakeResult] = asyncio.get_running_loop().create_future()

        def written(put_at: int | str, error: Exception | None) -> None:
            # This runs even if the client has gone away: its run stays queued.
            try:
                found = self._written(scheduled, outer, complete.terms(queued_ns), put_at, error)
            except Exception as failure:  # noqa: BLE001 - it is the answer to this post
                if not taken.done():
                    taken.set_exception(failure)
            else:
                if not taken.done():
                    taken.set_result(found)

        self._store.post(lambda connection: self._write(connection, complete, row, use), written)
        found = await taken
        return found if found.is_new else IntakeResult(await self._arrived(found.run_id), False)

    def _written(
        self,
        scheduled: ScheduledRun,
        outer: ScheduledRun | None,
        terms: QueueTerms,
        put_at: int | str,
        error: Exception | None,
    ) -> IntakeResult:
        """Queue the run after its row was committed. Raises the error of the transaction, as `submit`."""
        try:
            if error is not None:
                raise error
            if isinstance(put_at, str):  # another post used the key meanwhile
                return IntakeResult(put_at, False)
            scheduled.has_waited = False
            self._scheduler.enqueue(scheduled, put_at, terms)
        finally:
            self._incoming.pop(scheduled.run_id).set()
        self._scheduler.announce_queued(scheduled)
        # First queue, then look: a session that closes now, or a parent that ends, is seen here or sees this run.
        session = None if scheduled.spec is None else scheduled.spec.session
        try:
            self._nesting.contain(scheduled, outer)
            self._succession.begin(scheduled, terms.after)
            if session is not None and sessions.is_closed(self._state, session):
                self._scheduler.end_in_queue(scheduled.run_id, unstarted.stopped("session", "its session was closed"))
        finally:
            self._scheduler.start_queued()
            scheduled.has_waited = True
        return IntakeResult(scheduled.run_id, True)

    def _write(
        self, connection: sqlite3.Connection, submission: Submission, row: dict[str, Any], use: dict[str, Any] | None
    ) -> int | str:
        """Write the rows of a post. Returns the run's place in the queue, or the id of the run that has the key."""
        if use is not None:
            if (used := queue_rows.run_of_key(connection, use["key"], use["digest"])) is not None:
                return used
            queue_rows.use_key(connection, use)
        if submission.on_verdict is not None:
            self._deliveries.insert(connection, row["run_id"], submission.on_verdict.url)
        return queue_rows.put(connection, row)

    async def _arrived(self, run_id: str) -> str:
        """Wait until the run, whose row is written, is also in the scheduler's queue; returns its id."""
        if run_id in self._incoming:
            await self._incoming[run_id].wait()
        return run_id

    def _check_room(self, run_id: str, config: Config) -> None:
        if run_id in self._scheduler.runs or run_id in self._incoming or self._state.has(run_id):
            remedy = "choose another id, or leave it out"
            raise RunExistsError("there is a run of this id already", run_id=run_id, remedy=remedy)
        if (low := self._disk.refusal) is not None:
            remedy = "free space, prune old runs (holdfast prune), or lower limits.disk_floor"
            raise ResourceError(low, errno=errno.ENOSPC, run_id=run_id, remedy=remedy)
        waiting = self._scheduler.waiting + len(self._incoming)
        has_room = self._scheduler.running + waiting < config.max_runs
        if waiting >= config.queue_limit and not has_room:
            remedy = "try again later, or raise queue_limit"
            raise QueueFullError(f"{waiting} runs are queued, and no more may be", remedy=remedy)

    def _make_run(self, run_id: str, submission: Submission, queued_at: str) -> ScheduledRun:
        spec = submission.spec(run_id, queued_at)
        if submission.on_verdict is not None:
            self._deliveries.check(submission.on_verdict.url)
        sessions.check_open(self._state, spec.session, run_id)
        return ScheduledRun(run_id, submission.keys(spec), spec=spec, needs=submission.needs)


def _defaults(config: Config) -> dict[str, Any]:
    """The defaults of the settings for posted runs, by their posted names."""
    named = {name.removeprefix("default_"): value for name, value in config._asdict().items() if name[:8] == "default_"}
    named["queue_timeout_s"] = config.queue_timeout_s
    return {name: value for name, value in named.items() if value is not None}
