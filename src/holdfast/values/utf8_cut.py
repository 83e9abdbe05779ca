"""Where to cut UTF-8 bytes without cutting a character in two. Bytes that are not UTF-8 are cut anywhere."""

from __future__ import annotations

_LONGEST = 4
_INSIDE = 0x80  # 10xxxxxx: not the first byte of a character


def end_of_last(data: bytes | bytearray) -> int:
    """The number of bytes up to the end of the last whole character."""
    for back in range(1, min(_LONGEST, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 != _INSIDE:
            return len(data) - back if _length(byte) > back else len(data)
    return len(data)


def start_of_first(data: bytes | bytearray) -> int:
    """The offset at which the first whole character begins."""
    for at, byte in enumerate(data[:_LONGEST]):
        if byte & 0xC0 != _INSIDE:
            return at
    return len(data) if len(data) < _LONGEST else 0


def _length(first: int) -> int:
    return 4 if first >= 0xF0 else 3 if first >= 0xE0 else 2 if first >= 0xC0 else 1
