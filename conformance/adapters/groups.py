"""A process group of its own, for peers that offer one: signals go to the whole group."""

from __future__ import annotations

import os


def signal_group(leader: int, number: int) -> None:
    """Signal every process of the group; an empty group is no error."""
    try:
        os.killpg(leader, number)
    except ProcessLookupError:
        pass


class Kept:
    """Output as it comes, either kept or only counted."""

    def __init__(self, counted: bool) -> None:
        self.counted = counted
        self.bytes = 0
        self.data = bytearray()

    def take(self, part: bytes | bytearray) -> None:
        """Take one more piece."""
        self.bytes += len(part)
        if not self.counted:
            self.data += part
