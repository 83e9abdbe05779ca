"""The command line and the environment of another process, read with an end in time.

Both lie in the memory of that process. To read them, the kernel takes the lock of that memory. A process that maps a
file of a file system which does not answer holds the lock for as long as it likes, and only SIGKILL ends the wait of a
reader. So a thread reads, and the caller waits for it for a moment. A thread that hangs is left behind, one for each
file; it ends when the kernel answers, or with this program. What cannot be read is empty, as for a process of another
user.
"""

from __future__ import annotations

import _thread
import os

_PATIENCE_S = 1.0  # without any progress: a busy machine may keep the thread waiting
_PIECE = 131072
_COMMAND_LINE_MAX = 65536
_ENVIRONMENT_MAX = 8 << 20  # the kernel allows six megabytes of arguments and environment, where the stack limit does


class _Reader:
    """A thread that reads one file after another."""

    __slots__ = ("_asked", "_data", "_done", "_is_left", "_path", "_size")

    def __init__(self) -> None:
        self._asked, self._done = _thread.allocate_lock(), _thread.allocate_lock()
        self._asked.acquire()
        self._done.acquire()
        self._path, self._size, self._data = "", 0, b""
        self._is_left = False  # nobody waits for it any more
        _thread.start_new_thread(self._serve, ())

    def read(self, path: str, size: int, within_s: float) -> bytes | None:
        """The first bytes of this file; None when the read hangs."""
        self._path, self._size, self._data = path, size, b""
        self._asked.release()
        before = -1
        while not self._done.acquire(timeout=within_s):
            if len(self._data) == before:
                return None
            before = len(self._data)
        return self._data

    def leave(self) -> None:
        """Let the thread end when its read does."""
        self._is_left = True
        self._asked.release()

    def _serve(self) -> None:
        while self._asked.acquire() and not self._is_left:
            self._read()
            self._done.release()
        _hanging.pop(self._path, None)

    def _read(self) -> None:
        try:
            fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return
        try:
            while len(self._data) < self._size and (part := os.read(fd, _PIECE)):
                self._data += part
        except OSError:
            self._data = b""
        finally:
            os.close(fd)


_owner = 0  # the process whose threads these are: a fork has none of them
_idle: list[_Reader] = []
_hanging: dict[str, _Reader] = {}


def command_line(pid: int) -> bytes:
    """The command line of a process, a NUL after each word; empty if there is no such process, or it cannot be read."""
    return _read_in_time(f"/proc/{pid}/cmdline", _COMMAND_LINE_MAX)


def environment(pid: int) -> bytes:
    """The environment of a process at its exec, a NUL after each variable; empty if it cannot be read."""
    return _read_in_time(f"/proc/{pid}/environ", _ENVIRONMENT_MAX)


def _read_in_time(path: str, size: int) -> bytes:
    global _owner
    if _owner != os.getpid():
        _idle.clear()
        _hanging.clear()
        _owner = os.getpid()
    if path in _hanging:
        return b""
    try:
        reader = _idle.pop() if _idle else _Reader()
    except RuntimeError:  # no thread can be started
        return b""
    data = reader.read(path, size, _PATIENCE_S / (1 + len(_hanging)))
    if data is None:
        _hanging[path] = reader
        reader.leave()
        return b""
    _idle.append(reader)
    return data
