"""Lines of text from chunks of output: a line is told when it is complete, the last one at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from ..journal.reader import Chunk
    from .output import RunOutput


class LineGatherer:
    """Gathers the lines of one stream. A line comes without its line end; bytes that are no text become `\\ufffd`."""

    def __init__(self, stream: str, encoding: str) -> None:
        self._stream = stream
        self._encoding = encoding
        self._begun = bytearray()

    def feed(self, chunk: Chunk) -> Iterator[str]:
        """The lines that this chunk completes. Chunks of other streams complete none."""
        if chunk.stream != self._stream:
            return
        *complete, rest = chunk.data.split(b"\n")
        for piece in complete:
            self._begun += piece
            yield self._text()
        self._begun += rest

    def end(self) -> Iterator[str]:
        """The last line, if it has no line end."""
        if self._begun:
            yield self._text()

    def _text(self) -> str:
        line = bytes(self._begun).removesuffix(b"\r").decode(self._encoding, "replace")
        self._begun.clear()
        return line


async def lines_of(output: RunOutput, stream: str, encoding: str) -> AsyncIterator[str]:
    """The lines of one stream as they come, until the end of the output."""
    gatherer = LineGatherer(stream, encoding)
    async for chunk in output:
        for line in gatherer.feed(chunk):
            yield line
    for line in gatherer.end():
        yield line


def line_caller(on_line: Callable[[str], object], gatherer: LineGatherer) -> Callable[[Chunk], None]:
    """An `on_output` that calls `on_line` for each complete line."""

    def on_output(chunk: Chunk) -> None:
        for line in gatherer.feed(chunk):
            on_line(line)

    return on_output
