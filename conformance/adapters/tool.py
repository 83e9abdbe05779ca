"""A command-line tool that runs the command: started with its output in files, as a shell would redirect it."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from conformance.adapters.serving import say

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

    from conformance.task import Task

_IN_POSITION_S = 0.2
_LOOK_S = 0.01
_PIPE_BYTES = 1 << 16
_READER_PAUSE_S = 0.1


class Tool:
    """The tool's process; `code` is as Python gives it, negative for a signal."""

    def __init__(self, task: Task, argv: list[str], place: str, **options: Any) -> None:
        self.task, self.place = task, place
        self.began = time.monotonic()
        given = _fed(task.input_bytes) if task.input_bytes else os.open(os.devnull, os.O_RDONLY)
        self._reader: threading.Thread | None = None
        with open(f"{place}.stdout", "wb") as file, open(f"{place}.stderr", "wb") as err:
            out = self._read_slowly(f"{place}.stdout") if task.slow_reader else file
            start = partial(_start, self, argv, given, out, err, options)
            if task.thread:
                _in_a_thread(start)
            else:
                start()
        os.close(given)
        if task.slow_reader:
            out.close()
        say({"supervisor": self.process.pid})
        if task.cancel_after_s is not None:
            threading.Thread(target=self._cancel, args=(task.cancel_after_s,), daemon=True).start()

    process: subprocess.Popen[bytes]

    def _read_slowly(self, path: str) -> BinaryIO:
        """The write end of a pipe whose reader is slow, and appends to the file."""
        reading, writing = os.pipe()
        self._reader = threading.Thread(target=_copy_slowly, args=(reading, path), daemon=True)
        self._reader.start()
        return os.fdopen(writing, "wb")

    def _cancel(self, after_s: float) -> None:
        """Cancel after this delay from the start of the command, not of the tool: the command says when it runs."""
        while not os.path.getsize(f"{self.place}.stdout") and self.process.poll() is None:
            time.sleep(_LOOK_S)
        time.sleep(after_s)
        self.process.send_signal(signal.SIGTERM)

    def wait(self) -> int:
        """Wait until the tool has ended, and its reader, if it is a slow one."""
        code = self.process.wait()
        if self._reader is not None:
            self._reader.join()
        return code

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.began

    def output(self) -> dict[str, Any]:
        """The output for an answer: files are in place already; bytes that were not kept are counted."""
        if not self.task.stream:
            return {}
        count = os.path.getsize(f"{self.place}.stdout")
        os.truncate(f"{self.place}.stdout", 0)
        return {"stdout_bytes": count}


def _in_a_thread(start: Callable[[], None]) -> None:
    """Start in a thread that ends when the command runs; nobody could have noticed an earlier end."""

    def start_and_stay() -> None:
        start()
        time.sleep(_IN_POSITION_S)

    thread = threading.Thread(target=start_and_stay)
    thread.start()
    thread.join()


def _start(tool: Tool, argv: list[str], given: int, out: Any, err: Any, options: dict[str, Any]) -> None:
    tool.process = subprocess.Popen(
        argv, stdin=given, stdout=out, stderr=err, cwd=tool.task.cwd if not options.pop("own_cwd", False) else None,
        close_fds=False, **options,
    )  # fmt: skip


def _copy_slowly(reading: int, path: str) -> None:
    with open(path, "ab") as file, os.fdopen(reading, "rb", buffering=0) as source:
        while part := source.read(_PIPE_BYTES):
            file.write(part)
            time.sleep(_READER_PAUSE_S)


def _fed(count: int) -> int:
    """A pipe as a shell makes one: another process writes into it, and does not fail when nobody reads."""
    given, feed = os.pipe()
    threading.Thread(target=_feed, args=(feed, count), daemon=True).start()
    return given


def _feed(fd: int, count: int) -> None:
    try:
        os.write(fd, bytes(count))
    except BrokenPipeError:
        pass
    os.close(fd)
