"""`--report PATH`: the final report as JSON, whole or not at all."""

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
    """A place for the report, found usable before the run is started. UsageError when it is not."""

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
        """Whether writing may wait for a reader."""
        return self._fd >= 0

    def write(self, report: dict[str, Any]) -> None:
        """Write it; OSError when that fails after all."""
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
        # Beside the target, since rename does not cross file systems.
        name = f"{self.path}.{os.getpid()}.tmp"
        return name, os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)

    def _try(self) -> None:
        # Made and removed again: a run may be killed with us, and then nothing of ours may lie about.
        name, fd = self._create()
        os.close(fd)
        os.unlink(name)


def _open_special(path: str) -> int:
    """A descriptor for what cannot be replaced by a rename: one of ours, a pipe, a device. -1 for a plain file."""
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
    # Non-blocking only to open it: a FIFO without a reader is an error now, not a wait for ever later.
    fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    os.set_blocking(fd, True)
    return fd


def _write_all(fd: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(fd, left) :]
