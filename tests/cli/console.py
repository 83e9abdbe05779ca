"""Start `holdfast` as a user does: through pipes, or at a real terminal with keys and a screen."""

from __future__ import annotations

import errno
import fcntl
import os
import select
import struct
import subprocess
import sys
import termios
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

HOLDFAST = [sys.executable, "-m", "holdfast.cli.main"]
_BOUND_S = 60.0


def holdfast(*arguments: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """Run it to its end with output captured and an empty stdin."""
    options.setdefault("stdin", subprocess.DEVNULL)
    if "stdout" not in options and "stderr" not in options:
        options["capture_output"] = True
    return subprocess.run([*HOLDFAST, *arguments], timeout=_BOUND_S, check=False, **options)


def start(*arguments: str, program: Sequence[str] = HOLDFAST, **options: Any) -> subprocess.Popen[bytes]:
    """Start it in a process group of its own, with its stdout as a pipe."""
    options.setdefault("stdin", subprocess.DEVNULL)
    options.setdefault("stdout", subprocess.PIPE)
    options.setdefault("stderr", subprocess.PIPE)
    return subprocess.Popen([*program, *arguments], process_group=0, **options)


def read_until(fd: int, text: bytes, seen: bytes = b"") -> bytes:
    """Read until `text` is there. AssertionError with the text so far if it does not come."""
    end = time.monotonic() + _BOUND_S
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    while text not in seen:
        if not poll.poll(max(0.0, end - time.monotonic()) * 1000):
            raise AssertionError(f"{text!r} did not come; there was {seen[-3000:]!r}")
        try:
            part = os.read(fd, 65536)
        except OSError as error:
            if error.errno != errno.EIO:  # a terminal that no process has open any more
                raise
            part = b""
        if not part:
            raise AssertionError(f"the end came before {text!r}; there was {seen[-3000:]!r}")
        seen += part
    return seen


class Console:
    """A terminal with a program in its foreground, which leads a session of its own as a login shell does."""

    def __init__(
        self, *argv: str, size: tuple[int, int] = (24, 80), environment: Mapping[str, str] | None = None
    ) -> None:
        self.keys, self.terminal = os.openpty()
        self.resize(*size)
        self.modes = termios.tcgetattr(self.terminal)
        self._unread = b""
        terminal = self.terminal
        self.process = subprocess.Popen(
            argv,
            env={**os.environ, "TERM": "xterm", **(environment or {})},
            preexec_fn=lambda: os.login_tty(os.dup(terminal)),
            close_fds=True,
        )

    def __enter__(self) -> Console:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.keys)
        if self.terminal >= 0:
            os.close(self.terminal)

    def type(self, keys: bytes) -> None:
        """Press keys."""
        os.write(self.keys, keys)

    def until(self, text: bytes) -> bytes:
        """Read the screen until `text` appears; later output is kept for the next call."""
        seen = read_until(self.keys, text, self._unread)
        at = seen.index(text) + len(text)
        self._unread = seen[at:]
        return seen[:at]

    def resize(self, rows: int, columns: int) -> None:
        """Make the window larger or smaller."""
        fcntl.ioctl(self.keys, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def wait(self) -> int:
        """The exit code of the program; its remaining output is read, so that it does not block."""
        end = time.monotonic() + _BOUND_S
        while (code := self.process.poll()) is None:
            if time.monotonic() > end:
                raise AssertionError(f"it does not end; there was {self._unread[-3000:]!r}")
            self._take(10)
        while self._take(0):
            pass
        return code

    @property
    def rest(self) -> bytes:
        """The output that `wait` read."""
        return self._unread

    def modes_now(self) -> list[Any]:
        """The terminal's modes as they are."""
        return termios.tcgetattr(self.terminal)

    def hang_up(self) -> None:
        """Close the window."""
        os.close(self.terminal)
        self.terminal = -1
        keys = os.open(os.devnull, os.O_RDWR)
        os.dup2(keys, self.keys)
        os.close(keys)

    def _take(self, wait_ms: int) -> bool:
        poll = select.poll()
        poll.register(self.keys, select.POLLIN)
        if not poll.poll(wait_ms):
            return False
        self._unread += os.read(self.keys, 65536)
        return True
