"""The copy of a run's output on the head: it survives the node (`keep_output="head"`).

A copy is one file of chunks in the order of the journal. The supervisor adds parts as the node has them, and readers
follow the file. Neither needs more memory than one part. The file stays when the supervisor is left.
"""

from __future__ import annotations

import asyncio
import os
from struct import Struct
from typing import TYPE_CHECKING

from ..journal.reader import Chunk

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

    from .messages import OutputPart

_STREAMS = ("stdout", "stderr")
_HEAD = Struct("<BBQQQI")  # stream, late, at_ns, place in the journal, missing bytes, length of the data


class OutputCopy:
    """The copy of one run, which grows until it is over. `is_whole` tells whether it has everything."""

    def __init__(self, path: str) -> None:
        """Make the file. OSError: it cannot be made, or is there already."""
        self.path = path
        self.is_over = self.is_whole = False
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._changed = asyncio.Event()

    async def add(self, part: OutputPart) -> None:
        """Add what the node has told. OSError: the disk takes no more."""
        data = b"".join(map(_encoded, part.chunks))
        if data:
            await asyncio.to_thread(_write, self._file, data)
            self._wake()

    def end(self, *, whole: bool) -> None:
        """No more comes."""
        if not self.is_over:
            self.is_over, self.is_whole = True, whole
            os.close(self._file)
            self._wake()

    def discard(self) -> None:
        """Remove the file: the run was not started."""
        self.end(whole=False)
        os.unlink(self.path)

    async def over(self) -> bool:
        """Wait until no more comes; returns whether the copy is whole."""
        while not self.is_over:
            await self._changed.wait()
        return self.is_whole

    async def chunks(self, start: int = 0) -> AsyncGenerator[Chunk, None]:
        """The chunks from a place in the journal on, as they come."""
        file, position = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC), 0
        try:
            while True:
                changed, was_over = self._changed, self.is_over
                for chunk in read_chunks(file, position):
                    position += _HEAD.size + len(chunk.data)
                    if chunk.offset >= start:
                        yield chunk
                if was_over:
                    return
                await changed.wait()
        finally:
            os.close(file)

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


def read_chunks(file: int, position: int = 0) -> Iterator[Chunk]:
    """The chunks that are whole in the file of a copy, from a position on."""
    while len(head := os.pread(file, _HEAD.size, position)) == _HEAD.size:
        stream, late, at_ns, offset, missing, length = _HEAD.unpack(head)
        data = os.pread(file, length, position + _HEAD.size)
        if len(data) < length:
            return
        position += _HEAD.size + length
        yield Chunk(_STREAMS[stream], data, bool(late), at_ns, offset, missing)


def _encoded(chunk: Chunk) -> bytes:
    numbers = (chunk.at_ns, chunk.offset, chunk.missing_bytes, len(chunk.data))
    return _HEAD.pack(_STREAMS.index(chunk.stream), chunk.late, *numbers) + chunk.data


def _write(file: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(file, left) :]
