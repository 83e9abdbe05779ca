"""Our stdin to a run that somebody else started: keys until the detach key, or bytes until their end."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from ...values.errors import RequestError
from ..parsing.options import UsageError
from ..terminal.terminal_input import TerminalInput

if TYPE_CHECKING:
    from ...runs.live import LiveRun

_SOURCE = 0


def parse_key(text: str) -> bytes:
    """`ctrl-]` as the byte it sends; empty for `none`. UsageError for what is no such key."""
    name = text.lower()
    if name == "none":
        return b""
    letter = name.removeprefix("ctrl-").removeprefix("^")
    if len(letter) == 1 and len(name) > 1 and letter in "abcdefghijklmnopqrstuvwxyz[\\]^_":
        return bytes((ord(letter.upper()) & 0x1F,))
    raise UsageError(f"--detach-key {text!r} is no key", remedy="write ctrl-] or another letter after ctrl-, or none")


class AttachedInput(TerminalInput):
    """Passes stdin on. `detached` when the detach key was pressed; the end of the input closes a pipe.

    A run without a terminal leaves ours as it is: it is read by the line, and Ctrl-C is ours.
    """

    def __init__(self, live: LiveRun, key: bytes) -> None:
        super().__init__(live)
        self.detached = False
        self._key = key if live.spec.pty and self.terminal is not None else b""
        if not live.spec.pty:
            self.terminal = None
        self._open = _is_meant()

    def _read(self) -> None:
        super()._read()
        if not self._open:
            # Our end is not the command's: a terminal gets no Ctrl-D, because somebody else may attach next.
            self._pending = b""
            if not self.live.spec.pty:
                self._close_pipe()
        if self._key and self._key in self._pending:
            self._pending = self._pending[: self._pending.index(self._key)]
            self.detached = True

    def _close_pipe(self) -> None:
        try:
            self.live.ask_close_input()  # the guard has a copy, which would keep it open
        except RequestError:
            pass  # it is over
        self.live.close_input()


def _is_meant() -> bool:
    """Whether somebody wants to send something: not when our stdin is /dev/null, whose end would close the pipe."""
    return os.isatty(_SOURCE) or not stat.S_ISCHR(os.fstat(_SOURCE).st_mode)
