"""A process group of its own, for the peers that offer one: all of it is signalled."""

from __future__ import annotations

import os


def signal_group(leader: int, number: int) -> None:
    """Signal every process of the group; an empty group is no error."""
    try:
        os.killpg(leader, number)
    except ProcessLookupError:
        pass


class Kept:
    """Output as it comes, kept or only counted."""

    def __init__(self, counted: bool) -> None:
        self.counted = counted
        self.bytes = 0
        self.data = bytearray()

    def take(self, part: bytes | bytearray) -> None:
        """One more piece."""
        self.bytes += len(part)
        if not self.counted:
            self.data += part
