"""A sample journal with every kind of fact and both streams, on time and late."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from holdfast.journal import codec
from holdfast.journal.facts import FACTS, NO_FACTS, OUTPUT, OUTPUT_GAP, Detail
from holdfast.journal.gap_trail import GAP_SIZE
from holdfast.journal.reader import JournalReader

BEGIN_NS = 5_000_000_000
DETAILS: dict[str, dict[str, Any]] = {
    "started": {
        "pid": 70,
        "guard_pid": 69,
        "start_ticks": 1 << 40,
        "containment": "cgroup",
        "cgroup": "/sys/fs/cgroup/x",
    },
    "warned": {"signal": 10, "reached": 2},
    "stop_asked": {"cause": "user", "signal": 2, "by_pid": 9, "by_uid": 1000, "reason": "not needed: ü"},
    "deadline": {"limit_ns": 2_000_000_000, "doing": Detail(pid=77, state="S", wait_channel="do_wait", name="sh x")},
    "idle": {"limit_ns": 1_500_000_000},
    "limit": {"what": "memory", "limit": 64 << 20, "seen": 65 << 20},
    "oom": {"kills": 1},
    "signalled": {"signal": 15, "rung": 0, "reached": 3, "refused": 1},
    "exited": {"wait_status": 3 << 8, "user_us": 10, "system_us": 20, "max_rss_kib": 3000},
    "stragglers": {"count": 2, "policy": "kill"},
    "drained": {"how": "eof", "stdout_bytes": 11, "stderr_bytes": 3, "late_bytes": 5, "dropped_bytes": 0},
    "tree": {
        "how": "survivors",
        "count": 2,
        "survivors": (
            {"pid": 71, "start_ticks": 12, "state": "D", "wait_channel": "nfs_wait", "error": 0},
            {"pid": 72, "start_ticks": 13, "state": "S", "wait_channel": None, "error": 1},
        ),
    },
    "end": {"user_us": 11, "system_us": 21, "max_rss_kib": 3001},
    "spawn_failed": {"step": "exec", "error": 2},
    "extended": {"limit_ns": 9_000_000_000},
    "stopped": {"signal": 19},
    "continued": {},
    "owner_gone": {"pid": 1, "uid": 0},
    "owner_came": {"pid": 2, "uid": 0},
    "recording_failed": {"error": 28},
    "recording_stalled": {"for_ns": 3_000_000_000},
    "lost": {"why": "guard"},
    "entered": {"pid": 7, "agent_pid": 6, "start_ticks": 12345, "container": "box"},
    "container_lost": {"why": "refused", "reason": "no such container"},
    "vanished": {},
    "order_unknown": {},
    "repeated": {"of": "stopped", "count": 39_000, "last_ns": 7_000_000_000},
    "grace_shortened": {"by_pid": 7, "by_uid": 0, "grace_ns": 2_000_000_000},
    "guard_lost": {"guard_pid": 6, "wait_status": 9, "why": "stopped", "stops": 101},
    "sentinel_lost": {"pid": 5},
    "output_rolling": {"limit": 1 << 40, "tail": 1 << 24},
    "output_rolled": {"stdout_bytes": 1 << 41, "stderr_bytes": 7},
    "kept_on": {"run_id": "01m7gh51c0se"},
}


class Sample(NamedTuple):
    """A whole journal, and where each of its frames begins and ends."""

    data: bytes
    frames: list[tuple[int, int, int]]  # type, start, end

    def facts_before(self, offset: int) -> int:
        """How many facts are wholly before `offset`."""
        return sum(1 for type_, _, end in self.frames if type_ not in NO_FACTS and end <= offset)


@pytest.fixture(scope="session")
def details() -> dict[str, dict[str, Any]]:
    return DETAILS


@pytest.fixture(scope="session")
def sample() -> Sample:
    data = codec.journal_preamble("01sample", "boot-1", 1_700_000_000_000_000_000, BEGIN_NS, b'{"argv": ["x"]}')
    frames = [(1, 16, data.index(b"HLDF", 20)), (2, data.index(b"HLDF", 20), len(data))]
    output = iter([(1, 0, b"hello "), (2, 0, b"err"), (1, 1, b"later")])
    for number, (kind, detail) in enumerate(DETAILS.items()):
        at_ns = BEGIN_NS + number
        for frame in (codec.encode_fact(kind, detail, at_ns=at_ns), *_output_frames(output, number, at_ns)):
            frames.append((frame[4], len(data), len(data) + len(frame)))
            data += frame
    gap = gap_frame(len(data))
    frames.append((OUTPUT_GAP, len(data), len(data) + len(gap)))
    data += gap
    assert {type_ for type_, _, _ in frames} == set(FACTS)
    return Sample(data, frames)


def gap_frame(at: int, resume_at: int = 0, passed: tuple[int, int, int, int] = (0, 0, 0, 0)) -> bytes:
    """A gap frame for this offset. Without `resume_at`, nothing behind it was taken out yet."""
    return codec.encode(OUTPUT_GAP, FACTS[OUTPUT_GAP].struct.pack(resume_at or at + GAP_SIZE, *passed))


def _output_frames(output: Iterator[tuple[int, int, bytes]], number: int, at_ns: int) -> list[bytes]:
    piece = next(output, None) if number % 3 == 0 else None
    return [codec.encode(OUTPUT, piece[2], at_ns=at_ns, stream=piece[0], flags=piece[1])] if piece else []


@pytest.fixture
def journal_fd() -> Iterator[Callable[[bytes], int]]:
    """Make memfds that hold the given bytes."""
    opened: list[int] = []

    def make(data: bytes) -> int:
        fd = os.memfd_create("journal")
        opened.append(fd)
        assert os.pwrite(fd, data, 0) == len(data)
        return fd

    yield make
    for fd in opened:
        os.close(fd)


@pytest.fixture
def read_all(journal_fd: Callable[[bytes], int]) -> Callable[[bytes], JournalReader]:
    """A reader that has scanned the given bytes."""

    def read(data: bytes) -> JournalReader:
        reader = JournalReader(journal_fd(data))
        reader.scan()
        return reader

    return read
