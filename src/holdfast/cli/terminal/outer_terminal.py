"""The terminal Holdfast was started on, while the command has a terminal of its own inside.

The outer one is raw: every key goes to the inner one, whose line discipline makes Ctrl-C and Ctrl-Z of it. It is raw
only while our process group is in the foreground: a background job that changed the modes would be stopped by SIGTTOU,
and reading would steal what is typed to the shell. Modes are put back before we stop and before we end.
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
    """The outer terminal behind one descriptor."""

    __slots__ = ("_saved", "fd")

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._saved: list[Any] | None = None

    @property
    def raw(self) -> bool:
        """Whether keys are for the command now."""
        return self._saved is not None

    def in_foreground(self) -> bool:
        """Whether we may read it and set its modes."""
        try:
            return os.tcgetpgrp(self.fd) == os.getpgrp()
        except OSError:
            return True  # not our controlling terminal: no job control to respect

    def enter(self) -> None:
        """Make it raw if we are in the foreground; right also when it is raw, or a shell has changed it."""
        if not self.in_foreground():
            self._saved = None  # whoever is in the foreground has set the modes it needs
            return
        try:
            if self._saved is None:
                self._saved = termios.tcgetattr(self.fd)
            tty.setraw(self.fd, termios.TCSANOW)
        except termios.error:
            self._saved = None  # it hung up: SIGHUP or the end of file says so

    def restore(self) -> None:
        """Put the modes back as they were. TCSANOW: a terminal that nobody reads must not hold up our end."""
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
    """What to write to a terminal so that its reader sees the end of the input.

    The end-of-file character hands over the line so far; it means the end only at the start of a line.
    """
    try:
        character = termios.tcgetattr(terminal)[6][termios.VEOF]
    except termios.error:
        return b""
    return bytes(character) if at_line_start else bytes(character) * 2
