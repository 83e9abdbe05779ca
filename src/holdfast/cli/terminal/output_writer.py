"""Write output to our stdout and stderr without ever blocking in a write.

During a blocking write to a slow reader we could hear neither signals nor the guard. We cannot make the shared
descriptor non-blocking: the shell and other programs use it, too. So we open a pipe or terminal a second time; the new
descriptor has flags of its own. Where that is refused (a socket, another user's pipe) we poll first and write no more
than a pipe with room is sure to take.
"""

from __future__ import annotations

import errno
import os
import select
import stat

_SURE = 4096  # PIPE_BUF: a pipe that is ready takes this much without blocking
_ALL = 1 << 30


def open_writers() -> dict[str, OutputWriter]:
    """The writers of our stdout and stderr: one for both when they are the same pipe or terminal, to keep the order."""
    out, err = os.fstat(1), os.fstat(2)
    stdout = OutputWriter(1)
    same = (out.st_dev, out.st_ino) == (err.st_dev, err.st_ino) and not stat.S_ISREG(out.st_mode)
    return {"stdout": stdout, "stderr": stdout if same else OutputWriter(2)}


class OutputWriter:
    """Writes one stream. `broken` holds the errno of a write that failed; it writes nothing after that."""

    __slots__ = ("_most", "_own", "_poll", "broken", "fd", "pending", "size", "written")

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._own = False
        self._most = _ALL
        self._poll: select.poll | None = None
        self.pending: list[memoryview] = []
        self.size = 0
        self.written = 0  # bytes, since the start
        self.broken = 0
        self._open()

    def _open(self) -> None:
        mode = os.fstat(self.fd).st_mode
        if stat.S_ISREG(mode):
            return  # a write to it never blocks, and a second opening would have its own offset
        try:
            if not stat.S_ISFIFO(mode) and not stat.S_ISCHR(mode):
                raise OSError
            flags = os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
            self.fd = os.open(f"/proc/self/fd/{self.fd}", flags)
            self._own = True
        except OSError:
            self._most = _SURE
            self._poll = select.poll()
            self._poll.register(self.fd, select.POLLOUT)

    def add(self, data: bytes) -> None:
        """Take bytes for `flush` to write."""
        if data and not self.broken:
            self.pending.append(memoryview(data))
            self.size += len(data)

    def flush(self) -> None:
        """Write as much as the reader takes now."""
        while self.pending and (self._poll is None or self._poll.poll(0)):
            try:
                written = os.write(self.fd, self.pending[0][: self._most])
            except BlockingIOError:
                return
            except OSError as error:
                self._fail(error.errno or errno.EIO)
                return
            self.size -= written
            self.written += written
            if written == len(self.pending[0]):
                del self.pending[0]
            else:
                self.pending[0] = self.pending[0][written:]

    def _fail(self, code: int) -> None:
        self.broken = code
        self.drop()

    def drop(self) -> None:
        """Drop the bytes that are not written yet."""
        self.pending.clear()
        self.size = 0

    def close(self) -> None:
        """Close the second descriptor, if there is one; the stream itself stays open."""
        if self._own:
            self._own = False
            os.close(self.fd)
