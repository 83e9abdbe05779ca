"""A file system with one program in it that stops answering when it is told to: FUSE, without a library.

A kernel that asks such a file system for anything waits until the file system answers or is aborted, as with a dead
NFS server. Leaving the block aborts it, so that whatever waits goes on with an error.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import stat
import struct
import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType
    from typing import Self

_LOOKUP, _FORGET, _GETATTR, _OPEN, _READ, _WRITE, _RELEASE, _FLUSH, _INIT = 1, 2, 3, 14, 15, 16, 18, 25, 26
_DIRECT_IO, _KEEP_CACHE = 1, 2
_INTERRUPT, _BATCH_FORGET = 36, 42
_ROOT_NODE, _PROGRAM_NODE = 1, 2
_DETACH = 2
_LARGEST_REQUEST = 1 << 20
_HOLDS_S = 10.0


def why_no_fuse() -> str | None:
    """None if a FUSE file system can be mounted here, otherwise the reason."""
    return None if os.access("/dev/fuse", os.R_OK | os.W_OK) else "needs /dev/fuse"


# Waits with the lock of its memory held: the kernel writes a changed page before it maps the file anew.
_HOLDER = """
import mmap, os, sys
first = mmap.mmap(os.open(sys.argv[1], os.O_RDWR), 4096)
first[0] = 65
second = os.open(sys.argv[1], os.O_RDWR)
print("ready", "holder=%d" % os.getpid(), flush=True)
mmap.mmap(second, 4096, flags=mmap.MAP_PRIVATE)
"""


class SilentFilesystem:
    """A mounted file system that holds `program`; after `fall_silent` it answers nothing, and never will."""

    def __init__(self, place: Path, program: Path) -> None:
        self._place = place
        self._bytes = program.read_bytes()
        self._name = program.name
        self.program = place / program.name
        self._silent = threading.Event()
        self._opened_to_write = 0
        self._limit: threading.Timer | None = None

    def __enter__(self) -> Self:
        self._place.mkdir()
        self._device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        self._wake, self._waker = os.pipe()
        options = f"fd={self._device},rootmode=40755,user_id=0,group_id=0,allow_other"
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.mount(b"holdfast-test", os.fsencode(self._place), b"fuse", 0, options.encode()) != 0:
            raise OSError(ctypes.get_errno(), "mount", str(self._place))
        self._server = threading.Thread(target=self._serve, daemon=True)
        self._server.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.abort()
        ctypes.CDLL(None, use_errno=True).umount2(os.fsencode(self._place), _DETACH)

    def abort(self) -> None:
        """Let every process that waits for this file system go on, with an error."""
        if self._limit is not None:
            self._limit.cancel()
            self._limit.join()
        self._end()

    def _end(self) -> None:
        self.fall_silent()
        if self._device >= 0:
            os.close(self._device)  # the last descriptor
        self._device = -1

    def fall_silent(self) -> None:
        """Answer no request from now on."""
        if not self._silent.is_set():
            self._silent.set()
            os.close(self._waker)
            self._server.join()
            os.close(self._wake)

    def _serve(self) -> None:
        poll = select.poll()
        poll.register(self._device, select.POLLIN)
        poll.register(self._wake, select.POLLIN)
        while not self._silent.is_set():
            if self._wake in [fd for fd, _ in poll.poll()]:
                return
            request = os.read(self._device, _LARGEST_REQUEST)
            _, operation, unique, node = struct.unpack_from("=IIQQ", request)
            if operation in (_FORGET, _BATCH_FORGET, _INTERRUPT, _WRITE):
                continue
            answer = self._answer(operation, node, request[40:])
            failure, body = (answer, b"") if isinstance(answer, int) else (0, answer)
            os.write(self._device, struct.pack("=IiQ", 16 + len(body), -failure, unique) + body)

    def lock_holder(self) -> list[str]:
        """A command whose memory nobody can look into after its ready line: not its environment, not its command line.

        The file system never answers a write. Every `ps` of the machine waits for that process, too. So the file
        system is aborted after a while, whatever becomes of the test.
        """
        self._limit = threading.Timer(_HOLDS_S, self._end)
        self._limit.daemon = True
        self._limit.start()
        return [sys.executable, "-c", _HOLDER, str(self.program)]

    def _answer(self, operation: int, node: int, body: bytes) -> bytes | int:
        """The answer to one request, or an errno. Nothing may be cached: the next `stat` has to ask again."""
        if operation == _INIT:
            return struct.pack("=IIIIHHIIHH32x", 7, 31, 1 << 17, 0, 12, 9, 1 << 17, 1, 32, 0)
        if operation == _LOOKUP:
            if os.fsdecode(body.rstrip(b"\0")) != self._name:
                return errno.ENOENT
            return struct.pack("=QQQQII", _PROGRAM_NODE, 0, 0, 0, 0, 0) + self._attributes(_PROGRAM_NODE)
        if operation == _GETATTR:
            return struct.pack("=QII", 0, 0, 0) + self._attributes(node)
        if operation == _OPEN:
            self._opened_to_write += struct.unpack_from("=I", body)[0] & os.O_ACCMODE == os.O_RDWR
            flags = _DIRECT_IO | _KEEP_CACHE if self._opened_to_write > 1 else 0
            return struct.pack("=QII", 0, flags, 0)
        if operation == _READ:
            _, offset, size = struct.unpack_from("=QQI", body)
            return self._bytes[offset : offset + size]
        return b"" if operation in (_FLUSH, _RELEASE) else errno.ENOSYS

    def _attributes(self, node: int) -> bytes:
        is_root = node == _ROOT_NODE
        mode = stat.S_IFDIR | 0o755 if is_root else stat.S_IFREG | 0o755
        size = 0 if is_root else len(self._bytes)
        return struct.pack("=6Q10I", node, size, 0, 0, 0, 0, 0, 0, 0, mode, 2 if is_root else 1, 0, 0, 0, 4096, 0)
