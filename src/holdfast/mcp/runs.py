"""The runs of an MCP server: starts them, finds them by id, waits for them.

A run belongs to the server, not to the call that started it: when a call is cancelled or its client disconnects, the
run goes on. Every run has a run directory, so its id still works after a restart of a server whose session has a name.
A server finds only runs of its own session that carry the label of MCP: a client can neither see nor end what clients
of another server started, or what was started in another way.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from weakref import WeakSet

import anyio

from ..sessions.changes import look
from ..state.index.index import Index
from ..state.index.summary import Filters
from ..state.record import RunRecord
from ..values.errors import HoldfastError, JournalError, RunNotFoundError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from typing import Any

    from ..runs.supervisor import Run, Supervisor
    from ..sessions.changes import SessionChanges
    from ..state.directory import StateDirectory
    from ..values.options import SpecOptions
    from .limits import ServerLimits

LABEL = ("via", "mcp")
_PROGRESS_S = 1.0
_SETTLE_S = 1.0  # wait after the verdict: most runs settle in milliseconds, and the answer can say so


class McpRuns:
    """The runs that the tools of one server work on."""

    def __init__(
        self,
        supervisor: Supervisor,
        state: StateDirectory,
        limits: ServerLimits,
        *,
        session: str,
        detached: bool = False,
    ) -> None:
        self.state = state
        self.limits = limits
        self.session = session
        self._filters = Filters(session=session, labels=(LABEL,))
        self._lifetime = "detached" if detached else "owner"
        self._supervisor = supervisor
        self._own: dict[str, Run] = {}
        self._others: dict[str, Run] = {}
        self._adopting = anyio.Lock()
        self._stopping = False
        self._waits: WeakSet[anyio.CancelScope] = WeakSet()  # finished scopes drop out by themselves

    async def adopt_session(self) -> None:
        """Adopt the live runs that earlier servers of this session left, so that they count and can be waited for."""
        for run_id in await anyio.to_thread.run_sync(self._left_running):
            self._own[run_id] = await self._supervisor.adopt(run_id)

    @property
    def parting(self) -> str | None:
        """What happens to live runs when the server is stopping, as text; None while the server serves."""
        if not self._stopping:
            return None
        return "goes on without it" if self._lifetime == "detached" else "ends with it"

    def end_waits(self) -> None:
        """Answer waiting calls with what is known now, and start no more runs: the server is stopping."""
        self._stopping = True
        for scope in self._waits:
            scope.cancel()

    def moment(self, seconds: float) -> anyio.CancelScope:
        """A cancel scope that ends after this time, or when the server stops."""
        scope = anyio.move_on_after(seconds)
        self._waits.add(scope)
        if self._stopping:
            scope.cancel()
        return scope

    async def start(self, argv: Sequence[str], options: SpecOptions) -> Run:
        """Start a run within the limits. LimitError, SpecError, SessionClosedError, ResourceError: it was not started.

        HoldfastError: the server is stopping.
        """
        if self._stopping:
            raise HoldfastError("this server is stopping and starts nothing", remedy="ask again when it is back")
        self._drop_settled()
        self.limits.admit(len(self._own))
        options["session"] = self.session
        options["lifetime"] = self._lifetime
        options["labels"] = dict([LABEL])
        options["max_output"] = self.limits.max_output_bytes
        options["max_timeout"] = options["timeout"]  # nobody moves the deadline, least of all the command itself
        run = await self._supervisor.start(argv, **options)
        self._own[run.run_id] = run
        return run

    @asynccontextmanager
    async def find(self, run_id: str) -> AsyncIterator[Run]:
        """The run with this id, live or over. RunNotFoundError: no client of this session started it."""
        async with self._adopting:  # two calls about one run share one adopted run
            run = self._own.get(run_id) or self._others.get(run_id)
            if run is None:
                await anyio.to_thread.run_sync(self._check, run_id)
                run = self._others[run_id] = await self._supervisor.adopt(run_id)
        try:
            yield run
        finally:
            self._drop_settled()

    async def wait(self, run: Run, wait_s: float, tell: Callable[[float], Awaitable[None]]) -> None:
        """Wait for the verdict and shortly for the end of the tree; at most `wait_s`, or until the server stops.

        `tell` gets the seconds waited, once a second.
        """
        began = anyio.current_time()
        while run.status is None and not self._stopping:
            waited_s = anyio.current_time() - began
            if waited_s >= wait_s:
                return
            with self.moment(min(_PROGRESS_S, wait_s - waited_s)):
                await run.wait()
                break
            await tell(anyio.current_time() - began)
        if wait_s > 0:
            with self.moment(_SETTLE_S):
                await run.settled()

    async def wait_output(self, run: Run, offset: int, wait_s: float, stream: str | None) -> None:
        """Wait for output beyond the offset, or the end of output; at most `wait_s`, or until the server stops."""
        seen = 0
        with self.moment(wait_s):
            try:
                async for chunk in run.output():
                    seen += len(chunk.data) if stream in (None, chunk.stream) else 0
                    if seen > offset:
                        return
            except HoldfastError:
                pass  # another call closed the settled run; any other error shows when the page is read

    async def page(self, *, live: bool, limit: int, cursor: str | None) -> tuple[list[dict[str, Any]], str | None]:
        """Reports of live runs, or of a page of all runs, newest first; and the cursor of the next page, or None.

        SpecError: the cursor is malformed.
        """
        return await anyio.to_thread.run_sync(self._page, live, limit, cursor)

    async def look(self) -> SessionChanges:
        """The changes of this session since the last look, which this look replaces."""
        return await anyio.to_thread.run_sync(look, self.state, self._filters)

    def _page(self, live: bool, limit: int, cursor: str | None) -> tuple[list[dict[str, Any]], str | None]:
        filters = self._filters
        with Index.open(self.state) as index:
            current = [entry.report for entry in index.refresh() if filters.matches(entry)]
            if live:
                return current[:limit], None
            page = index.list(filters, limit, cursor)
        # Live runs come first, and only on the first page: they have no place in the order of the cursor.
        first = [] if cursor is not None else current
        return first + [entry.report for entry in page.entries], page.cursor

    def _left_running(self) -> list[str]:
        filters = self._filters
        with Index.open(self.state) as index:
            return [entry.run_id for entry in index.refresh() if filters.matches(entry)]

    def _check(self, run_id: str) -> None:
        label, value = LABEL
        if self.state.has(run_id):
            with RunRecord(self.state, run_id) as record:
                asked = record.read().reader.spec or {}
            if (asked.get("labels") or {}).get(label) == value and asked.get("session") == self.session:
                return
        raise RunNotFoundError(f"there is no run {run_id!r} here", remedy="`list` shows the runs there are")

    def _drop_settled(self) -> None:
        """Close settled runs; a call that still holds one can read what it knows."""
        for known in (self._own, self._others):
            for run_id in [run_id for run_id, run in known.items() if _has_closed(run)]:
                del known[run_id]


def _has_closed(run: Run) -> bool:
    """Close the run if it is settled; False when it goes on, or its last facts are still being read."""
    try:
        if run.state == "settled":
            run.close()
            return True
    except JournalError:
        return True  # its record cannot be read; the next call about it gets that error
    except HoldfastError:
        pass
    return False
