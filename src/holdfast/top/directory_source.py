"""The runs of `top` from the state directory itself, without a daemon.

The directory does not report changes, so this source looks once a second. With many runs it looks less often: it spends
at most a fifth of the time on reading. One thread does all reading, because the SQLite index belongs to its thread.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from ..journal.reader import JournalReader
from ..state import guard_connection, run_directory
from ..state.index.index import Index
from ..values.errors import HoldfastError
from .run_source import MOST_ENDED, MOST_LIVE, TAIL_BYTES, LogTail, Snapshot

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from ..state.directory import StateDirectory

T = TypeVar("T")
EVERY_S = 1.0
_OUTPUT_EVERY_S = 0.5
_SHARE = 5


class _TailReader(JournalReader):
    """Scans the journal of a run, and remembers where the last output is."""

    def __init__(self, fd: int, run_id: str) -> None:
        super().__init__(fd, run_id=run_id)
        self.pieces: deque[tuple[int, int]] = deque()
        self.kept = 0
        self.left_out = False

    def _remember(self, name: str, late: int, offset: int, length: int) -> None:
        del name, late
        self.pieces.append((offset, length))
        self.kept += length
        while self.kept - self.pieces[0][1] >= TAIL_BYTES:
            self.kept -= self.pieces.popleft()[1]
            self.left_out = True

    def tail(self) -> LogTail:
        self.scan()
        data = b"".join(os.pread(self._fd, length, offset) for offset, length in self.pieces)
        return LogTail(data[-TAIL_BYTES:], self.left_out or len(data) > TAIL_BYTES)


class DirectorySource:
    """Reads runs from the state directory and asks their guards. The caller closes it."""

    def __init__(self, state: StateDirectory) -> None:
        self.state = state
        self.where = f"directory {state.path}"
        self._thread = ThreadPoolExecutor(1, "holdfast top")
        self._index = Index(state)
        self._took_s = 0.0
        self._followed: tuple[str, int, _TailReader] | None = None

    async def runs(self) -> Snapshot:
        """As RunSource.runs."""
        return await self._do(self._look)

    def _look(self) -> Snapshot:
        began = time.monotonic()
        live = self._index.refresh()
        found = {entry.run_id: entry for entry in live[:MOST_LIVE]}
        # A run that ended meanwhile counts as ended.
        found |= {entry.run_id: entry for entry in self._index.list(limit=MOST_ENDED).entries}
        runs = [entry.shown() for entry in found.values()]
        note = self._index.warnings.pop() if self._index.warnings else ""
        if len(live) > MOST_LIVE:
            note = f"only the newest {MOST_LIVE} of {len(live)} live runs are shown"
        self._took_s = time.monotonic() - began
        return Snapshot(runs, note)

    async def changes(self) -> AsyncGenerator[None, None]:
        """As RunSource.changes."""
        while True:
            await asyncio.sleep(max(EVERY_S, self._took_s * _SHARE))
            yield

    async def tail(self, run_id: str) -> LogTail:
        """As RunSource.tail."""
        return await self._do(lambda: self._tail(run_id))

    def _tail(self, run_id: str) -> LogTail:
        if self._followed is None or self._followed[0] != run_id:
            self._let_go()
            try:
                journal = run_directory.open_journal(self.state.run_path(run_id))
            except OSError as error:
                raise HoldfastError(f"its output cannot be read: {error.strerror}", run_id=run_id) from None
            self._followed = run_id, journal, _TailReader(journal, run_id)
        return self._followed[2].tail()

    async def output_changes(self, run_id: str) -> AsyncGenerator[None, None]:
        """As RunSource.output_changes."""
        path, size = os.path.join(self.state.run_path(run_id), run_directory.JOURNAL), -1
        while True:
            await asyncio.sleep(_OUTPUT_EVERY_S)
            try:
                now = os.stat(path).st_size
            except OSError:
                continue
            if now != size:
                size = now
                yield

    async def cancel(self, run_id: str, *, now: bool) -> None:
        """As RunSource.cancel."""
        reason = "asked for in holdfast top"
        await asyncio.to_thread(guard_connection.ask_stop, self.state, run_id, reason, now=now)

    async def extend(self, run_id: str, seconds: float) -> None:
        """As RunSource.extend."""
        await asyncio.to_thread(guard_connection.extend, self.state, run_id, seconds)

    async def close(self) -> None:
        """As RunSource.close."""
        await self._do(self._let_go)
        await self._do(self._index.close)
        self._thread.shutdown()

    def _let_go(self) -> None:
        if self._followed is not None:
            os.close(self._followed[1])
            self._followed = None

    async def _do(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)
