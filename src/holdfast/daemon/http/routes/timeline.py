"""Timeline of one run: its facts in plain words, the fact that decided, and its output over time."""

from __future__ import annotations

import asyncio
import os
import time
from array import array
from typing import TYPE_CHECKING, Literal

import msgspec

from .... import outcome as outcomes
from ....journal.codec import FRAME, FRAME_SIZE
from ....journal.facts import LATE
from ....journal.reader import JournalReader
from ....wording.timeline import timeline as tell  # the words for facts are in `wording`
from ..wire.operation import Operation, OperationCall, answer

if TYPE_CHECKING:
    from starlette.responses import Response

_SLICES = 120
_LOOKS = 4000  # about how many output frames are read; of a longer journal, only every n-th frame


class Moment(msgspec.Struct):
    """One fact in plain words. `mark`: it `decided`, or it came too `late` to decide; empty for all other facts."""

    at_s: float | None
    fact: str
    words: str
    mark: Literal["", "decided", "late"]


class Activity(msgspec.Struct):
    """How much output was written around one moment."""

    at_s: float
    bytes: int
    late: bool


class Timeline(msgspec.Struct):
    """The facts of a run in order, and its output over time. Times are seconds since the journal was begun."""

    run_id: str
    moments: list[Moment]
    activity: list[Activity]
    now_s: float | None  # the current time of a live run


class _OutputPlaces(JournalReader):
    """A reader that remembers the place and the length of each output frame, but not its content."""

    def __init__(self, fd: int, run_id: str) -> None:
        super().__init__(fd, run_id=run_id)
        self.places: array[int] = array("Q")
        self.lengths: array[int] = array("Q")

    def _remember(self, name: str, late: int, offset: int, length: int) -> None:  # noqa: ARG002 - as in its base
        self.places.append(offset - FRAME_SIZE)
        self.lengths.append(length)


async def show(call: OperationCall) -> Response:
    """The timeline so far; empty for a run without a journal."""
    fd = call.service.journal(call.run_id)
    if fd < 0:
        return answer(Timeline(call.run_id, [], [], None))
    return answer(await asyncio.to_thread(_read, fd, call.run_id))


def _read(fd: int, run_id: str) -> Timeline:
    try:
        reader = _OutputPlaces(fd, run_id)
        reader.scan()
        events = tell(reader.header, reader.facts, outcomes.decide(reader.facts), ())
        begin_ns = (reader.header or {}).get("boottime_ns", 0)
        moments = [Moment(one.at_s, one.fact, one.words, one.mark) for one in events]  # type: ignore[arg-type]
        return Timeline(run_id, moments, _activity(fd, reader, begin_ns), None if reader.ended else _since(begin_ns))
    finally:
        os.close(fd)


def _since(begin_ns: int) -> float:
    return round((time.clock_gettime_ns(time.CLOCK_BOOTTIME) - begin_ns) / 1e9, 3)


def _activity(fd: int, reader: _OutputPlaces, begin_ns: int) -> list[Activity]:
    """Bytes per slice of time. With very many frames only every n-th is read, and its time counts for the next ones."""
    step = max(1, len(reader.places) // _LOOKS)
    seen: list[tuple[float, int, bool]] = []
    for first in range(0, len(reader.places), step):
        header = os.pread(fd, FRAME_SIZE, reader.places[first])
        if len(header) == FRAME_SIZE:
            _, _, _, flags, _, _, at_ns = FRAME.unpack(header)
            seen.append(((at_ns - begin_ns) / 1e9, sum(reader.lengths[first : first + step]), bool(flags & LATE)))
    if not seen:
        return []
    low, high = seen[0][0], max(at_s for at_s, _, _ in seen)
    width = max((high - low) / _SLICES, 1e-6)
    slices: dict[tuple[int, bool], int] = {}
    for at_s, size, late in seen:
        place = (int((at_s - low) / width), late)
        slices[place] = slices.get(place, 0) + size
    return [Activity(round(low + number * width, 6), size, late) for (number, late), size in sorted(slices.items())]


OPERATIONS = (Operation("GET", "/v1/runs/{run_id}/timeline", show, "The facts of a run in plain words.", Timeline),)
