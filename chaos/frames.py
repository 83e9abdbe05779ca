"""A second reader of journals, as simple as possible: whole frames from the front. It shares no code with Holdfast."""

from __future__ import annotations

import os
import struct
import zlib
from typing import NamedTuple

_HEADER = struct.Struct("<IHBBIIQ")
_MARK = 0x46444C48
_PREAMBLE = 16
NAMES = {
    1: "header",
    2: "spec",
    3: "started",
    4: "output",
    5: "warned",
    6: "stop_asked",
    7: "deadline",
    8: "idle",
    9: "limit",
    10: "oom",
    11: "signalled",
    12: "exited",
    13: "stragglers",
    14: "drained",
    15: "tree",
    16: "end",
    17: "spawn_failed",
    18: "extended",
    19: "stopped",
    20: "continued",
    21: "owner_gone",
    22: "owner_came",
    23: "recording_failed",
    24: "lost",
    25: "entered",
    26: "container_lost",
    27: "vanished",
    28: "order_unknown",
    29: "grace_shortened",
    30: "guard_lost",
    31: "repeated",
    32: "sentinel_lost",
    33: "recording_stalled",
}


class Fact(NamedTuple):
    """One frame that is not output."""

    name: str
    at_ns: int
    payload: bytes

    def number(self, index: int = 0) -> int:
        """One of the 32-bit numbers at the beginning of its payload."""
        found: int = struct.unpack_from("<i", self.payload, 4 * index)[0]
        return found

    def __str__(self) -> str:
        few = [str(self.number(index)) for index in range(min(4, len(self.payload) // 4))]
        return self.name if self.name in ("header", "spec") else f"{self.name}({','.join(few)})"


class Journal:
    """The part of one journal that was read; `take` reads on."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.position = 0
        self.crc = 0  # of all bytes before `position`: the acknowledged bytes
        self.facts: list[Fact] = []
        self.stdout = bytearray()
        self.late = 0
        self.wrong: str | None = None

    def take(self) -> bool:
        """Read the new whole frames; False if there is no such file (yet, or any more)."""
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            data = os.pread(fd, 64 << 20, self.position)
        finally:
            os.close(fd)
        used = self._parse(data)
        self.crc = zlib.crc32(data[:used], self.crc)
        self.position += used
        return True

    def _parse(self, data: bytes) -> int:
        at = 0
        if self.position == 0:
            if len(data) < _PREAMBLE:
                return 0
            at = _PREAMBLE
            if data[:8] != b"HOLDFAST":
                self.wrong = "it does not begin like a journal"
        while self.wrong is None and len(data) - at >= _HEADER.size:
            mark, kind, stream, flags, length, check, at_ns = _HEADER.unpack_from(data, at)
            after = at + _HEADER.size + length
            if mark == 0 or after > len(data):
                break
            payload = data[at + _HEADER.size : after]
            covered = data[at + 4 : at + 12] + data[at + 16 : at + 24] + (b"" if kind == 4 else payload)
            if mark != _MARK or zlib.crc32(covered) != check:
                self.wrong = f"the frame at byte {self.position + at} is wrong"
                break
            if kind == 4:
                self.stdout += payload if stream == 1 else b""
                self.late += length if flags & 1 else 0
            else:
                self.facts.append(Fact(NAMES.get(kind, f"type {kind}"), at_ns, payload))
            at = after
        return at

    @property
    def names(self) -> list[str]:
        """The facts by name, in order."""
        return [fact.name for fact in self.facts]

    @property
    def ended(self) -> bool:
        """Whether the END frame is there."""
        return any(fact.name == "end" for fact in self.facts)

    def first(self, name: str) -> Fact | None:
        """The first fact of that name."""
        return next((fact for fact in self.facts if fact.name == name), None)

    def text(self) -> str:
        """All facts on one line, for a message."""
        return " ".join(map(str, self.facts)) + (f" [{self.wrong}]" if self.wrong else "")


def read(path: str) -> Journal:
    """A whole journal; FileNotFoundError when it is not there."""
    journal = Journal(path)
    if not journal.take():
        raise FileNotFoundError(path)
    return journal
