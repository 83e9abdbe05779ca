"""The bound on records of refused requests: a stranger can be refused without end, and must not fill the disk.

Each source (an address or a token) may have a few records at once, then one every ten seconds; all sources together the
same with a larger number at once. What is not recorded is counted, and the next record has the count.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_EVERY_S = 10.0
_OF_ONE = 10  # records at once of one source
_OF_ALL = 100
_MOST_SOURCES = 1024


class _Bucket:
    """A number of records that may be made now, which grows by one every ten seconds."""

    def __init__(self, most: int, now: float) -> None:
        self._most, self._left, self._at = most, float(most), now

    def has_one(self, now: float) -> bool:
        self._left = min(self._most, self._left + (now - self._at) / _EVERY_S)
        self._at = now
        return self._left >= 1.0

    def take(self) -> None:
        self._left -= 1.0


class RefusalBound:
    """Decides which refusals are recorded."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._all = _Bucket(_OF_ALL, now())
        self._sources: dict[str, _Bucket] = {}
        self._suppressed = 0

    def take(self, source: str) -> int | None:
        """None: count this refusal only. Else record it, with this number of refusals that were only counted."""
        now = self._now()
        bucket = self._sources.pop(source, None) or _Bucket(_OF_ONE, now)
        self._sources[source] = bucket  # at the end: the source that was quiet for longest is forgotten first
        if len(self._sources) > _MOST_SOURCES:
            del self._sources[next(iter(self._sources))]
        # Both are asked before one is used: a source that must wait takes nothing from the others.
        if not (bucket.has_one(now) and self._all.has_one(now)):
            self._suppressed += 1
            return None
        bucket.take()
        self._all.take()
        counted, self._suppressed = self._suppressed, 0
        return counted
