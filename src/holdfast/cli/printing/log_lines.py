"""Output cut into lines, each with the time it began and its stream; the bytes of a line stay as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...values.timestamps import format_timestamp

if TYPE_CHECKING:
    from ...journal.reader import Chunk

_LONGEST = 64 << 10  # of a line that has no end yet: after this it is printed and continued below


class LogLines:
    """Collects each stream's unfinished line, so that two streams never share one."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[bytes, bytes]] = {}

    def add(self, chunk: Chunk, wall_ns: int) -> bytes:
        """The lines that are complete with this chunk."""
        head, text = self._open.pop(chunk.stream, (b"", b""))
        fresh = f"{format_timestamp(wall_ns)} {chunk.stream}{' late' if chunk.late else ''}  ".encode()
        *lines, rest = (text + chunk.data).split(b"\n")
        done = b"".join((head or fresh if at == 0 else fresh) + line + b"\n" for at, line in enumerate(lines))
        if lines:
            head = b""
        if len(rest) > _LONGEST:
            done, rest = done + (head or fresh) + rest + b"\n", b""
        if rest:
            self._open[chunk.stream] = (head or fresh, rest)
        return done

    def rest(self) -> bytes:
        """The lines that never ended, as lines."""
        left = b"".join(head + text + b"\n" for head, text in self._open.values())
        self._open.clear()
        return left
