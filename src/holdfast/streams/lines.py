"""Standard streams: stdin as lines of bounded length, stdout as a queue of lines with one writer.

Neither descriptor is set to non-blocking: that flag belongs to the open file, which may also be the host's terminal or
our own stderr. A read first waits until the descriptor is readable. A write goes through an open file of our own, or,
for a socket, passes a flag with the call.
"""

from __future__ import annotations

import os
import select
import socket
import stat
from collections import deque
from typing import TYPE_CHECKING

import anyio
from anyio.lowlevel import checkpoint

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

LONGEST_LINE = 8 << 20
_PIECE = 64 << 10
_QUEUED = 256 << 10  # with more bytes in the queue, senders wait


async def pieces(fd: int) -> AsyncIterator[bytes]:
    """The bytes that arrive, until the other side closes or is gone."""
    while True:
        await _readable(fd)
        try:
            data = os.read(fd, _PIECE)
        except BlockingIOError:
            continue
        except OSError:  # the terminal hung up, or the peer reset the connection
            return
        if not data:
            return
        yield data


async def hung_up(fd: int) -> None:
    """Return when the other side can no longer write, even when there is still something to read."""
    with select.epoll() as watch:
        try:
            watch.register(fd, select.EPOLLRDHUP)  # a pipe reports EPOLLHUP, which is always reported
        except PermissionError:  # epoll takes no regular file, which never hangs up
            await anyio.sleep_forever()
        await anyio.wait_readable(watch.fileno())


async def _readable(fd: int) -> None:
    try:
        await anyio.wait_readable(fd)
    except PermissionError:  # epoll takes no regular file, which is always ready
        await checkpoint()


class LineSplitter:
    """Splits bytes into complete lines; None stands for a line that was too long and is dropped."""

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._longest = longest
        self._begun = bytearray()
        self._is_skipping = False

    def feed(self, data: bytes) -> list[bytes | None]:
        """The lines that these bytes complete, without line ends."""
        found: list[bytes | None] = []
        *complete, rest = data.split(b"\n")
        for piece in complete:
            self._add(piece)
            found.append(None if self._is_skipping else bytes(self._begun).removesuffix(b"\r"))
            self._begun.clear()
            self._is_skipping = False
        self._add(rest)
        return found

    @property
    def is_begun(self) -> bool:
        """Whether a line has begun but not ended."""
        return bool(self._begun) or self._is_skipping

    def _add(self, piece: bytes) -> None:
        if len(self._begun) + len(piece) > self._longest:
            self._is_skipping = True
            self._begun.clear()
        if not self._is_skipping:
            self._begun += piece


class LineWriter:
    """The only writer of stdout: lines are written whole, in the order they were sent."""

    def __init__(self, fd: int) -> None:
        self._file: _Socket | _File = _Socket(fd) if stat.S_ISSOCK(os.fstat(fd).st_mode) else _File(fd)
        self._lines: deque[bytes] = deque()
        self._queued = 0
        self._change = anyio.Event()
        self.is_broken = False

    async def send(self, line: bytes) -> None:
        """Queue a line; wait while too much is queued. When the reader is gone, the line is dropped."""
        while self._queued > _QUEUED and not self.is_broken:
            await self._change.wait()
        if self.is_broken:
            return
        self._lines.append(line)
        self._queued += len(line)
        self._announce()

    def offer(self, data: bytes) -> None:
        """Queue data that may be lost: drop it while too much is queued, or when the reader is gone."""
        if self._queued <= _QUEUED and not self.is_broken:
            self._lines.append(data)
            self._queued += len(data)
            self._announce()

    async def run(self) -> None:
        """Write queued lines until the reader is gone."""
        while True:
            while not self._lines:
                await self._change.wait()
            data = memoryview(b"".join(self._lines))
            self._lines.clear()
            if not await self._write_all(data):
                break
            self._queued -= len(data)
            self._announce()
        self.is_broken = True
        self._announce()

    async def flushed(self) -> None:
        """Wait until everything is written, or the reader is gone."""
        while self._queued and not self.is_broken:
            await self._change.wait()

    async def broken(self) -> None:
        """Wait until the reader is gone."""
        while not self.is_broken:
            await self._change.wait()

    def close(self) -> None:
        """Close our descriptor."""
        self._file.close()

    async def _write_all(self, data: memoryview) -> bool:
        while data:
            try:
                data = data[self._file.write(data) :]
            except BlockingIOError:
                await anyio.wait_writable(self._file.fd)
            except OSError:
                return False
        return True

    def _announce(self) -> None:
        self._change.set()
        self._change = anyio.Event()


class _Socket:
    """Non-blocking writes to a socket."""

    def __init__(self, fd: int) -> None:
        self._socket = socket.socket(fileno=os.dup(fd))
        self.fd = self._socket.fileno()
        self.close = self._socket.close

    def write(self, data: memoryview) -> int:
        return self._socket.send(data, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)


class _File:
    """Non-blocking writes to a pipe, a terminal or a regular file."""

    def __init__(self, fd: int) -> None:
        if stat.S_ISREG(
            os.fstat(fd).st_mode
        ):  # its writes never block, and a new open file would have another position
            self.fd = os.dup(fd)
            return
        try:
            self.fd = os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        except OSError:  # no /proc, or no permission to open it again: then the flag is shared after all
            self.fd = os.dup(fd)
            os.set_blocking(self.fd, False)

    def write(self, data: memoryview) -> int:
        return os.write(self.fd, data)

    def close(self) -> None:
        os.close(self.fd)
