"""The output of a supervised run, as an asynchronous iterator of chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anyio.lowlevel import checkpoint

from .live import CHUNKS_BYTES

if TYPE_CHECKING:
    from ..journal.reader import Chunk
    from .watched_run import WatchedRun


class RunOutput:
    """The chunks of one run in the order in which they were recorded.

    Output that rolls stays in the journal until this has read it. If this is not read to its end, drop it, or close it:
    the command waits for a reader that is behind by the whole tail.
    """

    __slots__ = ("_late", "_live", "_reader", "_ready", "_watched")

    def __init__(self, watched: WatchedRun, *, late: bool) -> None:
        self._watched = watched
        self._live = live = watched.live
        self._late = late
        self._reader = live.output_reader()
        self._ready: list[Chunk] = []  # reversed: the next chunk is the last item

    def __aiter__(self) -> RunOutput:
        return self

    async def __anext__(self) -> Chunk:
        """The next chunk. HoldfastError: the run was closed meanwhile. JournalError: the journal cannot be read."""
        while not self._ready:
            if not await self._fill():
                raise StopAsyncIteration
        return self._ready.pop()

    async def aclose(self) -> None:
        """Read no more."""
        self._live.forget_reader(self._reader)
        await checkpoint()

    def __del__(self) -> None:
        if hasattr(self, "_reader"):
            self._live.forget_reader(self._reader)

    async def _fill(self) -> bool:
        """Read on; False at the end."""
        await checkpoint()
        live = self._live
        ended = live.ended  # before the read: then the read finds everything that was recorded before the end
        if not self._take():
            if ended:
                return False
            live.arm_output(self._reader.position, release=live.windowed or live.rolls)
            if not self._take():  # once more after arming: there may be output already
                await self._watched.changed()
        elif (live.windowed or live.rolls) and not ended:
            live.arm_output(self._reader.position, release=True)
        return True

    def _take(self) -> bool:
        self._live.check_open()
        chunks = self._reader.read(CHUNKS_BYTES)
        self._ready = [chunk for chunk in reversed(chunks) if self._late or not chunk.late]
        return bool(chunks)
