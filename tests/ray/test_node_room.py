"""What a node takes: its slots, the memory that it has promised, and the memory that is free."""

from __future__ import annotations

import pytest

from holdfast.ray import node_room
from holdfast.ray.node_room import NodeRoom

GIB = 1 << 30


@pytest.mark.parametrize(
    ("live", "promised", "budget", "said"),
    [
        (0, 0, 0, None),
        (9, 0, 0, None),
        (10, 0, 0, "has all its 10 slots in use"),
        (0, 3 * GIB, GIB, None),
        (0, 4 * GIB, GIB, "has promised 4096 of its 4096 MiB of memory to other runs"),
        (0, 4 * GIB, 0, None),  # a run without a budget has no share in it
        (0, 0, 3 * GIB, "has only 2048 MiB of memory left"),
    ],
)
def test_a_refusal_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, live: int, promised: int, budget: int, said: str | None
) -> None:
    monkeypatch.setattr(node_room, "free_memory_bytes", lambda: 2 * GIB)
    assert NodeRoom(10, 4 * GIB).refusal(live, promised, budget) == said


def test_this_host_has_room() -> None:
    room = NodeRoom.here()
    assert room.slots > 10
    assert room.memory_bytes > GIB // 4
    assert NodeRoom.here(3).slots == 3
    assert node_room.free_memory_bytes() is not None


def test_a_host_that_tells_nothing_refuses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_room, "free_memory_bytes", lambda: None)
    assert NodeRoom(1, 1 << 62).refusal(0, 0, GIB) is None
