"""Output by the page: a range of bytes of what a run wrote before its verdict, cut between characters.

Offsets count bytes of the output in the order it was recorded, both streams together or one of them, so a client can
compute with them. What came after the verdict is late: it is counted in the report and not handed out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..journal.reader import JournalReader
from ..state.record import RunRecord
from ..values.utf8_cut import end_of_last, start_of_first

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..state.directory import StateDirectory

_AT_ONCE = 1 << 20


class OutputPage(NamedTuple):
    """`text` begins at `offset` and ends before `next_offset`; `total` bytes are there by now."""

    text: str
    offset: int
    next_offset: int
    total: int


def read_page(state: StateDirectory, run_id: str, offset: int, limit: int, stream: str | None = None) -> OutputPage:
    """What is there from `offset` on, at most `limit` bytes. RunNotFoundError, JournalError: it cannot be read."""
    with RunRecord(state, run_id) as record:
        reader = JournalReader(record.fd, run_id=run_id)
        data, total = _range(reader, stream, offset, offset + limit)
        ended = reader.ended
    offset = min(offset, total)
    # The rest of a character may be on its way, or on the next page. When nothing follows, what is there is all.
    keep_all = ended and offset + len(data) == total
    # A page that is one piece of a character is handed out as it is: the next call must get on.
    whole = data if keep_all else data[: end_of_last(data)] or data
    return OutputPage(whole.decode("utf-8", "replace"), offset, offset + len(whole), total)


def read_tail(state: StateDirectory, run_id: str, limit: int) -> OutputPage:
    """The last `limit` bytes of what is there. Fails as `read_page`."""
    with RunRecord(state, run_id) as record:
        reader = record.read().reader
        total = reader.stdout_bytes + reader.stderr_bytes - reader.late_bytes
        start = max(0, total - limit)
        data, _ = _range(JournalReader(record.fd, run_id=run_id), None, start, total)
    cut = start_of_first(data) if start else 0
    return OutputPage(data[cut:].decode("utf-8", "replace"), start + cut, total, total)


def _range(reader: JournalReader, stream: str | None, start: int, end: int) -> tuple[bytes, int]:
    """The bytes from `start` to `end`, and how many there are in all."""
    found, at = bytearray(), 0
    for data in _chunks(reader, stream):
        after = at + len(data)
        if after > start and at < end:
            found += data[max(0, start - at) : end - at]
        at = after
    return bytes(found), at


def _chunks(reader: JournalReader, stream: str | None) -> Iterator[bytes]:
    while chunks := reader.read(_AT_ONCE):
        for chunk in chunks:
            if not chunk.late and stream in (None, chunk.stream):
                yield chunk.data
