"""The runs of one server: starting them, finding them again, waiting for them.

A run belongs to the server and not to the call that started it: a call that is cancelled, or whose client goes away,
leaves the run as it is. Every run has a directory, so an id answers after a restart of the server, too. Runs that did
not come through MCP carry no label and are not found here: a client sees and ends what clients started, nothing else.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from weakref import WeakSet

import anyio

from ..state.index.index import Index
from ..state.index.summary import Filters
from ..state.record import RunRecord
from ..values.errors import HoldfastError, JournalError, RunNotFoundError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from typing import Any

    from ..runs.supervisor import Run, Supervisor
    from ..state.directory import StateDirectory
    from ..values.options import SpecOptions
    from .limits import ServerLimits

LABEL = ("via", "mcp")
_PROGRESS_S = 1.0
_SETTLE_S = 1.0  # after the verdict: mostly all is over in milliseconds, and the answer can say so


class McpRuns:
    """What the tools work on."""

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
        self._lifetime = "detached" if detached else "owner"
        self._supervisor = supervisor
        self._own: dict[str, Run] = {}
        self._others: dict[str, Run] = {}
        self._adopting = anyio.Lock()
        self._stopping = False
        self._waits: WeakSet[anyio.CancelScope] = WeakSet()  # those that are over drop out by themselves

    async def adopt_session(self) -> None:
        """Take over what earlier servers of this session left running, so that it counts and can be waited for."""
        for run_id in await anyio.to_thread.run_sync(self._left_running):
            self._own[run_id] = await self._supervisor.adopt(run_id)

    @property
    def parting(self) -> str | None:
        """What becomes of live runs, when the server is stopping; None while it is not."""
        if not self._stopping:
            return None
        return "goes on without it" if self._lifetime == "detached" else "ends with it"

    def end_waits(self) -> None:
        """The server is stopping: whoever waits is answered with what there is, and nothing is started any more."""
        self._stopping = True
        for scope in self._waits:
            scope.cancel()

    def moment(self, seconds: float) -> anyio.CancelScope:
        """A scope: what is in it is given up after this time, and when the server stops."""
        scope = anyio.move_on_after(seconds)
        self._waits.add(scope)
        if self._stopping:
            scope.cancel()
        return scope

    async def start(self, argv: Sequence[str], options: SpecOptions) -> Run:
        """Start a run within the limits. LimitError, SpecError, SessionClosedError, ResourceError: it was not.

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
        run = await self._supervisor.start(argv, **options)
        self._own[run.run_id] = run
        return run

    @asynccontextmanager
    async def find(self, run_id: str) -> AsyncIterator[Run]:
        """The run of this id, live or over. RunNotFoundError: no client of this state directory started it."""
        async with self._adopting:  # two calls about one run share it
            run = self._own.get(run_id) or self._others.get(run_id)
            if run is None:
                await anyio.to_thread.run_sync(self._check, run_id)
                run = self._others[run_id] = await self._supervisor.adopt(run_id)
        try:
            yield run
        finally:
            self._drop_settled()

    async def wait(self, run: Run, wait_s: float, tell: Callable[[float], Awaitable[None]]) -> None:
        """Until the verdict and a moment longer, the time is up, or the server stops; `tell` gets the seconds."""
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
        """Until there is output beyond the offset, or there will be none, the time is up, or the server stops."""
        seen = 0
        with self.moment(wait_s):
            try:
                async for chunk in run.output():
                    seen += len(chunk.data) if stream in (None, chunk.stream) else 0
                    if seen > offset:
                        return
            except HoldfastError:
                pass  # it settled, and another call gave its descriptors back; or whoever reads on is told

    async def page(self, *, live: bool, limit: int, cursor: str | None) -> tuple[list[dict[str, Any]], str | None]:
        """Reports, the newest first: of the live ones, or of all by the page. SpecError: that is no cursor."""
        return await anyio.to_thread.run_sync(self._page, live, limit, cursor)

    def _page(self, live: bool, limit: int, cursor: str | None) -> tuple[list[dict[str, Any]], str | None]:
        filters = Filters(labels=(LABEL,))
        with Index.open(self.state) as index:
            current = [entry.report for entry in index.refresh() if filters.matches(entry)]
            if live:
                return current[:limit], None
            page = index.list(filters, limit, cursor)
        # The live ones come first, once: they are newer than most, and no cursor points among them.
        first = [] if cursor is not None else current
        return first + [entry.report for entry in page.entries], page.cursor

    def _left_running(self) -> list[str]:
        filters = Filters(session=self.session, labels=(LABEL,))
        with Index.open(self.state) as index:
            return [entry.run_id for entry in index.refresh() if filters.matches(entry)]

    def _check(self, run_id: str) -> None:
        label, value = LABEL
        if self.state.has(run_id):
            with RunRecord(self.state, run_id) as record:
                asked = record.read().reader.spec or {}
            if (asked.get("labels") or {}).get(label) == value:
                return
        raise RunNotFoundError(f"there is no run {run_id!r} here", remedy="`list` shows the runs there are")

    def _drop_settled(self) -> None:
        """Give back the descriptors of what is over; whoever waits for it keeps what is known."""
        for known in (self._own, self._others):
            for run_id in [run_id for run_id, run in known.items() if _has_closed(run)]:
                del known[run_id]


def _has_closed(run: Run) -> bool:
    """Close the run if it is over; False when it goes on, or its last facts are still being read."""
    try:
        if run.state == "settled":
            run.close()
            return True
    except JournalError:
        return True  # it cannot be read, and was ended unseen; whoever asks for it again is told
    except HoldfastError:
        pass
    return False
