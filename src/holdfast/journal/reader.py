"""The reader of a journal, also while it grows: facts as they appear, output when the caller wants it.

Theory of operation. A reader has one position, always at the start of a frame, and only moves forward: the kernel may
have got back what lies before it. Each call takes the journal's length once and handles the frames that are whole
within it. A frame that is not whole (a short header, a mark whose last bytes are zero, a payload past the end) is a
torn tail: that is normal, and means "nothing more yet". The payload of output may be there before its header. Small
frames are read by the block. A large payload is read by itself; when only facts are wanted, the reader steps over it
and remembers its place for `collect`.

Output may be taken out of a journal while it grows (`gap_trail`). The reader looks at the last gap frame after each
read, and before it uses what it has read. If its place is gone, it goes on behind the gap, and says in a chunk without
data how much is missing. Byte counts include what is missing: they are places in the output as it was written.

The guard of a kept run may have to end while the file system of the journal hangs. Then it hands over the rest of the
journal in memory, at the same offsets (`continue_in`).

Invariants. A frame is used only when its mark and check are right. The first complete frame that is wrong ends the
reading (`damage`), and the facts before it stand. Facts come in the journal's order and their times never run
backwards, so no frame that is read later can come before a verdict that was read.
"""

from __future__ import annotations

import os
from _bisect import bisect_right
from io import BytesIO

from ..values.errors import JournalDamagedError, JournalVersionError
from ..values.fast_imports import TYPE_CHECKING, NamedTuple
from .codec import (
    FRAME,
    FRAME_SIZE,
    LARGEST_PAYLOAD,
    PREAMBLE_SIZE,
    PREAMBLE_STRUCT,
    decode_fact,
    decode_header,
    frame_check,
)
from .facts import FACTS, HEADER, LATE, MARK, OUTPUT, OUTPUT_GAP, PREAMBLE, SPEC, STREAMS, VERSION
from .gap_trail import GapTrail, read_gap

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable, Iterable
    from typing import Any

    from .facts import Fact

_BLOCK = 64 << 10
_LARGE = 16 << 10
_MOST_RANGES = 1 << 20
_KINDS = (("stdout", False), ("stdout", True), ("stderr", False), ("stderr", True))
_FIRST_KIND = {"stdout": 0, "stderr": 2}
_AFTER_LARGE = 4 << 10  # a large payload is seldom alone: what follows is one header and another large payload
_CUT = "something made the file shorter while it was read; read it again from the start"
_TORN_MARKS = (0, *(MARK & (1 << 8 * size) - 1 for size in (1, 2, 3)))  # the kernel copies a mark page by page, too
_unpack_frame = FRAME.unpack_from


class Chunk(NamedTuple):
    """A piece of output. A `late` chunk came after the verdict and is not part of the result.

    A chunk with `missing_bytes` stands for output that was not kept (`--on-max-output roll`).
    """

    stream: str
    data: bytes
    late: bool
    at_ns: int
    offset: int
    missing_bytes: int = 0  # so many bytes of this stream are gone here; such a chunk has no data


class JournalReader:
    """Reads the journal behind `fd`, which stays the caller's: a file or a memfd, also while it grows.

    `read` and `scan` raise JournalDamagedError for a file that is no journal, and JournalVersionError for a journal of
    another format version. Frames that end before `trusted` are not checked: this process wrote them itself.
    """

    def __init__(self, fd: int, *, trusted: int = 0, run_id: str | None = None, beginning: bytes = b"") -> None:
        """`beginning`: the first bytes, which this process wrote itself. They are decoded only on demand."""
        self.position = len(beginning)
        self._beginning = beginning
        self.facts: list[Fact] = []
        self.ended = False
        self.damage: str | None = None
        self.passed = [0, 0, 0, 0]  # bytes so far: stdout, late stdout, stderr, late stderr
        self._fd = self._file = fd
        self._rest = -1  # a memfd that has the journal from `_rest_from` on
        self._rest_from = 0
        self._trusted = trusted
        self._run_id = run_id
        self._latest_ns = 0
        self._block = _BLOCK
        self._room = 0
        self._most_ranges = _MOST_RANGES
        self._json: dict[int, bytes] = {}
        self._decoded: dict[int, dict[str, Any]] = {}
        self._ranges: dict[str, array[int]] = {}
        self._trail = GapTrail()
        self._missing = [0, 0, 0, 0]

    @property
    def stdout_bytes(self) -> int:
        """How much the command has written to stdout up to the position, late bytes included."""
        return self.passed[0] + self.passed[1]

    @property
    def stderr_bytes(self) -> int:
        """How much the command has written to stderr up to the position, late bytes included."""
        return self.passed[2] + self.passed[3]

    @property
    def late_bytes(self) -> int:
        """How much of both came after the verdict."""
        return self.passed[1] + self.passed[3]

    @property
    def last_gap(self) -> int:
        """The offset of the last gap frame before the position; -1: there is none."""
        return self._trail.last

    def start_at(self, position: int, passed: Iterable[int], last_gap: int) -> None:
        """Begin at a frame that another reader of the same journal has found, with what it knew there."""
        self.position, self.passed = position, list(passed)
        if last_gap >= 0:
            self._trail.add(last_gap, self.passed)

    def missing(self) -> list[int]:
        """How many bytes were taken out of the journal, of each kind of `passed`, up to the position."""
        if self._file >= 0 and self._trail.last >= 0:
            self._missing = self._trail.missing(self._file)
        return self._missing

    def holes(self) -> list[tuple[int, int]]:
        """The parts of the journal that are gone now, up to the position."""
        return self._trail.holes(self._file)

    def gap_frames(self) -> list[int]:
        """The offsets of the gap frames that this reader knows."""
        return self._trail.offsets()

    def close(self) -> None:
        """Read no more: the descriptor is about to be closed. What was read stays."""
        self.missing()
        self._fd = self._file = -1

    @property
    def header(self) -> dict[str, Any] | None:
        """The header: run id, boot id and the two clock anchors; None as long as it is not there."""
        return self._decode_json(HEADER)

    @property
    def spec(self) -> dict[str, Any] | None:
        """The spec on record, without environment values; None as long as it is not there."""
        return self._decode_json(SPEC)

    def continue_in(self, memory: int, kept_from: int) -> None:
        """Read on in this memfd from `kept_from`, where a frame begins: the file will not have more for a while.

        The descriptor stays the caller's.
        """
        self._rest, self._rest_from = memory, kept_from

    def read(self, limit: int = 0) -> list[Chunk]:
        """Read new output, and append new facts to `facts`. If `limit` is not 0, stop after about so many bytes.

        An empty list means that there is no more output for now.
        """
        chunks: list[Chunk] = []
        self._room = limit if limit > 0 else 1 << 62
        self._advance(chunks)
        return chunks

    def scan(self) -> None:
        """Append new facts to `facts` and step over the output, which `collect` can fetch later."""
        self._room = 1
        self._advance(None)

    def collect(self, stream: str) -> bytes:
        """All output of `stream` from before the verdict, as far as `scan` has come. It is copied once."""
        if self._trail.last >= 0:
            self._forget_gone()
        ranges = self._ranges.get(stream)
        if not ranges:
            return b""
        if len(ranges) == 2:
            return os.pread(self._place_of(ranges[0]), ranges[1], ranges[0])
        # The kernel copies straight into the bytes that are returned: BytesIO hands out its buffer as it is. Against a
        # join over an mmap this is as fast, takes no page faults on the journal, and lets other threads run meanwhile.
        whole = BytesIO(bytes(sum(ranges[1::2])))
        with whole.getbuffer() as target:
            if self._copy(ranges, target) < len(target):
                raise JournalDamagedError("output is gone from the journal", run_id=self._run_id, remedy=_CUT)
        return whole.getvalue()

    def hand_over(self, stream: str, take: Callable[[memoryview], object], buffer: memoryview) -> None:
        """Give `take` the bytes that `collect` would return, one buffer after the other, and forget their place.

        All calls of `take` get the same buffer, so `take` copies what it keeps. This collects output while it grows.
        """
        ranges = self._ranges.pop(stream, None) or ()
        for offset, length in zip(ranges[::2], ranges[1::2], strict=True):
            end = offset + length
            while offset < end:
                copied = os.preadv(self._place_of(offset), (buffer[: end - offset],), offset)
                if copied == 0:
                    raise JournalDamagedError("output is gone from the journal", run_id=self._run_id, remedy=_CUT)
                take(buffer[:copied])
                offset += copied

    def _copy(self, ranges: array[int], target: memoryview) -> int:
        at, window, window_at = 0, b"", 0
        for offset, length in zip(ranges[::2], ranges[1::2], strict=True):
            if length >= _LARGE:
                with target[at : at + length] as piece:
                    copied = os.preadv(self._place_of(offset), (piece,), offset)
            else:
                if offset + length > window_at + len(window) or offset >= self._rest_from > window_at:
                    window, window_at = os.pread(self._place_of(offset), _BLOCK, offset), offset
                data = window[offset - window_at : offset - window_at + length]
                copied = len(data)
                target[at : at + copied] = data
            at += copied
        return at

    def _place_of(self, offset: int) -> int:
        return self._file if self._rest < 0 or offset < self._rest_from else self._rest

    def _advance(self, chunks: list[Chunk] | None) -> None:
        if self._rest < 0 or self.position < self._rest_from:
            self._advance_there(chunks)
        if self._rest >= 0 and self.position >= self._rest_from:  # then the file, which may hang, is not looked at
            self._fd = self._rest
            self._advance_there(chunks)

    def _advance_there(self, chunks: list[Chunk] | None) -> None:
        end = os.fstat(self._fd).st_size
        if self.position == 0 and not self._begin(end):
            return
        while self.damage is None and self._room > 0 and (left := end - self.position) >= FRAME_SIZE:
            buffer = os.pread(self._fd, min(self._block, left), self.position)
            if self._trail.last >= 0 and self._jump(chunks):
                end = os.fstat(self._fd).st_size
            elif not self._take(buffer, end, chunks):
                return

    def _begin(self, end: int) -> bool:
        preamble = os.pread(self._fd, PREAMBLE_SIZE, 0)
        if not preamble.strip(b"\0"):  # the file is empty, or was made longer before it was written
            return False
        if not PREAMBLE.startswith(preamble[:8]):
            raise JournalDamagedError(
                "this file is no journal: it does not begin like one",
                run_id=self._run_id,
                remedy="move it away; the run it belonged to cannot be read back",
            )
        if len(preamble) < PREAMBLE_SIZE:
            return False
        version = PREAMBLE_STRUCT.unpack(preamble)[1]
        if version != VERSION:
            raise JournalVersionError(
                f"this journal has format version {version}, this Holdfast reads version {VERSION}",
                run_id=self._run_id,
                remedy="read it with the Holdfast that wrote it",
            )
        self.position = PREAMBLE_SIZE
        return end > PREAMBLE_SIZE

    def _take(self, buffer: bytes, end: int, chunks: list[Chunk] | None) -> bool:
        """Use the whole frames at the front of `buffer`; False when there is nothing more to read now."""
        # One long loop on purpose: it runs once per frame, and a call would cost as much as the work for the frame.
        start, at, size = self.position, 0, len(buffer)
        self._block = _BLOCK
        while size - at >= FRAME_SIZE:
            mark, type_, stream, flags, length, check, at_ns = _unpack_frame(buffer, at)
            offset, body = start + at, at + FRAME_SIZE
            after = body + length
            if mark != MARK:
                return mark not in _TORN_MARKS and self._look_again(offset, f"the mark of a frame is {mark:#010x}")
            if length > LARGEST_PAYLOAD:
                return self._look_again(offset, f"a frame claims a payload of {length} bytes")
            if start + after > end:
                return False
            if type_ != OUTPUT and after > size:
                if at:
                    return True  # the next block will begin with this frame
                buffer = os.pread(self._fd, after, start)
                size = len(buffer)
                if after > size:
                    return False
            payload = b"" if type_ == OUTPUT else buffer[body:after]
            if start + after > self._trusted and check != frame_check(
                buffer[at + 4 : at + 12], buffer[at + 16 : body], payload
            ):
                return self._look_again(offset, f"the check of a frame of type {type_} is wrong")
            if type_ == OUTPUT_GAP:
                self._trail.add(offset, self.passed)
                self.position = start + after
                if self._jump(chunks):
                    return True
            elif type_ != OUTPUT:
                if not self._take_fact(type_, at_ns, offset, payload):
                    return False
            elif name := STREAMS.get(stream):
                if chunks is None:
                    self._remember(name, flags & LATE, start + body, length)
                else:
                    data = buffer[body:after] if after <= size else os.pread(self._fd, length, start + body)
                    if after > size and self._trail.last >= 0 and self._jump(chunks):
                        return True
                    if len(data) < length:
                        return False
                    chunks.append(Chunk(name, data, flags & LATE != 0, at_ns, offset))
                    self._room -= length
                self.passed[_FIRST_KIND[name] + (flags & LATE)] += length
            at = after
            self.position = start + at
            if self._room <= 0:
                return False
        if at > size and length >= _LARGE:
            self._block = _AFTER_LARGE
        return True

    def _take_fact(self, type_: int, at_ns: int, offset: int, payload: bytes) -> bool:
        if type_ in (HEADER, SPEC):
            self._json.setdefault(type_, payload)
            return True
        # One writer stamps in order. If a clock steps back all the same, the order on record must still hold.
        self._latest_ns = at_ns = max(at_ns, self._latest_ns)
        try:
            fact = decode_fact(type_, at_ns, offset, payload)
        except ValueError as error:
            self.damage = f"at byte {offset}: {error}"
            return False
        if fact is not None:
            self.facts.append(fact)
            self.ended = self.ended or fact.kind == "end"
        return True

    def _remember(self, name: str, late: int, offset: int, length: int) -> None:
        if not late and length:
            if name not in self._ranges:
                self._ranges[name] = _no_ranges()
            self._ranges[name].extend((offset, length))

            if len(self._ranges[name]) >= self._most_ranges and self._trail.last >= 0:
                self._forget_gone()
                self._most_ranges = max(_MOST_RANGES, 2 * len(self._ranges[name]))

    def _jump(self, chunks: list[Chunk] | None) -> bool:
        """Go on behind the gap, if the output at the position is gone; True when it is."""
        if self._fd != self._file:
            return False  # nothing is taken out of the rest in memory
        gap = read_gap(self._fd, self._trail.last)
        if gap is None or gap.resume_at <= self.position:
            return False
        for kind, (passed, before) in enumerate(zip(gap.passed, self.passed, strict=True)):
            if passed > before and chunks is not None:
                stream, late = _KINDS[kind]
                chunks.append(Chunk(stream, b"", late, self._latest_ns, self.position, passed - before))
        self.passed = list(map(max, gap.passed, self.passed))
        self.position = gap.resume_at
        return True

    def _forget_gone(self) -> None:
        """Forget the places of output that was taken out since they were remembered."""
        holes = self._trail.holes(self._file)
        ends = [end for _, end in holes]
        for stream, ranges in self._ranges.items():
            kept = _no_ranges()
            for offset, length in zip(ranges[::2], ranges[1::2], strict=True):
                hole = bisect_right(ends, offset)
                if hole == len(holes) or offset < holes[hole][0]:
                    kept.extend((offset, length))
            self._ranges[stream] = kept

    def _look_again(self, offset: int, what: str) -> bool:
        """Read a wrong frame again; True when it is whole now, because the guard was just writing it.

        Otherwise note the damage and return False.
        """
        header = os.pread(self._fd, FRAME_SIZE, offset)
        if len(header) < FRAME_SIZE:
            return False
        length = _unpack_frame(header)[4]
        if length <= LARGEST_PAYLOAD and decode_header(os.pread(self._fd, FRAME_SIZE + length, offset)):
            self.position = offset
            return True
        self.damage = f"at byte {offset}: {what}"
        return False

    def _open_beginning(self) -> None:
        beginning, self._beginning, at = self._beginning, b"", PREAMBLE_SIZE
        while (frame := decode_header(beginning, at)) is not None:
            at = frame.payload_offset + frame.length
            self._json[frame.type] = beginning[frame.payload_offset : at]

    def _decode_json(self, type_: int) -> dict[str, Any] | None:
        if self._beginning:
            self._open_beginning()
        if type_ not in self._json:
            return None
        if type_ in self._decoded:
            return self._decoded[type_]
        import json  # here, because it costs more than reading the whole journal of a short run

        try:
            value = json.loads(self._json[type_])
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise JournalDamagedError(
                f"the {FACTS[type_].name} of this journal is not readable",
                run_id=self._run_id,
                remedy="its facts can still be read; how the run was started cannot",
            )
        self._decoded[type_] = value  # the first frame of this kind counts, so the value never changes
        return value


def _no_ranges() -> array[int]:
    from array import array  # here, because it brings `collections` along, and many runs write nothing

    return array("Q")
