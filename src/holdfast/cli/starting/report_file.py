"""`--report PATH`: write the final report as JSON, completely or not at all."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

from ..parsing.options import UsageError

if TYPE_CHECKING:
    from typing import Any

_OWN_DESCRIPTORS = ("/dev/fd/", "/proc/self/fd/")
_STANDARD = {"/dev/stdout": 1, "/dev/stderr": 2}


class ReportFile:
    """The file for the report, tested before the run starts. UsageError when it cannot be written."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._fd = -1
        if not path:
            raise UsageError("--report '' names no file", remedy="name one, or leave the option out")
        if path == "-":
            raise UsageError("--report - would mix with the command's output", remedy="name a file, or /dev/fd/3")
        try:
            self._fd = _open_special(path)
            if self._fd < 0:
                self.path = os.path.realpath(path)
                self._try()
        except OSError as error:
            remedy = "name a file in a directory you may write to"
            raise UsageError(f"--report cannot be written to {path!r}: {error.strerror}", remedy=remedy) from None

    @property
    def is_special(self) -> bool:
        """Whether a write may wait for a reader: the path is a pipe, a device or one of our descriptors."""
        return self._fd >= 0

    def write(self, report: dict[str, Any]) -> None:
        """Write the report; OSError when that fails in spite of the test."""
        import json

        data = json.dumps(report, indent=2).encode() + b"\n"
        if self._fd >= 0:
            _write_all(self._fd, data)
            return
        name, fd = self._create()
        try:
            _write_all(fd, data)
            os.rename(name, self.path)
        except OSError:
            os.unlink(name)
            raise
        finally:
            os.close(fd)

    def _create(self) -> tuple[str, int]:
        # Beside the target, because a rename cannot cross file systems.
        name = f"{self.path}.{os.getpid()}.tmp"
        return name, os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)

    def _try(self) -> None:
        # Make the file and remove it again: if we are killed during the run, no file is left behind.
        name, fd = self._create()
        os.close(fd)
        os.unlink(name)


def _open_special(path: str) -> int:
    """Open a path that a rename cannot replace: one of our own descriptors, a pipe or a device.

    Returns -1 for a plain file, and for a path where no file exists yet. OSError: the path cannot be opened.
    """
    number = next((path[len(head) :] for head in _OWN_DESCRIPTORS if path.startswith(head)), None)
    if path in _STANDARD or number is not None:
        if number is not None and not number.isdigit():
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return os.dup(_STANDARD[path] if number is None else int(number))
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return -1
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if stat.S_ISREG(mode):
        return -1
    # Open without blocking: a FIFO without a reader is then an error now, and not an endless wait.
    fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    os.set_blocking(fd, True)
    return fd


def _write_all(fd: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(fd, left) :]
