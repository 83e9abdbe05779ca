"""The last lines of an output that comes in pieces."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...journal.reader import Chunk


class LastLines:
    """The last lines of the output, of both streams in the order of writing. Only about so many lines are in memory."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._chunks: deque[Chunk] = deque()
        self._newlines = 0

    def add(self, chunk: Chunk) -> None:
        """Add a chunk, and forget the first ones that cannot be part of the last lines any more."""
        self._chunks.append(chunk)
        self._newlines += chunk.data.count(b"\n")
        while self._newlines - (first := self._chunks[0].data.count(b"\n")) > self._count:
            self._chunks.popleft()
            self._newlines -= first

    def cut(self) -> list[Chunk]:
        """The chunks of exactly the last lines; an unfinished line counts."""
        data = next((chunk.data for chunk in reversed(self._chunks) if chunk.data), b"\n")
        skip = self._newlines + (not data.endswith(b"\n")) - self._count
        found = []
        for chunk in self._chunks:
            data = chunk.data
            while skip > 0 and data:
                _, newline, data = data.partition(b"\n")
                skip -= len(newline)
            if data or (skip <= 0 and chunk.missing_bytes):
                found.append(chunk._replace(data=data))
        return found
