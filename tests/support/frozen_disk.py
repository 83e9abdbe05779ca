"""A disk of its own, ext4 on a loop device, that a test can freeze: writes hang until it thaws, reads go on.

A process that hangs there cannot be killed. So a frozen disk thaws by itself after a bound: a guard that waits for it
then fails the test, and the test does not hang.
"""

from __future__ import annotations

import os
import subprocess
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


FROZEN_AT_MOST_S = 15.0


class Disk:
    """A mounted file system. Freezing and thawing a second time does nothing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._is_frozen = False
        self._changes = threading.Lock()
        self._bound: threading.Timer | None = None

    def freeze(self) -> None:
        """Let every write hang from now on."""
        with self._changes:
            if self._is_frozen:
                return
            subprocess.run(["fsfreeze", "--freeze", self.path], check=True)
            self._is_frozen = True
            self._bound = threading.Timer(FROZEN_AT_MOST_S, self._unfreeze)
            self._bound.start()

    def thaw(self) -> None:
        """Let writes go on."""
        if self._bound is not None:
            self._bound.cancel()
            self._bound.join()
        self._unfreeze()

    def _unfreeze(self) -> None:
        with self._changes:
            if self._is_frozen:
                subprocess.run(["fsfreeze", "--unfreeze", self.path], check=True)
            self._is_frozen = False


@contextmanager
def disk(place: Path, megabytes: int = 64) -> Iterator[Disk]:
    """Make and mount a disk. On leaving it is thawed and unmounted, whatever happened."""
    image = place.with_suffix(".image")
    with image.open("wb") as file:
        os.truncate(file.fileno(), megabytes << 20)
    subprocess.run(["mkfs.ext4", "-q", "-m", "0", image], check=True)
    place.mkdir()
    subprocess.run(["mount", "-o", "loop", image, place], check=True)
    made = Disk(place)
    try:
        yield made
    finally:
        made.thaw()
        subprocess.run(["umount", "--lazy", place], check=True)
