"""The input of `holdfast attach`: our keys up to the detach key, or the bytes of our stdin up to its end."""

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
    """The byte that a key such as `ctrl-]` sends; empty for `none`. UsageError when there is no such key."""
    name = text.lower()
    if name == "none":
        return b""
    letter = name.removeprefix("ctrl-").removeprefix("^")
    if len(letter) == 1 and len(name) > 1 and letter in "abcdefghijklmnopqrstuvwxyz[\\]^_":
        return bytes((ord(letter.upper()) & 0x1F,))
    raise UsageError(f"--detach-key {text!r} is no key", remedy="write ctrl- and a letter, or none")


class AttachedInput(TerminalInput):
    """Passes our stdin to the run until the user presses the detach key (`detached`).

    If the run's stdin is a pipe, the end of our stdin closes that pipe.
    For a run without a terminal our own terminal keeps its modes: we read it by the line, and Ctrl-C is for us.
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
            # Our input ended, not the command's: its terminal gets no Ctrl-D, because others may attach next.
            self._pending = b""
            if not self.live.spec.pty:
                self._close_pipe()
        if self._key and self._key in self._pending:
            self._pending = self._pending[: self._pending.index(self._key)]
            self.detached = True

    def _close_pipe(self) -> None:
        try:
            self.live.ask_close_input()  # the guard has a copy that would keep the pipe open
        except RequestError:
            pass  # the run is over
        self.live.close_input()


def _is_meant() -> bool:
    """Whether our stdin has input to send. /dev/null has none, and its end must not close the run's pipe."""
    return os.isatty(_SOURCE) or not stat.S_ISCHR(os.fstat(_SOURCE).st_mode)
