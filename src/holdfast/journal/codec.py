"""The codec of frames: a 24-byte header and a payload to bytes and back, as native/frame.h lays them out.

Everything that passes between Python and the guard is made of these frames: journal, spec, control packets.
The check is a CRC-32 of the header's other fields and, except for output, of the payload.
"""

from __future__ import annotations

from binascii import crc32
from struct import Struct

from ..values.fast_imports import TYPE_CHECKING, NamedTuple
from .facts import FACTS, HEADER, MARK, NO_FACTS, OBSERVED_FACTS, OUTPUT, PREAMBLE, SPEC, VERSION, Detail, Fact

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

FRAME = Struct("<IHBBIIQ")
FRAME_SIZE = FRAME.size
PREAMBLE_STRUCT = Struct("<8sII")
PREAMBLE_SIZE = PREAMBLE_STRUCT.size
# No frame is nearly this long: the guard reads at most what a pipe holds, and the kernel's limit on arguments bounds a
# spec. A longer length is damaged, and must not become an allocation.
LARGEST_PAYLOAD = 64 << 20

_IN_HOST_NAMES = dict.fromkeys(map(ord, ".-_"))
_FIELDS = Struct("<HBBI")
_TIME = Struct("<Q")


class Frame(NamedTuple):
    """The header of a frame without mark and check; `payload_offset` counts from the start of the buffer."""

    type: int
    stream: int
    flags: int
    at_ns: int
    payload_offset: int
    length: int


def frame_check(fields: bytes, time: bytes, payload: bytes) -> int:
    """The check of a frame, over header bytes 4..12, 16..24 and the payload (empty for output)."""
    return crc32(fields + time + payload)


def encode(type_: int, payload: bytes = b"", *, at_ns: int = 0, stream: int = 0, flags: int = 0) -> bytes:
    """Encode one whole frame. struct.error when a number does not fit its field."""
    fields = _FIELDS.pack(type_, stream, flags, len(payload))
    time = _TIME.pack(at_ns)
    check = frame_check(fields, time, b"" if type_ == OUTPUT else payload)
    return FRAME.pack(MARK, type_, stream, flags, len(payload), check, at_ns) + payload


def decode_header(buffer: bytes, offset: int = 0) -> Frame | None:
    """Decode the header of the frame at `offset`; None when the frame is torn, or its mark or check is wrong."""
    if len(buffer) - offset < FRAME_SIZE:
        return None
    mark, type_, stream, flags, length, check, at_ns = FRAME.unpack_from(buffer, offset)
    start = offset + FRAME_SIZE
    if mark != MARK or len(buffer) - start < length:
        return None
    covered = b"" if type_ == OUTPUT else bytes(buffer[start : start + length])
    fields, time = bytes(buffer[offset + 4 : offset + 12]), bytes(buffer[offset + 16 : start])
    if frame_check(fields, time, covered) != check:
        return None
    return Frame(type_, stream, flags, at_ns, start, length)


RECORDABLE = {
    layout.name: (type_, layout) for type_, layout in (FACTS | OBSERVED_FACTS).items() if type_ not in NO_FACTS
}


def decode_fact(type_: int, at_ns: int, offset: int, payload: bytes) -> Fact | None:
    """Decode a fact; None for an unknown type or a frame that is no fact. ValueError when the payload is too short."""
    layout = FACTS.get(type_) or OBSERVED_FACTS.get(type_)
    if layout is None or type_ in NO_FACTS:
        return None
    struct = layout.struct
    if len(payload) < struct.size:  # longer is fine: a later guard may add fields at the end
        raise ValueError(f"a {layout.name} fact of {len(payload)} bytes, fewer than {struct.size}")
    detail = dict(zip(layout.fields, struct.unpack_from(payload), strict=True))
    for field, words in layout.words:
        detail[field] = words.word(detail[field])
    if layout.tail is not None:
        last = layout.tail.decode(payload[struct.size :])
        if last is not None or not layout.tail.added:
            detail[layout.tail.field] = last
    return Fact(layout.name, at_ns, offset, Detail(detail))


def encode_fact(kind: str, detail: Mapping[str, Any], *, at_ns: int) -> bytes:
    """Encode one fact as a frame. ValueError for an unknown kind or word, KeyError for a missing field."""
    if kind not in RECORDABLE:
        raise ValueError(f"there is no fact {kind!r} to record: use one of {', '.join(RECORDABLE)}")
    type_, layout = RECORDABLE[kind]
    words = dict(layout.words)
    values = (words[name].number(detail[name]) if name in words else detail[name] for name in layout.fields)
    payload = layout.struct.pack(*values)
    if layout.tail is not None:
        payload += layout.tail.encode(detail.get(layout.tail.field))
    return encode(type_, payload, at_ns=at_ns)


def journal_preamble(
    run_id: str, boot_id: str, wall_ns: int, boottime_ns: int, spec_json: bytes, host: str = ""
) -> bytes:
    """Encode the frames before the first fact of the guard. ValueError for an id that is no plain word.

    A host name that is no plain word is left out.
    """
    for word in (run_id, boot_id):
        # The JSON is written by hand, because importing json costs a third of an interpreter's start. Hence no quoting.
        if not (word.isascii() and word.replace("-", "").replace("_", "").isalnum()):
            raise ValueError(f"{word!r} cannot be an id: use letters, digits, - and _")
    own = f', "host": "{host}"' if host.isascii() and host.translate(_IN_HOST_NAMES).isalnum() else ""
    header = (
        f'{{"run_id": "{run_id}", "boot_id": "{boot_id}", "wall_ns": {wall_ns:d}, "boottime_ns": {boottime_ns:d}{own}}}'
    ).encode()
    frames = encode(HEADER, header, at_ns=boottime_ns) + encode(SPEC, spec_json, at_ns=boottime_ns)
    return PREAMBLE_STRUCT.pack(PREAMBLE, VERSION, 0) + frames
