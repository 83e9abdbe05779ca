"""The map of output: every offset of every choice of streams, with any frames, while the journal grows."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.daemon.http.routes import output_map
from holdfast.daemon.http.routes.output_map import OutputChoice, OutputMap, OutputMaps, RangeReader
from holdfast.journal.codec import encode, encode_fact, journal_preamble
from holdfast.journal.facts import LATE, OUTPUT

from ....support.durable import USAGE

if TYPE_CHECKING:
    from collections.abc import Iterator

CHOICES = [OutputChoice(stream, late) for stream in ("all", "stdout", "stderr") for late in (False, True)]
PREAMBLE = journal_preamble("run", "boot", 1_700_000_000_000_000_000, 5, b'{"argv": ["x"]}')
FRAMES = st.lists(st.tuples(st.sampled_from((1, 2)), st.booleans(), st.binary(max_size=300)), max_size=30)
Written = list[tuple[int, bool, bytes]]


@pytest.fixture(scope="module", autouse=True)
def dense() -> Iterator[None]:
    """A mark for every hundred bytes: many of them in a small journal."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(output_map, "_EVERY", 100)
        yield


class Journal:
    """A journal in memory that grows."""

    def __init__(self) -> None:
        self.fd = os.memfd_create("journal", os.MFD_CLOEXEC)
        os.write(self.fd, PREAMBLE)

    def add(self, written: Written) -> None:
        for stream, late, data in written:
            os.write(self.fd, encode(OUTPUT, data, at_ns=7, stream=stream, flags=LATE if late else 0))

    def end(self) -> None:
        os.write(self.fd, encode_fact("end", USAGE, at_ns=9))

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)


def expected(written: Written, choice: OutputChoice) -> bytes:
    names = {1: "stdout", 2: "stderr"}
    return b"".join(data for stream, late, data in written if choice.takes(names[stream], late=late))


def read(fd: int, found: OutputMap, choice: OutputChoice, start: int, end: int | None) -> bytes:
    reader = RangeReader(fd, "run", choice, found.mark_before(choice, start))
    got = b""
    while (pieces := reader.read(start, end)) is not None:
        for piece in pieces:
            assert piece.offset == start + len(got)  # without a gap
            got += piece.chunk.data
    return got


@given(first=FRAMES, then=FRAMES, start=st.integers(0, 3000), size=st.none() | st.integers(0, 1000))
def test_every_range_is_a_slice_of_the_whole(first: Written, then: Written, start: int, size: int | None) -> None:
    with Journal() as journal:
        found = OutputMap("run")
        written: Written = []
        for part in (first, then):
            journal.add(part)
            written += part
            found.extend(journal.fd)
            for choice in CHOICES:
                whole = expected(written, choice)
                at = min(start, len(whole))
                end = None if size is None else at + size
                assert found.total(choice) == len(whole)
                assert read(journal.fd, found, choice, at, end) == whole[at:end]
        assert not found.ended
        journal.end()
        found.extend(journal.fd)
        assert found.ended


def test_a_late_range_is_read_from_the_mark_before_it() -> None:
    choice = OutputChoice("stdout", late=False)
    with Journal() as journal:
        journal.add([(1, False, b"%06d" % number) for number in range(10_000)])
        found = OutputMap("run")
        found.extend(journal.fd)
        mark = found.mark_before(choice, 59_999)
        assert os.fstat(journal.fd).st_size - mark.place < 200
        assert 59_900 <= choice.count(mark.passed) <= 59_999
        assert read(journal.fd, found, choice, 59_994, None) == b"009999"
        assert found.mark_before(choice, 0) == (len(PREAMBLE), -1, (0, 0, 0, 0))


def test_another_file_under_the_same_name_is_looked_through_anew() -> None:
    choice = OutputChoice("all", late=False)
    found = OutputMap("run")
    for text in (b"the first one, which is longer", b"the second"):
        with Journal() as journal:
            journal.add([(1, False, text)])
            found.extend(journal.fd)
            assert found.total(choice) == len(text)
            assert read(journal.fd, found, choice, 4, None) == text[4:]


def test_a_reader_knows_when_only_late_output_can_come() -> None:
    with Journal() as journal:
        journal.add([(1, False, b"a"), (1, True, b"b")])
        stdout = RangeReader(journal.fd, "run", OutputChoice("stdout", late=False))
        both = RangeReader(journal.fd, "run", OutputChoice("all", late=False))
        late = RangeReader(journal.fd, "run", OutputChoice("stdout", late=True))
        assert [bool(reader.read(0, None)) for reader in (stdout, both, late)] == [True] * 3
        # stderr may have been in its pipe at the verdict, and is on time then, even if stdout is late.
        assert [reader.is_fenced for reader in (stdout, both, late)] == [True, False, False]


def test_the_maps_of_the_runs_asked_for_last_are_kept() -> None:
    maps = OutputMaps()
    first = maps.of("first")
    others = [maps.of(f"run-{number}") for number in range(63)]
    assert maps.of("first") is first
    maps.of("one-more")
    assert maps.of("run-0") is not others[0]
    assert maps.of("first") is first


def test_times_of_frames_have_the_wall_clock_of_the_header() -> None:
    with Journal() as journal:
        found = OutputMap("run")
        found.extend(journal.fd)
        assert found.wall_offset_ns == 1_700_000_000_000_000_000 - 5
    assert OutputMap("run").wall_offset_ns is None


def test_a_number_that_becomes_another_journals_while_it_is_read_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scan = output_map._MarkingReader.scan  # noqa: SLF001
    with Journal() as ours, Journal() as theirs:
        ours.add([(1, False, b"ours")])
        theirs.add([(1, False, b"not ours at all")])

        def reused(self: output_map._MarkingReader) -> None:
            os.dup2(theirs.fd, ours.fd, inheritable=False)  # the client is gone, and has closed it
            scan(self)

        monkeypatch.setattr(output_map._MarkingReader, "scan", reused)  # noqa: SLF001
        found = OutputMap("run")
        found.extend(ours.fd)
        assert found.total(OutputChoice("all", late=False)) == len(b"ours")
