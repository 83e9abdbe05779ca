"""The outer terminal, on which the user started Holdfast, while the command has an inner terminal of its own.

The outer terminal is raw: every key goes to the inner one, whose line discipline turns keys into Ctrl-C and Ctrl-Z. It
is raw only while our process group is in the foreground. A background job that changed the modes would be stopped by
SIGTTOU, and reading would steal keys from the shell. We restore the modes before we stop and before we end.
"""

from __future__ import annotations

import os
import signal
import termios
import tty
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any


class OuterTerminal:
    """The outer terminal on one descriptor: its modes, saved and restored."""

    __slots__ = ("_saved", "fd")

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._saved: list[Any] | None = None

    @property
    def raw(self) -> bool:
        """Whether the terminal is raw now, so that keys go to the command."""
        return self._saved is not None

    def in_foreground(self) -> bool:
        """Whether our process group is in the foreground, and may read the terminal and set its modes."""
        try:
            return os.tcgetpgrp(self.fd) == os.getpgrp()
        except OSError:
            return True  # not our controlling terminal: no job control to respect

    def enter(self) -> None:
        """Make the terminal raw if we are in the foreground. Call it again after a shell may have changed the modes."""
        if not self.in_foreground():
            self._saved = None  # the foreground job has set the modes that it needs
            return
        try:
            if self._saved is None:
                self._saved = termios.tcgetattr(self.fd)
            tty.setraw(self.fd, termios.TCSANOW)
        except termios.error:
            self._saved = None  # the terminal hung up: SIGHUP or end of file will tell

    def restore(self) -> None:
        """Restore the saved modes. With TCSANOW, because a terminal that nobody reads must not delay our end."""
        if self._saved is None:
            return
        saved, self._saved = self._saved, None
        held = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTTOU,))
        try:
            if self.in_foreground():
                termios.tcsetattr(self.fd, termios.TCSANOW, saved)
        except termios.error:
            pass
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, held)


def window_size() -> tuple[int, int] | None:
    """Rows and columns of the first standard stream that is a terminal; None when none is."""
    for fd in (0, 1, 2):
        try:
            size = os.get_terminal_size(fd)
        except OSError:
            continue
        return size.lines, size.columns
    return None


def end_of_input(terminal: int, *, at_line_start: bool) -> bytes:
    """The bytes to write to a terminal so that its reader sees the end of the input.

    The end-of-file character hands the line so far to the reader; only at the start of a line does it mean the end.
    """
    try:
        character = termios.tcgetattr(terminal)[6][termios.VEOF]
    except termios.error:
        return b""
    return bytes(character) if at_line_start else bytes(character) * 2
