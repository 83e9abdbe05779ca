"""A daemon as the source: its public API, and its event stream instead of looking again and again.

When it does not answer, the runs go on without it, and so does this: from the state directory, with a note.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from ..client.asynchronous import AsyncClient
from ..errors import DaemonUnreachableError, HoldfastError
from .directory import DirectorySource
from .source import MOST_ENDED, MOST_LIVE, TAIL_BYTES, Snapshot, Tail

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from ..client.values import Event
    from ..state.directory import StateDirectory

_LIVE = ("queued", "starting", "running", "stopping")
_TYPES = ("run.queued", "run.started", "run.waiting", "run.verdict", "run.settled", "service.shutdown")
_AGAIN_S = 2.0
_OTHERS_S = 5.0  # runs that somebody else started in the same directory have no events


async def find_daemon(state: StateDirectory) -> DaemonSource | None:
    """The daemon of this state directory, if one answers."""
    source = DaemonSource(state)
    try:
        await source.client.health()
    except HoldfastError:
        await source.close()
        return None
    return source


class DaemonSource:
    """Asks a daemon. To be closed."""

    def __init__(self, state: StateDirectory) -> None:
        self.where = f"daemon {state.path}"
        self.client = AsyncClient(state_dir=state.path)
        self._directory = DirectorySource(state)

    async def runs(self) -> Snapshot:
        """As Source.runs."""
        try:
            health = await self.client.health()
            live = await self.client.list(state=_LIVE, limit=MOST_LIVE)
            ended = await self.client.list(state="settled", limit=MOST_ENDED)
        except DaemonUnreachableError:
            seen = await self._directory.runs()
            return Snapshot(seen.runs, "no daemon answers: this is the state directory; queued runs are not shown")
        note = "the daemon is shutting down: it takes no more runs" if health["status"] == "draining" else ""
        if live.cursor is not None:
            note = f"only the newest {MOST_LIVE} live runs are shown"
        known = {report["run_id"] for report in live.runs}
        return Snapshot(live.runs + [report for report in ended.runs if report["run_id"] not in known], note)

    async def changes(self) -> AsyncGenerator[None, None]:
        """As Source.changes."""
        async for _ in _steadily(self._events(), _OTHERS_S):
            yield

    async def _events(self) -> AsyncGenerator[Event, None]:
        while True:
            try:
                async with contextlib.aclosing(self.client.events(types=_TYPES)) as events:
                    async for event in events:
                        yield event
            except HoldfastError:
                await asyncio.sleep(_AGAIN_S)

    async def tail(self, run_id: str) -> Tail:
        """As Source.tail."""
        try:
            data = await self.client.output(run_id, "all", offset=-TAIL_BYTES, late=True)
        except DaemonUnreachableError:
            return await self._directory.tail(run_id)
        return Tail(data, len(data) >= TAIL_BYTES)

    async def output_changes(self, run_id: str) -> AsyncGenerator[None, None]:
        """As Source.output_changes."""
        while True:
            try:
                wanted = self.client.events(types="run.output", run_id=run_id, late=True)
                async with contextlib.aclosing(wanted) as events:
                    async for _ in _steadily(events, _OTHERS_S):
                        yield
            except HoldfastError:
                await asyncio.sleep(_AGAIN_S)
                yield

    async def cancel(self, run_id: str, *, now: bool) -> None:
        """As Source.cancel."""
        try:
            await self.client.cancel(run_id, reason="asked for in holdfast top", now=now)
        except DaemonUnreachableError:
            await self._directory.cancel(run_id, now=now)

    async def extend(self, run_id: str, seconds: float) -> None:
        """As Source.extend."""
        try:
            await self.client.extend(run_id, seconds)
        except DaemonUnreachableError:
            await self._directory.extend(run_id, seconds)

    async def close(self) -> None:
        """As Source.close."""
        await self.client.close()
        await self._directory.close()


async def _steadily(events: AsyncGenerator[Event, None], longest_s: float) -> AsyncGenerator[None, None]:
    """An item for each event, and one after so long without any."""
    # A task, because `wait_for` around the generator itself would end it at the first silence.
    coming: asyncio.Task[Event] | None = None
    try:
        while True:
            coming = coming or asyncio.ensure_future(anext(events))
            done, _ = await asyncio.wait({coming}, timeout=longest_s)
            if done:
                coming.result()
                coming = None
            yield
    except StopAsyncIteration:
        return
    finally:
        if coming is not None:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)
        await events.aclose()
