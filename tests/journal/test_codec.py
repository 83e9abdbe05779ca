"""Frames to bytes and back, and the frames that the codec refuses."""

from __future__ import annotations

import copy
import pickle
import zlib
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.journal import codec
from holdfast.journal.facts import FACTS, OUTPUT, TYPES, Detail, make_fact

RECORDED = sorted(set(TYPES) - {"header", "spec", "output", "output_gap"})


@pytest.fixture(autouse=True)
def nothing_left_behind() -> None:
    """Replace the check for processes and descriptors: this module tests pure functions, with many cases."""


def payload_of(frame: bytes) -> bytes:
    header = codec.decode_header(frame)
    assert header is not None
    return frame[header.payload_offset : header.payload_offset + header.length]


@pytest.mark.parametrize("kind", RECORDED)
def test_a_fact_comes_back_as_it_was_recorded(kind: str, details: dict[str, dict[str, Any]]) -> None:
    frame = codec.encode_fact(kind, details[kind], at_ns=77)
    header = codec.decode_header(frame)
    assert header is not None
    assert (header.type, header.at_ns, header.payload_offset) == (TYPES[kind], 77, 24)
    fact = codec.decode_fact(header.type, header.at_ns, 40, payload_of(frame))
    assert fact is not None
    assert fact == (kind, 77, 40, details[kind])


@pytest.mark.parametrize("kind", RECORDED)
def test_a_payload_may_be_longer_and_not_shorter_than_its_struct(kind: str, details: dict[str, dict[str, Any]]) -> None:
    layout = FACTS[TYPES[kind]]
    payload = payload_of(codec.encode_fact(kind, details[kind], at_ns=1))[: layout.struct.size]
    if layout.tail is None:
        assert codec.decode_fact(TYPES[kind], 1, 0, payload + b"more") is not None
    if payload:
        with pytest.raises(ValueError, match="fewer than"):
            codec.decode_fact(TYPES[kind], 1, 0, payload[:-1])


def test_the_check_is_a_crc_of_all_but_mark_check_and_output() -> None:
    frame = codec.encode(3, b"payload", at_ns=5, stream=1, flags=2)
    assert int.from_bytes(frame[12:16], "little") == zlib.crc32(frame[4:12] + frame[16:])
    output = codec.encode(OUTPUT, b"payload", at_ns=5, stream=1, flags=1)
    assert int.from_bytes(output[12:16], "little") == zlib.crc32(output[4:12] + output[16:24])


def test_every_changed_byte_of_a_fact_is_noticed() -> None:
    frame = codec.encode_fact("deadline", {"limit_ns": 12345}, at_ns=99)
    for position in range(len(frame)):
        changed = bytearray(frame)
        changed[position] ^= 0x20
        assert codec.decode_header(bytes(changed)) is None
    assert codec.decode_header(frame) is not None


def test_a_frame_that_is_cut_is_none() -> None:
    frame = codec.encode(OUTPUT, b"abc", stream=1)
    assert all(codec.decode_header(frame[:length]) is None for length in range(len(frame)))


def test_unknown_types_and_unknown_words_are_no_errors() -> None:
    assert codec.decode_fact(99, 0, 0, b"whatever") is None
    payload = (77).to_bytes(4, "little") + bytes(12)
    fact = codec.decode_fact(TYPES["stop_asked"], 0, 0, payload)
    assert fact is not None
    assert fact.detail["cause"] == "unknown:77"
    assert payload_of(codec.encode_fact("stop_asked", fact.detail, at_ns=0)) == payload


def test_recording_an_unknown_kind_or_word_raises() -> None:
    with pytest.raises(ValueError, match="no fact 'exploded'"):
        codec.encode_fact("exploded", {}, at_ns=0)
    with pytest.raises(ValueError, match="no fact 'output'"):
        codec.encode_fact("output", {}, at_ns=0)
    with pytest.raises(ValueError, match="'boredom' is no lost_why: use one of guard, host"):
        codec.encode_fact("lost", {"why": "boredom"}, at_ns=0)
    with pytest.raises(ValueError, match="no fact 'exploded'"):
        make_fact("exploded", 1)
    with pytest.raises(ValueError, match="deadline fact has no limit: its fields are limit_ns"):
        make_fact("deadline", 1, limit=3)


def test_survivors_of_an_unexpected_shape_are_kept_as_text() -> None:
    payload = FACTS[TYPES["tree"]].struct.pack(2, 2) + b"70 5 D nfs 0\nsomething else\xff\n"
    fact = codec.decode_fact(TYPES["tree"], 0, 0, payload)
    assert fact is not None
    first, second = fact.detail["survivors"]
    assert (first["pid"], first["wait_channel"]) == (70, "nfs")
    assert second == {"text": "something else\\xff"}


def test_facts_are_hashable_and_cannot_be_changed() -> None:
    one, two = make_fact("lost", 1, why="host"), make_fact("lost", 1, why="host")
    assert one == two
    assert len({one, two}) == 1
    changes: list[Callable[[Any], Any]] = [
        lambda detail: detail.__setitem__("why", "guard"),
        lambda detail: detail.__delitem__("why"),
        lambda detail: detail.__ior__({"why": "guard"}),
        lambda detail: detail.update(why="guard"),
        lambda detail: detail.setdefault("who", "me"),
        lambda detail: detail.pop("why"),
        lambda detail: detail.popitem(),
        lambda detail: detail.clear(),
    ]
    for change in changes:
        with pytest.raises(TypeError, match="read-only"):
            change(one.detail)
    assert one == two
    assert pickle.loads(pickle.dumps(one)) == one
    assert isinstance(copy.deepcopy(one).detail, Detail)


@pytest.mark.parametrize("word", ["", 'a"b', "a b", "ü", "a\n"])
def test_an_id_that_would_need_quoting_is_refused(word: str) -> None:
    with pytest.raises(ValueError, match="cannot be an id"):
        codec.journal_preamble(word, "boot", 0, 0, b"{}")
    with pytest.raises(ValueError, match="cannot be an id"):
        codec.journal_preamble("run", word, 0, 0, b"{}")


def test_a_fact_that_no_guard_writes_is_recorded_like_the_others() -> None:
    frame = codec.encode_fact("queue_expired", {"limit_ns": 5}, at_ns=7)
    header = codec.decode_header(frame)
    assert header is not None
    payload = frame[header.payload_offset : header.payload_offset + header.length]
    assert codec.decode_fact(header.type, header.at_ns, 3, payload) == make_fact("queue_expired", 7, 3, limit_ns=5)
