"""The retention clock: how long ago something was, by time that passed and not by what the wall clock was set to.

Runs, keys, events and deliveries have wall-clock times. If the wall clock jumps by 40 days, all of them look 40 days
older at once, and retention would remove them. So the daemon compares the wall clock with the clock of the boot, which
nobody can set. Where the two differ, a new segment of the wall clock begins. An age counts back through the segments.

    wall clock   ....[ segment of 3 days ]  (jump of 40 days)  [ segment of 1 hour ] now
    4 days ago   ....^

- Within one boot the clock of the boot says how much time passed, also while no daemon ran.
- Across a boot only the wall clock knows. It counts for a day at most: a machine that was off for longer keeps its
  history longer, and a wrong clock at the boot removes nothing.
- The answer is never later than what the wall clock alone says: a clock that was set back removes nothing, either.

The segments are in a file, because the next daemon must not take the jump for an age.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from ...state.owned_files import check_file, write_atomically
from ...values.errors import StateError
from ...values.identity import boot_id

if TYPE_CHECKING:
    from collections.abc import Callable

FILE = "clock"
_S = 1_000_000_000
_JUMP_NS = 3600 * _S  # smaller differences are corrections of the time
_BOOT_NS = 86_400 * _S  # the most that counts between two boots
_MOST_SEGMENTS = 100


class ClockSegment(NamedTuple):
    """A time without a jump: the wall clock at its beginning and when it was last read, and the boot's clock then."""

    began_ns: int
    seen_ns: int
    boot: str
    boottime_ns: int


class RetentionClock:
    """The segments of the wall clock, as far as this state directory's daemons have seen them."""

    def __init__(self, path: str | None = None) -> None:
        """`path` is the file that keeps the segments; None: they are forgotten with this object."""
        self._path = path
        self._segments = [] if path is None else _load(path)
        if not self._segments:
            wall_ns, boot, boottime_ns = _read_clocks()
            self._segments = [ClockSegment(wall_ns, wall_ns, boot, boottime_ns)]

    def ago_ns(self, seconds: float) -> int:
        """What the wall clock said when this much time was still to pass until now."""
        self._look()
        left_ns = round(seconds * _S)
        by_wall_ns = self._segments[-1].seen_ns - left_ns
        for segment in reversed(self._segments):
            ago_ns = segment.seen_ns - left_ns
            if ago_ns >= segment.began_ns or segment is self._segments[0]:
                return min(by_wall_ns, ago_ns)
            left_ns -= segment.seen_ns - segment.began_ns
        raise AssertionError("the first segment has no beginning")

    def saving(self) -> Callable[[], None]:
        """An action that writes the segments of now down for the next daemon, from any thread.

        OSError, StateError: the file stays as it was.
        """
        self._look()
        path, data = self._path, msgspec.json.encode(self._segments)
        return lambda: None if path is None else write_atomically(path, data)

    def _look(self) -> None:
        wall_ns, boot, boottime_ns = _read_clocks()
        last = self._segments[-1]
        apart_ns = wall_ns - last.seen_ns
        by_boot_ns = boottime_ns - last.boottime_ns
        passed_ns = max(0, by_boot_ns if boot == last.boot else min(apart_ns, _BOOT_NS))
        if abs(apart_ns - passed_ns) > _JUMP_NS:
            self._segments.append(ClockSegment(wall_ns - passed_ns, wall_ns, boot, boottime_ns))
            del self._segments[:-_MOST_SEGMENTS]
        else:
            self._segments[-1] = last._replace(seen_ns=wall_ns, boot=boot, boottime_ns=boottime_ns)


def _read_clocks() -> tuple[int, str, int]:
    return time.time_ns(), boot_id() or "unknown", time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def _load(path: str) -> list[ClockSegment]:
    try:
        if not check_file(path):
            return []
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(), type=list[ClockSegment])
    except (OSError, StateError, msgspec.MsgspecError):
        return []  # what is lost is how the clock has jumped before: it counts from now on


def clock_file(state_path: str) -> str:
    """The file of the segments in this state directory."""
    return os.path.join(state_path, FILE)
