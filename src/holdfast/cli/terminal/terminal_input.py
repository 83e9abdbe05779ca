"""Pass our stdin on to the command's terminal: keys when our stdin is a terminal, any bytes otherwise."""

from __future__ import annotations

import os
import select
from typing import TYPE_CHECKING

from ...values.errors import RequestError
from .outer_terminal import OuterTerminal, end_of_input, window_size

if TYPE_CHECKING:
    from ...runs.live import LiveRun

_PIECE = 4096
_SOURCE = 0


class TerminalInput:
    """Relays our stdin to the command's terminal; the end of our stdin becomes a Ctrl-D.

    If our stdin is a terminal that hangs up, `hung_up` is set instead.
    """

    def __init__(self, live: LiveRun) -> None:
        self.live = live
        self.terminal = OuterTerminal(_SOURCE) if os.isatty(_SOURCE) else None
        self.hung_up = False
        self._open = True
        self._pending = b""
        self._at_line_start = True

    def watch(self) -> dict[int, int]:
        """The descriptors to poll, with their events. More input is read only when the last input is passed on."""
        if self.live.input < 0:
            return {}
        if self._pending:
            return {self.live.input: select.POLLOUT}
        if not self._open:
            return {}
        # In the background we may not read keys, but we must still notice a terminal that is gone.
        return {_SOURCE: 0 if self.waits_for_foreground() else select.POLLIN}

    def waits_for_foreground(self) -> bool:
        """Whether the caller must poll for the foreground: no signal tells a background job that it is there now."""
        return self.terminal is not None and self._open and not self.terminal.raw

    def on_ready(self, ready: dict[int, int]) -> None:
        """Read from our stdin or write to the command's terminal, whichever is ready."""
        if _SOURCE in ready and not self._pending:
            self._read()
        if self._pending:
            self._write()

    def resize(self) -> None:
        """Give the inner terminal the window size of the outer one."""
        size = window_size()
        if size is not None and self.live.input >= 0:
            try:
                self.live.resize(*size)
            except RequestError:
                pass  # the command's terminal is gone: the run is about to end

    def enter(self) -> None:
        """Make our terminal raw, so that we get every key; also after a stop."""
        if self.terminal is not None:
            self.terminal.enter()

    def restore(self) -> None:
        """Restore the modes of our terminal."""
        if self.terminal is not None:
            self.terminal.restore()

    def _read(self) -> None:
        try:
            data = os.read(_SOURCE, _PIECE)
        except BlockingIOError:
            return
        except OSError:
            data = b""  # EIO: the terminal hung up
        if data:
            self._pending = data
            self._at_line_start = data.endswith(b"\n")
            return
        self._open = False
        self.hung_up = self.terminal is not None
        if not self.hung_up:
            self._pending = end_of_input(self.live.input, at_line_start=self._at_line_start)

    def _write(self) -> None:
        written = self.live.write_input(memoryview(self._pending))
        self._pending = b"" if written is None else self._pending[written:]
