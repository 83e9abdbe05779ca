"""Progress of a long command: a bar on a terminal, a line per section elsewhere. On stderr: stdout is for results."""

from __future__ import annotations

import os
import shutil
import sys
import time

_WIDTH = 24


class Progress:
    """Count steps; each step has a name for the work that begins."""

    def __init__(self, total: int, name: str = "bench", things: str = "measurements") -> None:
        self._total = total
        self._name, self._things = name, things
        self._done = 0
        self._began = time.monotonic()
        self._is_terminal = sys.stderr.isatty()
        self._last = ""
        self.most_load = 0.0  # the highest load average met at any step

    def step(self, section: str, what: str) -> None:
        """The next step begins."""
        self.most_load = max(self.most_load, os.getloadavg()[0])
        filled = _WIDTH * self._done // max(self._total, 1)
        elapsed_s = time.monotonic() - self._began
        left = f", {elapsed_s / self._done * (self._total - self._done):.0f} s left" if self._done else ""
        if self._is_terminal:
            columns = shutil.get_terminal_size().columns
            line = f"[{'#' * filled}{'.' * (_WIDTH - filled)}] {self._done}/{self._total}{left}  {section}: {what}"
            print(f"\r\x1b[K{line[: columns - 1]}", end="", file=sys.stderr, flush=True)
        elif section != self._last:
            self._last = section
            print(f"{self._name}: {self._done}/{self._total} {section}{left}", file=sys.stderr, flush=True)
        self._done += 1

    def finish(self) -> None:
        """Finish the bar."""
        end = "\r\x1b[K" if self._is_terminal else ""
        print(
            f"{end}{self._name}: {self._done} {self._things} in {time.monotonic() - self._began:.0f} s", file=sys.stderr
        )
