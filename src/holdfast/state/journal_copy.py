"""The copy of a journal that a guard writes on another host, in a run directory like that of any other run.

Readers see no difference: frames, offsets and facts are those of the journal. Only the daemon that follows the run
writes here, and only whole frames (`journal/part.py`). After a crash the next daemon goes on behind the last whole
frame. When the host is lost, the daemon writes the end: what is known decides, and otherwise the run is lost.
"""

from __future__ import annotations

import ctypes
import json
import os
import time
from typing import TYPE_CHECKING, Any

from .. import outcome as outcomes
from ..journal.codec import encode_fact, journal_preamble
from ..journal.part import place_of
from ..journal.reader import JournalReader
from ..projections.report import output_seen, report
from . import run_directory
from .directory import state_error
from .recovery import NO_USAGE

if TYPE_CHECKING:
    from ..journal.part import JournalPart, JournalPlace
    from ..outcome import Outcome
    from .directory import StateDirectory
    from .elsewhere import HostNote

_PUNCH_A_HOLE = 3  # FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE
_UNKNOWN_TREE = {"how": "unknown", "count": 0, "survivors": ()}


class JournalCopy:
    """The copy of one journal, open for writing. The caller closes it."""

    def __init__(self, fd: int, run_id: str) -> None:
        self.run_id = run_id
        self._fd = fd
        self._reader = JournalReader(fd, run_id=run_id)
        self._reader.scan()
        self._freed: dict[int, int] = {}
        self._outcome: Outcome | None = None

    @classmethod
    def make(cls, state: StateDirectory, run_id: str, first: JournalPart) -> JournalCopy:
        """Make the run directory with the first part of the journal in it. RunExistsError, StateError."""
        (offset, data), *rest = first.pieces
        assert offset == 0
        run_directory.prepare_copy(state, run_id, data)
        copy = cls.open(state, run_id)
        if rest:
            copy.take(first._replace(pieces=rest))
        return copy

    @classmethod
    def make_lost(cls, state: StateDirectory, run_id: str, note: HostNote) -> JournalCopy:
        """Make the record of a run whose host was lost before it told anything. RunExistsError, StateError."""
        spec = {name: value for name, value in note.spec.items() if value not in (None, False, [])}
        now_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        begun = journal_preamble(run_id, "unknown", time.time_ns(), now_ns, json.dumps(spec).encode(), note.host)
        run_directory.prepare_copy(state, run_id, begun)
        copy = cls.open(state, run_id)
        copy.end_lost("host")
        return copy

    @classmethod
    def open(cls, state: StateDirectory, run_id: str) -> JournalCopy:
        """Open the copy that an earlier daemon began. StateError: it is not there. JournalError: it is damaged."""
        try:
            fd = run_directory.open_journal(state.run_path(run_id), write=True)
        except OSError as error:
            raise state_error(error, state.run_path(run_id), run_id) from None
        try:
            return cls(fd, run_id)
        except BaseException:
            os.close(fd)
            raise

    # Reading.

    @property
    def place(self) -> JournalPlace:
        """The place up to which the copy has the journal."""
        return place_of(self._reader)

    @property
    def ended(self) -> bool:
        """Whether the copy has the end of the journal."""
        return self._reader.ended

    @property
    def outcome(self) -> Outcome:
        """The outcome, as far as the copy decides it."""
        if self._outcome is None:
            self._outcome = outcomes.decide(self._reader.facts)
        return self._outcome

    @property
    def spec(self) -> dict[str, Any]:
        """The spec on record."""
        return self._reader.spec or {}

    def report(self) -> dict[str, Any]:
        """The report of the run, as far as the copy goes."""
        return report(self._reader.header, self._reader.spec, self._reader.facts, output_seen(self._reader))

    # Writing.

    def take(self, part: JournalPart) -> bool:
        """Add a part. False: the copy had it already. OSError: it cannot be written; the next part begins there again.

        Two parts that were read from the same place have the same bytes at the same places, so either order is fine.
        """
        if part.place.position <= self._reader.position or self.ended:
            return False
        for offset, data in part.pieces:
            run_directory.write_whole(self._fd, data, offset)
        self._reader.scan()
        self._outcome = None
        self._free_gaps()
        return True

    def end_lost(self, why: str) -> None:
        """Write the end of a run of which no more news will come. Facts that are known decide before `lost` does."""
        if self.ended:
            return
        facts = self._reader.facts
        at_ns = max(_now_there(self._reader.header or {}), facts[-1].at_ns if facts else 0)
        frames = [] if self.outcome.tree is not None else [encode_fact("tree", _UNKNOWN_TREE, at_ns=at_ns)]
        frames += [encode_fact("lost", {"why": why}, at_ns=at_ns), encode_fact("end", NO_USAGE, at_ns=at_ns)]
        end = self._reader.position
        os.ftruncate(self._fd, end)  # without a torn tail
        run_directory.write_whole(self._fd, b"".join(frames), end)
        os.fsync(self._fd)
        self._reader.scan()
        self._outcome = None

    def close(self) -> None:
        """Close the file. What was read stays."""
        if self._fd >= 0:
            self._reader.close()
            os.close(self._fd)
            self._fd = -1

    def _free_gaps(self) -> None:
        """Give the disk back what the guard took out of the journal: first the gap frame was written, now the hole."""
        for begin, end in self._reader.holes():
            freed = self._freed.get(begin, begin)
            if end > freed:
                self._freed[begin] = end
                arguments = (ctypes.c_int64(freed), ctypes.c_int64(end - freed))
                ctypes.CDLL(None).fallocate64(self._fd, _PUNCH_A_HOLE, *arguments)  # if it fails, nothing is freed


def _now_there(header: dict[str, Any]) -> int:
    """The time on the clock of the journal's host, as far as the two hosts agree on the time of day."""
    return int(header.get("boottime_ns", 0)) + max(0, time.time_ns() - int(header.get("wall_ns", 0)))
