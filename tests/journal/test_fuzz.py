"""The reader against damage and nonsense: typed errors only, and never a fact that nobody recorded."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.journal import codec
from holdfast.journal.facts import OUTPUT, Fact
from holdfast.journal.reader import JournalReader
from holdfast.outcome import decide
from holdfast.projections.report import report
from holdfast.values.errors import JournalError

BOUNDED = settings(
    max_examples=200, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
PREAMBLE = codec.journal_preamble("fuzz", "boot", 1, 2, b"{}")


def facts_of(data: bytes, *, stream: bool = False) -> list[Fact]:
    """All facts of `data`; only journal errors may be raised."""
    fd = os.memfd_create("fuzz")
    try:
        os.pwrite(fd, data, 0)
        reader = JournalReader(fd)
        with suppress(JournalError):
            collected = b"".join(chunk.data for chunk in reader.read()) if stream else use(reader)
            assert len(collected) <= len(data)
        return reader.facts
    finally:
        os.close(fd)


def use(reader: JournalReader) -> bytes:
    reader.scan()
    output = reader.collect("stdout") + reader.collect("stderr")
    report(reader.header, reader.spec, reader.facts)
    return output


def test_one_changed_byte_anywhere_never_invents_or_alters_a_fact(sample: Any) -> None:
    truth = facts_of(sample.data)
    for position in range(len(sample.data)):
        for flip in (0x01, 0x80, 0xFF):
            damaged = bytearray(sample.data)
            damaged[position] ^= flip
            for stream in (False, True):
                found = facts_of(bytes(damaged), stream=stream)
                assert found == truth[: len(found)]
                assert in_output(sample, position) or len(found) <= sample.facts_before(position)


def in_output(sample: Any, position: int) -> bool:
    """Output bytes are not covered by a check; nor is the preamble's spare field."""
    inside = any(type_ == OUTPUT and start + 24 <= position < end for type_, start, end in sample.frames)
    return inside or 12 <= position < 16


@BOUNDED
@given(st.binary(max_size=400))
def test_random_bytes(noise: bytes) -> None:
    facts_of(noise)
    assert facts_of(PREAMBLE + noise) == facts_of(PREAMBLE + noise, stream=True) == []


@BOUNDED
@given(
    st.lists(
        st.tuples(
            st.integers(0, 40),
            st.binary(max_size=80),
            st.integers(0, 2**64 - 1),
            st.integers(0, 3),
            st.integers(0, 255),
        ),
        max_size=12,
    )
)
def test_valid_frames_with_any_payload(frames: list[tuple[int, bytes, int, int, int]]) -> None:
    data = PREAMBLE
    for type_, payload, at_ns, stream, flags in frames:
        data += codec.encode(type_, payload, at_ns=at_ns, stream=stream, flags=flags)
    found = facts_of(data)
    assert found == facts_of(data, stream=True)
    assert len(found) <= len(frames)
    decide(found)


@BOUNDED
@given(st.data())
def test_a_piece_cut_out_doubled_or_swapped_never_invents_a_fact(sample: Any, data: st.DataObject) -> None:
    places = st.integers(0, len(sample.data))
    a, b, c, d = sorted(data.draw(st.tuples(places, places, places, places)))
    whole = sample.data
    truth = {(fact.kind, fact.detail) for fact in facts_of(whole)}
    for mangled in (
        whole[:a] + whole[b:],
        whole[:b] + whole[a:],
        whole[:a] + whole[c:d] + whole[b:c] + whole[a:b] + whole[d:],
        whole[:a] + bytes(b - a) + whole[b:],
    ):
        assert {(fact.kind, fact.detail) for fact in facts_of(mangled)} <= truth


def test_control_without_checks_a_changed_byte_does_alter_facts(sample: Any) -> None:
    truth = facts_of(sample.data)
    damaged = bytearray(sample.data)
    _, start, _ = next(frame for frame in sample.frames if frame[0] == 7)
    damaged[start + 24] ^= 0xFF
    fd = os.memfd_create("fuzz")
    try:
        os.pwrite(fd, damaged, 0)
        reader = JournalReader(fd, trusted=len(damaged))
        reader.scan()
    finally:
        os.close(fd)
    assert len(reader.facts) == len(truth)
    assert reader.facts != truth
