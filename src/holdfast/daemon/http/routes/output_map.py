"""Output map: a sparse index of a journal's frames, to find where an offset of the output is in the journal.

What an offset means. A client chooses one stream or both, with late output or without. The chosen output is a sequence
of bytes that only grows at its end, and an offset counts in that sequence. So an offset stays valid while the run goes
on, and after it. It also counts the bytes that were taken out of the journal (`journal/gap_trail.py`): reading goes on
behind them.

The map has a mark for every mebibyte of journal: the place of a frame, and how many bytes of each kind come before it.
The map is made from the headers of frames; their contents are not read. A range is read from the last mark at or before
its beginning. A map takes 48 bytes per mebibyte of journal. Maps are kept for the runs that were used last, and are
extended when the journal has grown.
"""

from __future__ import annotations

import os
import threading
from array import array
from bisect import bisect_right
from collections import Counter, OrderedDict
from typing import TYPE_CHECKING, NamedTuple

from ....journal.codec import FRAME_SIZE
from ....journal.reader import Chunk, JournalReader

if TYPE_CHECKING:
    from collections.abc import Iterator

STREAMS = ("stdout", "stderr")
BLOCK = 1 << 20
_EVERY = 1 << 20
_KEPT = 64


class OutputChoice(NamedTuple):
    """Which output a client wants: `stdout`, `stderr` or `all`, with late output or without."""

    stream: str
    late: bool

    def takes(self, stream: str, *, late: bool) -> bool:
        """Whether a piece of output belongs to the choice."""
        return self.stream in ("all", stream) and (self.late or not late)

    def count(self, counts: tuple[int, ...]) -> int:
        """How many of these bytes (stdout, late stdout, stderr, late stderr) belong to the choice."""
        kinds = ((stream, late) for stream in STREAMS for late in (False, True))
        return sum(size for size, (stream, late) in zip(counts, kinds, strict=True) if self.takes(stream, late=late))


class Mark(NamedTuple):
    """The place of a frame, the last gap frame before it (-1: none), and how many bytes of each kind come before it."""

    place: int
    last_gap: int
    passed: tuple[int, ...]


BEGINNING = Mark(0, -1, (0, 0, 0, 0))


class _MarkingReader(JournalReader):
    """A reader that skips the output, counts its bytes by kind, and sets a mark every mebibyte."""

    def __init__(self, fd: int, run_id: str) -> None:
        super().__init__(fd, run_id=run_id)
        self.marks: list[array[int]] = [array("q") for _ in range(6)]

    def _remember(self, _name: str, _late: int, offset: int, _length: int) -> None:
        # Called for each output frame before its bytes are counted: the counts are of the frames before.
        places = self.marks[0]
        if not places or offset - FRAME_SIZE - places[-1] >= _EVERY:
            for column, value in zip(self.marks, (offset - FRAME_SIZE, self.last_gap, *self.passed), strict=True):
                column.append(value)

    def move_to(self, fd: int) -> None:
        """Continue with another descriptor of the same journal."""
        self._fd = self._file = fd


class OutputMap:
    """The map of one run's output. Its methods may be called from any thread."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._lock = threading.Lock()
        self._identity: tuple[int, int] | None = None
        self._reader = _MarkingReader(-1, run_id)

    def extend(self, fd: int) -> None:
        """Extend the map to the current end of the journal. JournalError: the file is no journal."""
        own = os.dup(fd)  # the caller may close its descriptor meanwhile, and the number may become another file's
        try:
            with self._lock:
                self._extend(own)
        finally:
            os.close(own)

    def _extend(self, fd: int) -> None:
        found = os.fstat(fd)
        identity = found.st_dev, found.st_ino
        if identity != self._identity or found.st_size < self._reader.position:
            # Another file: a damaged journal was replaced, or a pruned run's id was used again.
            self._identity, self._reader = identity, _MarkingReader(fd, self._run_id)
        self._reader.move_to(fd)
        try:
            self._reader.scan()
        finally:
            self._reader.move_to(-1)

    def total(self, choice: OutputChoice) -> int:
        """How many bytes of the choice `extend` has seen."""
        return choice.count(tuple(self._reader.passed))

    @property
    def ended(self) -> bool:
        """Whether the journal has its END: no more output will come."""
        return self._reader.ended

    @property
    def wall_offset_ns(self) -> int | None:
        """What to add to a time of the journal to get wall-clock time; None when its header does not tell."""
        header = self._reader.header or {}
        wall_ns, begin_ns = header.get("wall_ns"), header.get("boottime_ns")
        return wall_ns - begin_ns if isinstance(wall_ns, int) and isinstance(begin_ns, int) else None

    @property
    def has_gaps(self) -> bool:
        """Whether some of the output is missing, or may be soon."""
        return self._reader.last_gap >= 0

    def mark_before(self, choice: OutputChoice, offset: int) -> Mark:
        """The last mark at or before `offset`."""
        # The event loop calls this, so it must not wait for the lock, which `extend` holds during a long scan.
        # A row is complete when its last column is there.
        marks = self._reader.marks
        rows = range(len(marks[-1]))
        number = bisect_right(rows, offset, key=lambda row: choice.count(_row(marks, row))) - 1
        return BEGINNING if number < 0 else Mark(marks[0][number], marks[1][number], _row(marks, number))


def _row(marks: list[array[int]], number: int) -> tuple[int, ...]:
    return tuple(column[number] for column in marks[2:])


class OutputMaps:
    """The maps of the runs that were used last."""

    def __init__(self) -> None:
        self._maps: OrderedDict[str, OutputMap] = OrderedDict()

    def of(self, run_id: str) -> OutputMap:
        """The map of this run; new and empty when there is none."""
        found = self._maps.setdefault(run_id, OutputMap(run_id))
        self._maps.move_to_end(run_id)
        while len(self._maps) > _KEPT:
            self._maps.popitem(last=False)
        return found


_maps = OutputMaps()


def map_of(run_id: str) -> OutputMap:
    """The output map of this run, shared by the output and the search."""
    return _maps.of(run_id)


class OutputPiece(NamedTuple):
    """A chunk of the chosen output, the offset at which it begins, and how much of its stream is missing before it."""

    chunk: Chunk
    offset: int
    missing_bytes: int = 0


class RangeReader:
    """Reads the chosen output from an offset to the end of the journal; call `read` again when it has grown."""

    def __init__(self, fd: int, run_id: str, choice: OutputChoice, mark: Mark = BEGINNING) -> None:
        self.reader = JournalReader(fd, run_id=run_id)
        self.reader.start_at(mark.place, mark.passed, mark.last_gap)
        self.offset = choice.count(mark.passed)
        self._choice = choice
        self._fenced: set[str] = set()
        self._missing: Counter[str] = Counter()  # by stream: bytes that are gone before its next piece

    def read(self, start: int, end: int | None) -> list[OutputPiece] | None:
        """The next pieces between `start` and `end`; an empty list when the frames that were read hold none.

        None: the end of the journal is reached, for now.
        """
        chunks = self.reader.read(BLOCK)
        return list(self._cut(chunks, start, end)) if chunks else None

    def _cut(self, chunks: list[Chunk], start: int, end: int | None) -> Iterator[OutputPiece]:
        for chunk in chunks:
            if chunk.late:
                self._fenced.add(chunk.stream)
            if not self._choice.takes(chunk.stream, late=chunk.late):
                continue
            at, self.offset = self.offset, self.offset + len(chunk.data) + chunk.missing_bytes
            if chunk.missing_bytes:
                self._missing[chunk.stream] += chunk.missing_bytes
                continue
            missing = self._missing.pop(chunk.stream, 0)
            low, high = max(start, at), self.offset if end is None else min(end, self.offset)
            if low < high:
                yield OutputPiece(
                    chunk._replace(data=chunk.data[low - at : high - at]), low, missing if low == at else 0
                )

    @property
    def is_fenced(self) -> bool:
        """Whether only late output can still come, and the choice leaves late output out."""
        wanted = {stream for stream in STREAMS if self._choice.stream in ("all", stream)}
        return not self._choice.late and wanted <= self._fenced
