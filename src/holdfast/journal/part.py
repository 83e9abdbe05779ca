"""Parts of a journal for a copy on another host: whole frames, as bytes at their own places.

A copy has every frame at the offset that it has in the journal. So a place in the one is a place in the other, and a
copy that was interrupted goes on where its last whole frame ends. Output that was taken out of the journal (a gap) is
left out of a part. The gap frame in front of it is sent again, because the guard writes it anew when the gap grows.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from .codec import decode_header
from .gap_trail import GAP_SIZE
from .reader import JournalReader

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_TRIES = 100


class JournalPlace(NamedTuple):
    """A place in a journal where a frame begins, and what a reader knows there."""

    position: int = 0
    passed: tuple[int, ...] = (0, 0, 0, 0)
    last_gap: int = -1


class JournalPart(NamedTuple):
    """Some frames of a journal, by their offsets, and the place after them."""

    pieces: list[tuple[int, bytes]]
    place: JournalPlace


def place_of(reader: JournalReader) -> JournalPlace:
    """The place up to which this reader has read."""
    return JournalPlace(reader.position, tuple(reader.passed), reader.last_gap)


def read_part(fd: int, place: JournalPlace, limit: int, run_id: str) -> JournalPart:
    """Read the whole frames from a place on, about `limit` bytes of output at most. No pieces: there is no more now.

    JournalDamagedError, JournalVersionError: as JournalReader.
    """
    reader = JournalReader(fd, run_id=run_id)
    if place.position:
        reader.start_at(*place)
    reader.read(limit)
    end = reader.position
    if end == place.position:
        return JournalPart([], place)
    spans = list(_without(reader.holes(), place.position, end))
    read = [(begin, os.pread(fd, after - begin, begin)) for begin, after in spans]
    # A gap may have grown since. Its frame is written before its hole is made, so a second look tells what was a hole.
    holes = reader.holes()
    pieces = [
        (begin, data[begin - at : after - at])
        for at, data in read
        for begin, after in _without(holes, at, at + len(data))
    ]
    frames = ((offset, _gap_frame(fd, offset)) for offset in reader.gap_frames())
    return JournalPart([*pieces, *((offset, data) for offset, data in frames if data)], place_of(reader))


def _without(holes: Sequence[tuple[int, int]], begin: int, end: int) -> Iterator[tuple[int, int]]:
    """The parts of this range that are in no hole. The holes are in order."""
    for hole, after in holes:
        if hole < end and after > begin:
            if hole > begin:
                yield begin, hole
            begin = after
    if begin < end:
        yield begin, end


def _gap_frame(fd: int, offset: int) -> bytes:
    """The bytes of a gap frame as it is now; empty if it cannot be read."""
    for _ in range(_TRIES):  # the guard may be writing it just now
        data = os.pread(fd, GAP_SIZE, offset)
        if decode_header(data) is not None:
            return data
    return b""
