"""The gap frames that a reader has passed: where output was taken out of a journal while the run went on.

A gap frame stands before a row of output frames. The guard writes it again when it takes some of them out: first the
frame, then the hole. So a reader that has read output, and then finds that the last gap frame before it does not cover
it, has read no part of a hole. Gaps are made in the order of the journal, so this frame speaks for all behind it, too.
"""

from __future__ import annotations

import os

from ..values.fast_imports import NamedTuple
from .codec import FRAME_SIZE, decode_header
from .facts import FACTS, OUTPUT_GAP

_GAP = FACTS[OUTPUT_GAP].struct
GAP_SIZE = FRAME_SIZE + _GAP.size
_TRIES = 100


class Gap(NamedTuple):
    """The journal goes on at `resume_at`; before it, `passed` bytes were recorded of each kind of output."""

    resume_at: int
    passed: tuple[int, ...]


class GapTrail:
    """The places of the gap frames that one reader has passed, and how much output it had passed at each."""

    def __init__(self) -> None:
        self.last = -1  # the offset of the last one; -1: none
        self._all: list[tuple[int, tuple[int, ...]]] = []

    def add(self, offset: int, passed: list[int]) -> None:
        """The reader passes a gap frame. `passed`: bytes of output before it, of each kind."""
        self.last = offset
        self._all.append((offset, tuple(passed)))

    def offsets(self) -> list[int]:
        """The places of the gap frames."""
        return [offset for offset, _ in self._all]

    def holes(self, fd: int) -> list[tuple[int, int]]:
        """The parts of the journal that are gone now."""
        found = ((offset + GAP_SIZE, read_gap(fd, offset)) for offset, _ in self._all)
        return [(begin, gap.resume_at) for begin, gap in found if gap is not None and gap.resume_at > begin]

    def missing(self, fd: int) -> list[int]:
        """How many bytes of each kind are gone now, whether the reader had read them or not."""
        total = [0, 0, 0, 0]
        for offset, before in self._all:
            if (gap := read_gap(fd, offset)) is not None:
                total = [one + max(0, now - then) for one, now, then in zip(total, gap.passed, before, strict=True)]
        return total


def read_gap(fd: int, offset: int) -> Gap | None:
    """Read the gap frame at this offset as it is now. None: it cannot be read."""
    for _ in range(_TRIES):  # the guard may be writing it just now
        frame = os.pread(fd, GAP_SIZE, offset)
        if (header := decode_header(frame)) is not None and header.type == OUTPUT_GAP and header.length == _GAP.size:
            resume_at, *passed = _GAP.unpack_from(frame, FRAME_SIZE)
            return Gap(resume_at, tuple(passed))
    return None
