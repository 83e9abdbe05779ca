"""What the daemon can do, for HTTP and everything else that asks it; nothing here knows HTTP.

All methods are called on the event loop's thread. Reports are the contract's, as plain dicts ready for JSON.

What EventLog and Deliveries are asked (events.py, deliveries.py):

    events.publish(type, run_id | None, data) -> awaitable int    durable before it is delivered; ids in order of calls
    events.wants_output() -> bool                                 whether anybody would see a run.output event
    Deliveries.insert(connection, run_id, url)                    within the transaction that queues the run
    deliveries.verdict(run_id, report) -> awaitable None          hand it to the outbox; nothing when it has no on_verdict
    deliveries.forget ... are their own business; both have `async def start()` and `async def stop()`

Of one run, run.queued, run.started, run.verdict and run.settled are published in this order. After a crash one may be
published a second time (UNIQUE (run_id, type) with INSERT OR IGNORE makes that once).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from ..config import Config
    from ..state.directory import StateDirectory
    from ..state.entry import Filters
    from .deliveries import Deliveries
    from .events import EventLog
    from .store import Store
    from .submission import Submission

Report = dict[str, Any]


class Service:
    """The daemon without its surfaces."""

    state: StateDirectory
    store: Store
    config: Config
    events: EventLog
    deliveries: Deliveries
    started_at: str  # RFC 3339
    draining: bool
    retry_after_s: float  # while draining: what to tell those who are turned away
    stopped: asyncio.Event  # set when open streams and long polls have to end, at the very end of the shutdown

    async def submit(self, submission: Submission, *, idempotency_key: str | None = None) -> tuple[Report, bool]:
        """Queue a run; its report as it is now, and whether it is new (False: the key was used for the same spec).

        DrainingError, QueueFullError, IdempotencyConflictError, SpecError, SessionClosedError, RunExistsError,
        StateError: nothing was queued.
        """
        raise NotImplementedError

    async def report(self, run_id: str) -> Report:
        """The report of any run: queued, live or over. RunNotFoundError; JournalError when it cannot be read."""
        raise NotImplementedError

    async def evidence(self, run_id: str) -> list[dict[str, Any]]:
        """The facts so far, in order. Fails as `report`."""
        raise NotImplementedError

    async def list(
        self, filters: Filters, *, states: tuple[str, ...] = (), cursor: str | None = None, limit: int = 50
    ) -> tuple[list[Report], str | None]:
        """A page of the runs, newest first, and the cursor of the next. SpecError: that is no cursor."""
        raise NotImplementedError

    async def wait(
        self, run_id: str, *, until: Literal["verdict", "settled"] = "verdict", timeout_s: float = 30.0
    ) -> Report:
        """The report when that is reached, when the time is up, or when the daemon stops. Fails as `report`."""
        raise NotImplementedError

    async def cancel(self, run_id: str, *, reason: str = "", now: bool = False, cause: str = "user") -> Report:
        """Ask a run to end; the report after that is on record. A run that is over stays as it is. As `report`."""
        raise NotImplementedError

    async def send_input(self, run_id: str, data: bytes, *, eof: bool = False) -> Report:
        """Write to the command's stdin, then perhaps end it. RequestError: it takes none (any more), or is queued."""
        raise NotImplementedError

    async def extend(self, run_id: str, seconds: float) -> Report:
        """Move the deadline. RequestError: none, over its ceiling, passed, or still queued."""
        raise NotImplementedError

    async def signal(self, run_id: str, signal: str | int, *, tree: bool = False) -> Report:
        """Send one signal. RequestError: over, or still queued. SpecError: no such signal."""
        raise NotImplementedError

    async def resize(self, run_id: str, rows: int, columns: int) -> Report:
        """Tell the run's terminal its size. RequestError: it has none."""
        raise NotImplementedError

    async def sessions(self) -> list[dict[str, Any]]:
        """Every session with runs or a closing mark: `name, queued, live, ended, closed, closed_at, reason`."""
        raise NotImplementedError

    async def close_session(self, name: str, *, reason: str = "", now: bool = False) -> dict[str, Any]:
        """Close it and end its runs: `session, confirmed, survivors, unknown` (ids), `problems`. SpecError."""
        raise NotImplementedError

    def journal(self, run_id: str) -> int:
        """A new descriptor of the run's journal, for a JournalReader; the caller closes it. -1: it is still queued.

        RunNotFoundError.
        """
        raise NotImplementedError

    async def output_wait(self, run_id: str, position: int) -> bool:
        """Return when there may be more in the journal beyond `position` (JournalReader.position), or it is settled.

        False: there is no more to come, now or ever. Read once more after that.
        """
        raise NotImplementedError

    async def doctor(self) -> dict[str, Any]:
        """What `holdfast doctor --json` says, and the daemon's own state."""
        raise NotImplementedError

    def health(self) -> dict[str, Any]:
        """`status` (ok, draining), `version`, `pid`, `started_at`, `runs` (as `counts`); never fails."""
        raise NotImplementedError

    def counts(self) -> dict[str, int]:
        """How many runs are `queued`, `starting`, `running`, `stopping`; and the bounds `max_runs`, `queue_limit`."""
        raise NotImplementedError
