"""Control packets: sent packets have the layout of frame.h, received ones are understood or skipped."""

from __future__ import annotations

import struct

import pytest

from holdfast.guard import packets
from holdfast.journal.facts import MARK

HEADER = struct.Struct("<IHBBIIQ")


def packet(kind: int, payload: bytes, ticket: int = 0) -> bytes:
    return HEADER.pack(MARK, kind, 0, 0, len(payload), 0, ticket) + payload


def test_requests_are_one_frame_each() -> None:
    assert packets.stop(7, "shutdown", "why", now=True, signal=2) == packet(
        64, struct.pack("<iiii", 2, 1, 2, 0) + b"why", 7
    )
    assert packets.stop(7, "user", "", now=False, person=True) == packet(64, struct.pack("<iiii", 1, 0, 0, 1), 7)
    within = packets.stop(7, "user", "why", now=False, grace_s=0.5)
    assert within == packet(74, struct.pack("<iiiiQ", 1, 0, 0, 0, 5 * 10**8) + b"why", 7)
    assert packets.signal(8, 15, tree=True) == packet(65, struct.pack("<ii", 15, 2), 8)
    assert packets.signal(8, 15, tree=False) == packet(65, struct.pack("<ii", 15, 1), 8)
    assert packets.extend(9, 10**9) == packet(66, struct.pack("<Q", 10**9), 9)
    assert packets.read(4096, 0) == packet(67, struct.pack("<QQ", 4096, 0))
    assert packets.close_input(3) == packet(69, b"", 3)
    assert packets.heartbeat(4) == packet(70, b"", 4)


def test_a_long_reason_is_cut_between_characters() -> None:
    request = packets.stop(1, "user", "ä" * 5000, now=False)
    text = request[HEADER.size + 16 :]
    assert text.decode() == "ä" * (packets.REASON_MAX // 2)
    assert len(request) <= packets.PACKET_MAX
    odd = packets.stop(1, "user", "x" + "ä" * 5000, now=False)[HEADER.size + 16 :]
    assert odd.decode() == "x" + "ä" * (packets.REASON_MAX // 2 - 1)


def test_a_cause_outside_the_contract_is_refused() -> None:
    with pytest.raises(ValueError, match="bored"):
        packets.stop(1, "bored", "", now=False)


def test_answers_and_wakes() -> None:
    assert packets.decode(packet(80, struct.pack("<ii", 3, 0), 42)) == packets.Answer(42, 3)
    assert packets.decode(packet(81, struct.pack("<Q", 1000))) == packets.Wake(1000)
    assert packets.decode(packet(82, struct.pack("<QQQ", 1000, 2000, 3))) == packets.Unrecorded(1000, 2000, 3)
    assert packets.decode(packet(82, struct.pack("<QQ", 1000, 2000))) is None, "it is too short"
    assert packets.decode(packet(81, struct.pack("<QQ", 1000, 1))) == packets.Wake(1000), "a newer guard says more"


@pytest.mark.parametrize(
    "unknown",
    [
        b"",
        b"x" * 10,
        packet(99, b""),
        packet(80, b"xx"),
        packet(81, b""),
        packet(81, struct.pack("<Q", 1))[:-1],
        HEADER.pack(0, 81, 0, 0, 8, 0, 0) + bytes(8),
    ],
)
def test_what_is_not_understood_is_skipped(unknown: bytes) -> None:
    assert packets.decode(unknown) is None
