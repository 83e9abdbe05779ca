"""Journals from which output is taken out while they are read."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from holdfast.journal import codec
from holdfast.journal.facts import OUTPUT
from holdfast.journal.gap_trail import GAP_SIZE
from holdfast.journal.reader import JournalReader

from .conftest import gap_frame

if TYPE_CHECKING:
    from collections.abc import Callable

    Make = Callable[[bytes], int]

PREFIX = codec.journal_preamble("01x", "boot", 1, 2, b'{"argv": ["x"]}')
FACT = codec.encode_fact("stopped", {"signal": 19}, at_ns=3)
END = codec.encode_fact("end", {"user_us": 1, "system_us": 2, "max_rss_kib": 3}, at_ns=40)


def output(data: bytes, stream: int = 1, late: int = 0) -> bytes:
    return codec.encode(OUTPUT, data, at_ns=30, stream=stream, flags=late)


class Rolled:
    """A head, and two rows of output with a fact between them."""

    def __init__(self, make: Make, size: int = 10) -> None:
        head = PREFIX + output(b"head")
        self.first_gap = len(head)
        first = gap_frame(self.first_gap, passed=(4, 0, 0, 0))
        one = output(b"a" * size) + output(b"b" * size, stream=2)
        self.second_gap = self.first_gap + len(first) + len(one) + len(FACT)
        two = output(b"c" * size) + output(b"d" * size) + output(b"late", late=1)
        self.one_end = self.first_gap + GAP_SIZE + len(one)
        self.c_end = self.second_gap + GAP_SIZE + len(output(b"c" * size))
        second = gap_frame(self.second_gap, passed=(4 + size, 0, size, 0))
        self.fd = make(head + first + one + FACT + second + two + END)

    def take_out(self, gap: int, end: int, passed: tuple[int, int, int, int]) -> None:
        os.pwrite(self.fd, gap_frame(gap, end, passed), gap)
        self.punch(gap, end)

    def punch(self, gap: int, end: int) -> None:
        os.pwrite(self.fd, bytes(end - gap - GAP_SIZE), gap + GAP_SIZE)


def shown(reader: JournalReader, limit: int = 0) -> list[object]:
    return [chunk.data or (chunk.stream, chunk.late, chunk.missing_bytes) for chunk in reader.read(limit)]


def test_nothing_taken_out(journal_fd: Make) -> None:
    reader = JournalReader(Rolled(journal_fd).fd)
    assert shown(reader) == [b"head", b"a" * 10, b"b" * 10, b"c" * 10, b"d" * 10, b"late"]
    assert (reader.missing(), reader.passed, reader.ended) == ([0] * 4, [34, 4, 10, 0], True)


def test_what_is_gone_is_counted_by_its_kind(journal_fd: Make) -> None:
    rolled = Rolled(journal_fd)
    rolled.take_out(rolled.first_gap, rolled.one_end, (14, 0, 10, 0))
    rolled.take_out(rolled.second_gap, rolled.c_end, (24, 0, 10, 0))
    reader = JournalReader(rolled.fd)
    gone = [("stdout", False, 10), ("stderr", False, 10), ("stdout", False, 10)]
    assert shown(reader) == [b"head", *gone, b"d" * 10, b"late"]
    assert [fact.kind for fact in reader.facts] == ["stopped", "end"]
    assert (reader.missing(), reader.passed) == ([20, 0, 10, 0], [34, 4, 10, 0])


def test_a_reader_in_the_middle_goes_on_behind_what_was_taken_out(journal_fd: Make) -> None:
    for size in (10, 100_000):  # small frames are read by the block, large ones by themselves
        rolled = Rolled(journal_fd, size)
        reader = JournalReader(rolled.fd)
        assert shown(reader, 4) == [b"head"]
        assert shown(reader, 1) == [b"a" * size]
        rolled.take_out(rolled.first_gap, rolled.one_end, (4 + size, 0, size, 0))
        assert shown(reader) == [("stderr", False, size), b"c" * size, b"d" * size, b"late"]
        assert reader.missing() == [size, 0, size, 0], "also what was read before it went"


def test_control_a_hole_without_its_frame_reads_as_nothing_more_yet(journal_fd: Make) -> None:
    """Why the frame comes before the hole."""
    rolled = Rolled(journal_fd)
    reader = JournalReader(rolled.fd)
    assert shown(reader, 4) == [b"head"]
    rolled.punch(rolled.first_gap, rolled.one_end)
    assert shown(reader) == []
    assert not reader.ended


def test_output_that_went_after_it_was_scanned_is_not_collected(journal_fd: Make) -> None:
    rolled = Rolled(journal_fd)
    reader = JournalReader(rolled.fd)
    reader.scan()
    rolled.take_out(rolled.first_gap, rolled.one_end, (14, 0, 10, 0))
    assert (reader.collect("stdout"), reader.collect("stderr")) == (b"head" + b"c" * 10 + b"d" * 10, b"")


def test_a_gap_frame_that_is_too_short_or_leads_back_harms_nothing(journal_fd: Make) -> None:
    from holdfast.journal.facts import OUTPUT_GAP

    for payload in (b"", bytes(40), b"\xff" * 40):
        data = PREFIX + output(b"head") + codec.encode(OUTPUT_GAP, payload) + output(b"more") + END
        reader = JournalReader(journal_fd(data))
        reader.read()
        assert reader.damage is None
