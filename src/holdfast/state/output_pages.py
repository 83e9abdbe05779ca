"""Pages of a run's output: a range of bytes written before the verdict, cut between characters.

Offsets count bytes of one stream or of both, in the order of the record, so a client can compute with them. Output
after the verdict is late: the report counts it, and pages leave it out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..journal.reader import JournalReader
from ..values.utf8_cut import end_of_last, start_of_first
from .record import RunRecord

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..journal.reader import Chunk
    from .directory import StateDirectory

_AT_ONCE = 1 << 20


class OutputPage(NamedTuple):
    """A page: `text` covers `offset` to `next_offset`; `total` bytes were written so far."""

    text: str
    offset: int
    next_offset: int
    total: int


def read_page(state: StateDirectory, run_id: str, offset: int, limit: int, stream: str | None = None) -> OutputPage:
    """The output from `offset` on, at most `limit` bytes. RunNotFoundError, JournalError: it cannot be read.

    A page ends where output is missing. If it is missing at `offset`, the page begins behind that, at its own `offset`.
    """
    with RunRecord(state, run_id) as record:
        reader = JournalReader(record.fd, run_id=run_id)
        data, offset, total = _range(reader, stream, offset, limit)
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
        again = JournalReader(record.fd, run_id=run_id)
        data, start, _ = _range(again, None, max(0, total - limit), limit, last=True)
    cut = start_of_first(data) if start else 0
    return OutputPage(data[cut:].decode("utf-8", "replace"), start + cut, total, total)


def _range(
    reader: JournalReader, stream: str | None, start: int, limit: int, *, last: bool = False
) -> tuple[bytes, int, int]:
    """At most `limit` bytes from `start`, the offset at which they begin, and the total number of bytes.

    Where bytes are missing, the range ends; or begins again, if the `last` of it is wanted.
    """
    found, at, most = bytearray(), 0, limit
    for chunk in _chunks(reader, stream):
        after = at + len(chunk.data) + chunk.missing_bytes
        if chunk.missing_bytes and after > start and (last or not found):
            start = after
            found.clear()
        elif chunk.missing_bytes and found:
            most = len(found)
        elif after > start:
            found += chunk.data[max(0, start - at) :][: most - len(found)]
        at = after
    return bytes(found), start, at


def _chunks(reader: JournalReader, stream: str | None) -> Iterator[Chunk]:
    while chunks := reader.read(_AT_ONCE):
        yield from (chunk for chunk in chunks if not chunk.late and stream in (None, chunk.stream))
