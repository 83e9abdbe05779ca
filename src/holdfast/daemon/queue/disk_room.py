"""Room on the disk of the state directory: below the floor of the settings, no new run starts.

Output that fills the disk harms every program on the host, not only its run. Live runs go on: their output limit is
theirs. The floor is looked at before each start, and again while queued runs wait for it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ...values.durations import format_size

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...config import Config


class DiskRoom:
    """How much room the disk has, compared with the settings in force now."""

    def __init__(self, state_path: str, settings: Callable[[], Config]) -> None:
        self._path = state_path
        self._settings = settings

    @property
    def missing_bytes(self) -> int:
        """How many bytes must become free before a run may start; 0: there is room, or nobody knows."""
        floor = self._settings().disk_floor
        if floor is None:
            return 0
        try:
            found = os.statvfs(self._path)
        except OSError:
            return 0  # a start finds out by itself
        return max(0, floor.of(found.f_blocks * found.f_frsize) - found.f_bavail * found.f_frsize)

    def is_there(self) -> bool:
        """Whether a run may start."""
        return self.missing_bytes == 0

    @property
    def refusal(self) -> str | None:
        """Why a new run is not even queued; None: it is."""
        return self._told() if self._settings().on_low_disk == "refuse" else None

    def shortages(self) -> list[str]:
        """What the daemon's health says about the disk."""
        told = self._told()
        return [] if told is None else [f"{told}: new runs are {_DONE[self._settings().on_low_disk]}"]

    def _told(self) -> str | None:
        missing = self.missing_bytes
        return f"the disk of {self._path} lacks {format_size(missing)} to its floor" if missing else None


_DONE = {"queue": "queued, and not started", "refuse": "refused"}
