"""The standard streams as the wire: one JSON per line.

The library's own streams read in a worker thread that nothing can interrupt: asked to end by a signal, the server would
stay until its client closes stdin. These wait for the descriptor instead. As there, 0 and 1 are given away first, so
that nothing that prints or reads by accident gets between client and server.

The descriptors stay blocking, because that belongs to everybody who has them open, a shell's terminal for example. So
each is waited for first, and written to in pieces that then fit.
"""

from __future__ import annotations

import os
import select
from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    from typing import Self

_AT_ONCE = 1 << 16
_GONE = (BrokenPipeError, ConnectionResetError)


class LineReader:
    """The lines of a descriptor, as an asynchronous iterator; ends at end of file, or when it is told to."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._rest = b""
        self._ended = False
        self._reading = anyio.CancelScope()

    def end(self) -> None:
        """As if the file had ended here: what is not handed out yet is forgotten."""
        self._rest, self._ended = b"", True
        self._reading.cancel()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        """OSError when the descriptor cannot be read."""
        pieces = [self._rest]
        while b"\n" not in pieces[-1] and not self._ended:
            pieces.append(await self._read())
        line, newline, self._rest = b"".join(pieces).partition(b"\n")
        if not newline and not line:
            raise StopAsyncIteration
        return line.decode("utf-8", "replace")

    async def _read(self) -> bytes:
        with anyio.CancelScope() as self._reading:
            try:
                await anyio.wait_readable(self._fd)
            except PermissionError:
                await anyio.lowlevel.checkpoint()  # a file: it is always ready, and epoll does not take it
        if self._ended:
            return b""
        try:
            data = os.read(self._fd, _AT_ONCE)
        except _GONE:
            data = b""
        self._ended = not data
        return data


class TextWriter:
    """Writes text to a descriptor, waiting when its reader is slow. One that nobody reads any more takes everything."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    async def write(self, text: str) -> None:
        """OSError when the descriptor cannot be written to; that its reader has gone is told by the end of input."""
        left = memoryview(text.encode())
        while left:
            try:
                await anyio.wait_writable(self._fd)
            except PermissionError:
                await anyio.lowlevel.checkpoint()
            try:
                left = left[os.write(self._fd, left[: select.PIPE_BUF]) :]
            except _GONE:
                return

    async def flush(self) -> None:
        """Nothing is held back."""


def take_standard_streams() -> tuple[LineReader, TextWriter]:
    """The wire; from here on 0 reads nothing and what goes to 1 goes to stderr."""
    fds = []
    for fd, instead in ((0, os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)), (1, os.dup(2))):
        fds.append(os.dup(fd))  # not inherited by commands, as every descriptor Python makes
        os.dup2(instead, fd)
        os.close(instead)
    return LineReader(fds[0]), TextWriter(fds[1])
