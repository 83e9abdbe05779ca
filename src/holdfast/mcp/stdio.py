"""Standard streams of the MCP server: one JSON message per line, with reads that can be interrupted.

The streams of the `mcp` library read in a worker thread that cannot be interrupted: after a signal, the server would
stay until its client closes stdin. These streams wait for the descriptor instead. Like the library, they first replace
descriptors 0 and 1, so that a stray print or read cannot get between client and server.

The descriptors stay blocking, because that flag is shared with every process that has the file open, such as a shell
on the same terminal. So the reader and the writer wait until a descriptor is ready, and writes are small enough to fit.
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
    """Iterates over the lines of a descriptor; ends at end of file, or when `end` is called."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._rest = b""
        self._ended = False
        self._reading = anyio.CancelScope()

    def end(self) -> None:
        """Act as if the file had ended: lines that were not returned yet are dropped."""
        self._rest, self._ended = b"", True
        self._reading.cancel()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        """The next line. OSError: the descriptor cannot be read."""
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
                await anyio.lowlevel.checkpoint()  # a regular file: epoll does not take it, and it is always ready
        if self._ended:
            return b""
        try:
            data = os.read(self._fd, _AT_ONCE)
        except _GONE:
            data = b""
        self._ended = not data
        return data


class TextWriter:
    """Writes text to a descriptor and waits for a slow reader. When the reader is gone, text is dropped."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    async def write(self, text: str) -> None:
        """Write text. OSError: the descriptor cannot be written to. A reader that is gone shows as the end of input."""
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
        """Do nothing: the writer has no buffer."""


def take_standard_streams() -> tuple[LineReader, TextWriter]:
    """Take over stdin and stdout; afterwards descriptor 0 reads nothing, and 1 writes to stderr."""
    fds = []
    for fd, instead in ((0, os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)), (1, os.dup(2))):
        fds.append(os.dup(fd))  # commands do not inherit it: Python makes descriptors non-inheritable
        os.dup2(instead, fd)
        os.close(instead)
    return LineReader(fds[0]), TextWriter(fds[1])
