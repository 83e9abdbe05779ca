"""Turns: a test that takes the whole machine runs alone, although workers run the others side by side.

Most tests take a turn together. A test with the mark `alone` (hundreds of processes, busy loops, many runs at once)
waits until the tests that run now are over, and no other test begins before it is over. Two locks keep that order: who
waits to be alone holds the gate, so that those who come later cannot pass.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Turns:
    """The turns of all workers that name the same two files. The files are only locked, never written."""

    def __init__(self, gate: Path, floor: Path) -> None:
        self._gate, self._floor = (os.open(path, os.O_RDONLY | os.O_CLOEXEC) for path in (gate, floor))

    @contextmanager
    def taken(self, alone: bool) -> Iterator[None]:
        """One turn, which ends with the block."""
        how = fcntl.LOCK_EX if alone else fcntl.LOCK_SH
        fcntl.flock(self._gate, how)
        try:
            fcntl.flock(self._floor, how)
        finally:
            fcntl.flock(self._gate, fcntl.LOCK_UN)
        try:
            yield
        finally:
            fcntl.flock(self._floor, fcntl.LOCK_UN)

    def close(self) -> None:
        """Leave; a turn that is still taken ends."""
        os.close(self._gate)
        os.close(self._floor)
