"""Pages of a run's output for MCP: a range of bytes written before the verdict, cut between characters.

Offsets count bytes of one stream or of both, in the order of the record, so a client can compute with them. Output
after the verdict is late: the report counts it, and pages leave it out.
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
    """A page: `text` covers `offset` to `next_offset`; `total` bytes were written so far."""

    text: str
    offset: int
    next_offset: int
    total: int


def read_page(state: StateDirectory, run_id: str, offset: int, limit: int, stream: str | None = None) -> OutputPage:
    """The output from `offset` on, at most `limit` bytes. RunNotFoundError, JournalError: it cannot be read."""
    with RunRecord(state, run_id) as record:
        reader = JournalReader(record.fd, run_id=run_id)
        data, total = _range(reader, stream, offset, offset + limit)
        ended = reader.ended
    offset = min(offset, total)
    # An incomplete character at the end is left for the next page, unless no more output will come.
    keep_all = ended and offset + len(data) == total
    # A page that is only a piece of a character is returned as it is, so that the next call makes progress.
    whole = data if keep_all else data[: end_of_last(data)] or data
    return OutputPage(whole.decode("utf-8", "replace"), offset, offset + len(whole), total)


def read_tail(state: StateDirectory, run_id: str, limit: int) -> OutputPage:
    """The last `limit` bytes of the output. Raises the errors of `read_page`."""
    with RunRecord(state, run_id) as record:
        reader = record.read().reader
        total = reader.stdout_bytes + reader.stderr_bytes - reader.late_bytes
        start = max(0, total - limit)
        data, _ = _range(JournalReader(record.fd, run_id=run_id), None, start, total)
    cut = start_of_first(data) if start else 0
    return OutputPage(data[cut:].decode("utf-8", "replace"), start + cut, total, total)


def _range(reader: JournalReader, stream: str | None, start: int, end: int) -> tuple[bytes, int]:
    """The bytes from `start` to `end`, and the total number of bytes."""
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
