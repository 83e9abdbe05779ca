"""The reader on whole, growing, torn and damaged journals."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.journal import codec
from holdfast.journal.facts import FACTS, MARK, NO_FACTS, OUTPUT, PREAMBLE
from holdfast.journal.reader import JournalReader
from holdfast.values.errors import JournalDamagedError, JournalVersionError

Make = Callable[[bytes], int]
Read = Callable[[bytes], JournalReader]
PREFIX = codec.journal_preamble("run-1", "boot-1", 10, 20, b'{"argv": ["true"]}')


def output(data: bytes, stream: int = 1, late: int = 0) -> bytes:
    return codec.encode(OUTPUT, data, at_ns=30, stream=stream, flags=late)


def deadline(at_ns: int = 30) -> bytes:
    return codec.encode_fact("deadline", {"limit_ns": 1}, at_ns=at_ns)


END = codec.encode_fact("end", {"user_us": 1, "system_us": 2, "max_rss_kib": 3}, at_ns=40)


def test_a_whole_journal(sample: Any, read_all: Read, details: dict[str, dict[str, Any]]) -> None:
    reader = read_all(sample.data)
    assert [(fact.kind, dict(fact.detail)) for fact in reader.facts] == list(details.items())
    assert [fact.offset for fact in reader.facts] == [
        start for type_, start, _ in sample.frames if type_ not in NO_FACTS
    ]
    assert reader.header == {
        "run_id": "01sample",
        "boot_id": "boot-1",
        "wall_ns": 1_700_000_000_000_000_000,
        "boottime_ns": 5_000_000_000,
    }
    assert reader.spec == {"argv": ["x"]}
    assert reader.ended
    assert reader.damage is None
    assert reader.position == len(sample.data)
    assert (reader.collect("stdout"), reader.collect("stderr")) == (b"hello ", b"err")
    assert (reader.stdout_bytes, reader.stderr_bytes, reader.late_bytes) == (11, 3, 5)


def test_read_gives_the_output_in_order_with_its_marks(sample: Any, journal_fd: Make) -> None:
    reader = JournalReader(journal_fd(sample.data))
    assert [chunk[:3] for chunk in reader.read()] == [
        ("stdout", b"hello ", False),
        ("stderr", b"err", False),
        ("stdout", b"later", True),
    ]
    assert reader.read() == []
    assert len(reader.facts) == len(FACTS) - len(NO_FACTS)
    assert (reader.stdout_bytes, reader.stderr_bytes, reader.late_bytes) == (11, 3, 5)


def test_a_journal_that_grows_byte_by_byte_reads_the_same(sample: Any, journal_fd: Make, read_all: Read) -> None:
    fd = journal_fd(b"")
    scanning, streaming = JournalReader(fd), JournalReader(fd)
    chunks = []
    for position in range(len(sample.data)):
        os.pwrite(fd, sample.data[position : position + 1], position)
        scanning.scan()
        chunks += streaming.read()
        assert scanning.damage is None
        assert len(scanning.facts) == sample.facts_before(position + 1)
    whole = read_all(sample.data)
    assert scanning.facts == streaming.facts == whole.facts
    assert b"".join(chunk.data for chunk in chunks) == b"hello errlater"
    assert scanning.collect("stdout") == b"hello "


def test_a_journal_cut_at_any_byte_gives_the_facts_before_the_cut(sample: Any, read_all: Read) -> None:
    everything = read_all(sample.data).facts
    for length in range(len(sample.data)):
        reader = read_all(sample.data[:length])
        assert reader.facts == everything[: sample.facts_before(length)]
        assert reader.damage is None


def test_a_hole_of_zeros_means_nothing_more_yet(journal_fd: Make) -> None:
    fd = journal_fd(PREFIX)
    reader = JournalReader(fd)
    os.truncate(fd, len(PREFIX) + 100_000)
    reader.scan()
    assert (reader.facts, reader.damage, reader.position) == ([], None, len(PREFIX))
    os.pwrite(fd, deadline(), len(PREFIX))
    reader.scan()
    assert [fact.kind for fact in reader.facts] == ["deadline"]


@pytest.mark.parametrize("marked", [0, 1, 2, 3])
def test_output_that_is_there_before_the_whole_mark_of_its_frame_is_a_torn_tail(journal_fd: Make, marked: int) -> None:
    """The guard moves output behind the place of its frame, and writes the mark last."""
    frame = output(b"moved")
    fd = journal_fd(PREFIX + frame[:marked] + bytes(4 - marked) + frame[4:])
    reader = JournalReader(fd)
    assert (reader.read(), reader.damage, reader.position) == ([], None, len(PREFIX))
    os.pwrite(fd, frame, len(PREFIX))
    assert [chunk.data for chunk in reader.read()] == [b"moved"]


def test_an_empty_or_blank_file_is_a_journal_not_yet_begun(read_all: Read) -> None:
    for data in (b"", b"HOLD", PREAMBLE, bytes(10), bytes(4096)):
        reader = read_all(data)
        assert (reader.header, reader.spec, reader.facts, reader.ended, reader.damage) == (None, None, [], False, None)


def test_a_file_that_is_no_journal(read_all: Read) -> None:
    for data in (b"x", b"#!/bin/sh\nexit 0\n", b"HOLDFASX" + bytes(8)):
        with pytest.raises(JournalDamagedError, match="no journal"):
            read_all(data)


def test_a_version_from_the_future_names_both_versions_and_the_remedy(journal_fd: Make) -> None:
    reader = JournalReader(journal_fd(PREAMBLE + (2).to_bytes(4, "little") + bytes(4) + deadline()), run_id="run-9")
    with pytest.raises(
        JournalVersionError, match=r"version 2, this Holdfast reads version 1 \(run run-9\): read it with"
    ):
        reader.scan()
    assert reader.facts == []


def test_unknown_facts_and_streams_are_skipped(read_all: Read, journal_fd: Make) -> None:
    data = PREFIX + codec.encode(200, b"news", at_ns=1) + output(b"third", stream=3) + deadline() + END
    reader = read_all(data)
    assert [fact.kind for fact in reader.facts] == ["deadline", "end"]
    assert JournalReader(journal_fd(data)).read() == []


@pytest.mark.parametrize(
    ("frame", "what"),
    [
        (b"JUNK" + deadline()[4:], "mark of a frame is 0x4b4e554a"),
        (deadline()[:-1] + b"\xff", "check of a frame of type 7 is wrong"),
        (output(b"abc")[:16] + b"\xff" + output(b"abc")[17:], "check of a frame of type 4 is wrong"),
        (codec.encode(7, b"abc"), "a deadline fact of 3 bytes, fewer than 8"),
        (codec.FRAME.pack(MARK, 7, 0, 0, 0xFFFFFFF0, 0, 0), "claims a payload of 4294967280 bytes"),
    ],
)
def test_damage_ends_the_reading_and_earlier_facts_stand(frame: bytes, what: str, journal_fd: Make) -> None:
    before = PREFIX + deadline() + output(b"early")
    for read in (JournalReader.scan, JournalReader.read):
        reader = JournalReader(journal_fd(before + frame + output(b"after") + END))
        read(reader)
        read(reader)
        assert reader.damage is not None
        assert f"at byte {len(before)}: " in reader.damage
        assert what in reader.damage
        assert [fact.kind for fact in reader.facts] == ["deadline"]
        assert reader.position == len(before)
        assert not reader.ended


def test_a_frame_that_was_caught_half_written_is_looked_at_again(
    journal_fd: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    fd = journal_fd(PREFIX + deadline() + END)
    real_pread, first = os.pread, True

    def pread(fd: int, length: int, offset: int) -> bytes:
        nonlocal first
        data = real_pread(fd, length, offset)
        if first and offset == len(PREFIX[:16]):
            first = False
            return data[: len(PREFIX) - 16 + 20] + bytes(8) + data[len(PREFIX) - 16 + 28 :]
        return data

    monkeypatch.setattr(os, "pread", pread)
    reader = JournalReader(fd)
    reader.scan()
    assert not first
    assert reader.damage is None
    assert [fact.kind for fact in reader.facts] == ["deadline", "end"]


def test_an_absurd_length_allocates_nothing(journal_fd: Make) -> None:
    claims = codec.FRAME.pack(MARK, 2, 0, 0, codec.LARGEST_PAYLOAD, 0, 0)
    reader = JournalReader(journal_fd(PREFIX + claims + b"short"))
    tracemalloc.start()
    try:
        reader.scan()
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    assert reader.damage is None  # the rest may still be on its way
    assert reader.position == len(PREFIX)


def test_times_never_run_backwards(read_all: Read) -> None:
    late_exit = codec.encode_fact("exited", {"wait_status": 0, "user_us": 0, "system_us": 0, "max_rss_kib": 0}, at_ns=5)
    reader = read_all(PREFIX + deadline(at_ns=50) + late_exit)
    assert [(fact.kind, fact.at_ns) for fact in reader.facts] == [("deadline", 50), ("exited", 50)]


@pytest.mark.parametrize("size", [1, 100, 4096, 16 << 10, 65536, 65512, 262144, 1 << 20])
def test_collect_and_read_give_every_byte_of_frames_of_any_size(size: int, journal_fd: Make) -> None:
    pieces = [os.urandom(size + step) for step in range(5)]
    data = PREFIX
    for piece in pieces:
        data += output(piece) + output(piece[:7], stream=2) + deadline()
    fd = journal_fd(data + output(b"too late", late=1) + END)
    reader = JournalReader(fd)
    reader.scan()
    assert reader.ended
    assert len(reader.facts) == 6
    assert reader.collect("stdout") == b"".join(pieces)
    assert reader.collect("stderr") == b"".join(piece[:7] for piece in pieces)
    streaming = JournalReader(fd)
    chunks = streaming.read()
    assert b"".join(chunk.data for chunk in chunks if chunk.stream == "stdout") == b"".join(pieces) + b"too late"
    assert streaming.facts == reader.facts


@pytest.mark.parametrize("size", [5, 20_000])
def test_a_file_that_hangs_is_read_on_in_memory(size: int, journal_fd: Make) -> None:
    """Wherever the file stops, in the middle of a frame too, the memory has the rest from a frame before that on."""
    pieces = [os.urandom(size + step) for step in range(4)]
    frames = [PREFIX, *(output(piece) + output(piece[:3], stream=2) for piece in pieces), deadline() + END]
    data = b"".join(frames)
    kept_from = len(b"".join(frames[:3]))
    memory = journal_fd(bytes(kept_from) + data[kept_from:])
    for stops in (kept_from, kept_from + 30, len(data) - 1):
        file = journal_fd(data[:stops])
        scanning, streaming = JournalReader(file), JournalReader(file)
        scanning.scan()
        chunks = streaming.read(1)  # behind: the rest of the file comes before the memory
        for reader in (scanning, streaming):
            reader.continue_in(memory, kept_from)
        scanning.scan()
        while more := streaming.read(1):
            chunks += more
        assert scanning.ended
        assert scanning.facts == streaming.facts
        assert scanning.collect("stdout") == b"".join(pieces)
        assert b"".join(chunk.data for chunk in chunks if chunk.stream == "stdout") == b"".join(pieces)
        taken = bytearray()
        scanning.hand_over("stderr", taken.extend, memoryview(bytearray(4096)))
        assert taken == b"".join(piece[:3] for piece in pieces)


def test_handing_over_goes_on_where_it_stopped(journal_fd: Make) -> None:
    first, second = os.urandom(100_000), os.urandom(70_000)
    fd = journal_fd(PREFIX + output(first) + output(b"err", stream=2))
    reader, buffer, taken = JournalReader(fd), memoryview(bytearray(4096)), bytearray()
    reader.scan()
    reader.hand_over("stdout", taken.extend, buffer)
    assert taken == first
    reader.hand_over("stdout", taken.extend, buffer)
    assert taken == first, "once is enough"
    os.pwrite(fd, output(second) + deadline() + output(b"too late", late=1) + END, os.fstat(fd).st_size)
    reader.scan()
    reader.hand_over("stdout", taken.extend, buffer)
    assert taken == first + second
    assert (reader.collect("stdout"), reader.collect("stderr")) == (b"", b"err")


def test_handing_over_what_is_gone_is_an_error(journal_fd: Make) -> None:
    fd = journal_fd(PREFIX + output(bytes(100_000)))
    reader = JournalReader(fd)
    reader.scan()
    os.ftruncate(fd, len(PREFIX) + 50_000)
    with pytest.raises(JournalDamagedError, match="gone"):
        reader.hand_over("stdout", len, memoryview(bytearray(4096)))


def test_read_stops_at_its_limit_and_goes_on_from_there(journal_fd: Make) -> None:
    reader = JournalReader(journal_fd(PREFIX + output(b"0123456789") * 100 + END))
    sizes, position = [], 0
    while chunks := reader.read(limit=25):
        sizes.append(sum(len(chunk.data) for chunk in chunks))
        assert reader.position > position
        position = reader.position
    assert sizes == [30] * 33 + [10]
    assert reader.ended


def test_the_reader_never_goes_back_to_what_it_has_read(journal_fd: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    real_pread = os.pread
    reader = JournalReader(journal_fd(PREFIX + output(bytes(3000)) * 200 + output(bytes(300_000)) * 3 + END))

    def pread(fd: int, length: int, offset: int) -> bytes:
        assert offset >= reader.position
        return real_pread(fd, length, offset)

    monkeypatch.setattr(os, "pread", pread)
    while reader.read(limit=10_000):
        pass
    assert reader.ended


def test_scanning_does_not_read_large_payloads(journal_fd: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    real_pread, taken = os.pread, 0
    reader = JournalReader(journal_fd(PREFIX + output(bytes(262144)) * 20 + END))

    def pread(fd: int, length: int, offset: int) -> bytes:
        nonlocal taken
        taken += length
        return real_pread(fd, length, offset)

    monkeypatch.setattr(os, "pread", pread)
    reader.scan()
    assert reader.ended
    assert taken < 262144


def test_bytes_this_process_wrote_itself_are_not_checked_again(journal_fd: Make) -> None:
    wrong = bytearray(PREFIX)
    wrong[-1] = ord(" ")
    data = bytes(wrong) + deadline()
    trusting = JournalReader(journal_fd(data), trusted=len(PREFIX))
    trusting.scan()
    assert len(trusting.facts) == 1
    checking = JournalReader(journal_fd(data))
    checking.scan()
    assert checking.damage is not None


@pytest.mark.parametrize("spec", [b"not json", b"[]", b"\xff", b""])
def test_a_spec_that_is_no_json_object_is_a_typed_error_and_the_facts_stand(spec: bytes, read_all: Read) -> None:
    reader = read_all(codec.journal_preamble("r", "b", 0, 0, spec) + deadline())
    assert len(reader.facts) == 1
    with pytest.raises(JournalDamagedError, match="the spec of this journal is not readable"):
        _ = reader.spec


def test_output_that_was_cut_off_after_the_scan_is_a_typed_error(journal_fd: Make) -> None:
    fd = journal_fd(PREFIX + output(b"one") + output(b"two") + END)
    reader = JournalReader(fd)
    reader.scan()
    os.truncate(fd, len(PREFIX) + 30)
    with pytest.raises(JournalDamagedError, match="read it again from the start"):
        reader.collect("stdout")


def test_a_file_on_disk_reads_like_a_memfd(sample: Any, tmp_path: Path, read_all: Read) -> None:
    path = tmp_path / "journal"
    path.write_bytes(sample.data)
    with path.open("rb") as file:
        reader = JournalReader(file.fileno())
        reader.scan()
        assert reader.facts == read_all(sample.data).facts
        assert file.tell() == 0
