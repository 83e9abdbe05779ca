"""The output of a supervised run, as an asynchronous iterator of chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anyio.lowlevel import checkpoint

from ..journal.reader import JournalReader
from .live import CHUNKS_BYTES

if TYPE_CHECKING:
    from ..journal.reader import Chunk
    from .watched_run import WatchedRun


class RunOutput:
    """The chunks of one run in the order in which they were recorded. There is nothing to close."""

    __slots__ = ("_late", "_live", "_reader", "_ready", "_watched")

    def __init__(self, watched: WatchedRun, *, late: bool) -> None:
        self._watched = watched
        self._live = live = watched.live
        self._late = late
        self._reader = JournalReader(live.journal, trusted=live.trusted, run_id=live.spec.run_id)
        self._ready: list[Chunk] = []  # reversed: the next chunk is the last item

    def __aiter__(self) -> RunOutput:
        return self

    async def __anext__(self) -> Chunk:
        """The next chunk. HoldfastError: the run was closed meanwhile. JournalError: the journal cannot be read."""
        while not self._ready:
            if not await self._fill():
                raise StopAsyncIteration
        return self._ready.pop()

    async def _fill(self) -> bool:
        """Read on; False at the end."""
        await checkpoint()
        live = self._live
        ended = live.ended  # before the read: then the read finds everything that was recorded before the end
        if not self._take():
            if ended:
                return False
            live.arm_output(self._reader.position, release=live.windowed)
            if not self._take():  # once more after arming: there may be output already
                await self._watched.changed()
        elif live.windowed and not ended:
            live.arm_output(self._reader.position, release=True)
        return True

    def _take(self) -> bool:
        self._live.check_open()
        chunks = self._reader.read(CHUNKS_BYTES)
        self._ready = [chunk for chunk in reversed(chunks) if self._late or not chunk.late]
        return bool(chunks)
