"""Long polls and streams that wait: they all end when the daemon stops."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Coroutine


class OpenWaits:
    """The waits of clients. `end` is called at the very end of the shutdown."""

    def __init__(self) -> None:
        self._stopped = asyncio.Event()
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def ended(self) -> bool:
        """Whether the daemon has ended all waits."""
        return self._stopped.is_set()

    async def wait(self, work: Coroutine[Any, Any, Any], timeout_s: float | None = None) -> None:
        """Return when the work is done, the time is up, or the daemon stops. An error of the work is raised."""
        if self.ended:
            work.close()
            return
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        try:
            await asyncio.wait((task,), timeout=timeout_s)
            if task.done() and not task.cancelled():
                task.result()
        finally:
            self._tasks.discard(task)
            task.cancel()

    async def pause(self, seconds: float) -> bool:
        """Wait for so long; False as soon as the daemon stops."""
        await self.wait(self._stopped.wait(), seconds)
        return not self.ended

    def end(self) -> None:
        """End all open streams and long polls, because the daemon stops."""
        self._stopped.set()
        for task in self._tasks:
            task.cancel()
