"""The runs of `top` from a daemon: its HTTP API for the list, and its event stream for the changes.

The source lists the runs once and then updates them from the events, which carry reports. It lists them again every few
seconds, because some changes have no event: runs that another process started in the same directory, and the size of
the output. If the daemon does not answer, the source reads the state directory instead, and a note says so.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING

from ..client.asynchronous import AsyncClient
from ..values.errors import DaemonUnreachableError, HoldfastError
from .directory_source import DirectorySource
from .run_source import MOST_ENDED, MOST_LIVE, TAIL_BYTES, LogTail, Snapshot

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from typing import Unpack

    from ..client.answers import Event
    from ..client.calls import EventFilters
    from ..state.directory import StateDirectory
    from .run_source import Report

_LIVE = ("queued", "starting", "running", "stopping")
_TYPES = ("run.queued", "run.started", "run.waiting", "run.verdict", "run.settled", "service.shutdown")
_AGAIN_S = 2.0
_LIST_S = 5.0
_FIRST_S = 0.25
_DRAINING = "the daemon is shutting down: it takes no more runs"
_GONE = "no daemon answers: this is the state directory; queued runs are not shown"


async def find_daemon(state: StateDirectory) -> DaemonSource | None:
    """The daemon of this state directory as a source; None when no daemon answers."""
    source = DaemonSource(state)
    try:
        await source.client.health()
    except HoldfastError:
        await source.close()
        return None
    return source


class DaemonSource:
    """Reads runs from a daemon and sends it requests. The caller closes it."""

    def __init__(self, state: StateDirectory) -> None:
        self.where = f"daemon {state.path}"
        self.client = AsyncClient(state_dir=state.path)
        self._directory = DirectorySource(state)
        self._runs: dict[str, Report] = {}
        self._note = ""
        self._listed_at = float("-inf")

    async def runs(self) -> Snapshot:
        """As RunSource.runs."""
        if time.monotonic() - self._listed_at >= _LIST_S:
            try:
                await self._list()
            except DaemonUnreachableError:
                return Snapshot((await self._directory.runs()).runs, _GONE)
        return Snapshot(list(self._runs.values()), self._note)

    async def _list(self) -> None:
        began = time.monotonic()
        health = await self.client.health()
        live = await self.client.list(state=_LIVE, limit=MOST_LIVE)
        ended = await self.client.list(state="settled", limit=MOST_ENDED)
        self._runs = {report["run_id"]: report for report in [*live.runs, *ended.runs]}
        self._note = _DRAINING if health["status"] == "draining" else ""
        if live.cursor is not None:
            self._note = f"only the newest {MOST_LIVE} live runs are shown"
        self._listed_at = began

    def _take(self, event: Event) -> None:
        run_id, report = event.data.get("run_id"), event.data.get("report")
        if event.type == "resync":
            self._listed_at = float("-inf")
        elif event.type == "service.shutdown":
            self._note = _DRAINING
        elif run_id in self._runs and event.type == "run.waiting":
            self._runs[run_id] = {**self._runs[run_id], "waiting_for_input": event.data["waiting_for_input"]}
        elif run_id is not None and report is not None:
            self._runs[run_id] = report

    async def changes(self) -> AsyncGenerator[None, None]:
        """As RunSource.changes."""
        async with contextlib.aclosing(self._signals(self._take, self._lost, types=_TYPES)) as signals:
            async for signal in signals:
                yield signal

    def _lost(self) -> None:
        self._listed_at = float("-inf")

    async def output_changes(self, run_id: str) -> AsyncGenerator[None, None]:
        """As RunSource.output_changes."""
        wanted = self._signals(lambda _: None, lambda: None, types="run.output", run_id=run_id, late=True)
        async with contextlib.aclosing(wanted) as signals:
            async for signal in signals:
                yield signal

    async def _signals(
        self, take: Callable[[Event], None], lost: Callable[[], None], **wanted: Unpack[EventFilters]
    ) -> AsyncGenerator[None, None]:
        """Yield once after new events, however many, and once after a while without any; never end."""
        news = asyncio.Event()

        async def listen() -> None:
            while True:
                try:
                    async with contextlib.aclosing(self.client.events(reconnect_s=0.0, **wanted)) as events:
                        async for event in events:
                            take(event)
                            news.set()
                except HoldfastError:
                    lost()
                    news.set()
                await asyncio.sleep(_AGAIN_S)

        listening = asyncio.create_task(listen())
        wait_s = _FIRST_S
        try:
            while True:
                try:
                    await asyncio.wait_for(news.wait(), wait_s)
                except TimeoutError:
                    # At first soon and often: nothing tells when the stream has begun, and events before that are lost.
                    lost()
                    wait_s = min(wait_s * 2, _LIST_S)
                news.clear()
                yield
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)

    async def tail(self, run_id: str) -> LogTail:
        """As RunSource.tail."""
        try:
            data = await self.client.output(run_id, "all", offset=-TAIL_BYTES, late=True)
        except DaemonUnreachableError:
            return await self._directory.tail(run_id)
        return LogTail(data, len(data) >= TAIL_BYTES)

    async def cancel(self, run_id: str, *, now: bool) -> None:
        """As RunSource.cancel."""
        try:
            await self.client.cancel(run_id, reason="asked for in holdfast top", now=now)
        except DaemonUnreachableError:
            await self._directory.cancel(run_id, now=now)

    async def extend(self, run_id: str, seconds: float) -> None:
        """As RunSource.extend."""
        try:
            await self.client.extend(run_id, seconds)
        except DaemonUnreachableError:
            await self._directory.extend(run_id, seconds)
        self._lost()  # no event tells of the new deadline, so list the runs again

    async def close(self) -> None:
        """As RunSource.close."""
        await self.client.close()
        await self._directory.close()
