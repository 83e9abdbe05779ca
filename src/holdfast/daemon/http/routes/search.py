"""Search for text in output: in one run, every line that matches; in many runs, a few lines of each.

A search takes about a second at most and then says where to continue (`cursor` or `skip`): a gigabyte of output is
searched in a few requests, and other requests do not wait for it. The text is no pattern; case matters only on request.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from ....values.errors import HoldfastError
from ....values.run_id import check_run_id
from ....values.timestamps import format_timestamp
from ....web.problems import INVALID, ProblemError
from ..access.run_access import visible
from ..wire.operation import Operation, OperationCall, answer
from ..wire.types import Filter, RunsQuery, Time, given
from .filters import filters_of
from .output_map import OutputChoice, OutputMap, RangeReader, map_of

if TYPE_CHECKING:
    from starlette.responses import Response

BUDGET_S = 1.0
_PAGE = 8  # runs between two checks of the time
_OF_EACH = 5  # lines per run, when many runs are searched
_MOST_BYTES = 64 << 20  # per run, when many runs are searched
_SHOWN = 500  # bytes of a line that are shown
_LONGEST_LINE = 1 << 20
_ALL = OutputChoice("all", late=True)


class SearchQuery(RunsQuery, kw_only=True):
    """The text to search for, and in which runs. `case`: case matters. `skip`: with `run_id`, begin at this offset."""

    q: Annotated[str, Meta(min_length=1, max_length=1000)]
    run_id: Filter | UnsetType = UNSET
    skip: Annotated[int, Meta(ge=0, le=1 << 53)] = 0
    case: bool = False


class Match(msgspec.Struct):
    """A line that has the text. `offset`: its place in the output of both streams, late output included."""

    run_id: str
    stream: str
    offset: int
    at: Time | None
    late: bool
    line: str


class Matches(msgspec.Struct):
    """The lines found. `cursor` continues with older runs, `skip` later in the same run; both are null at the end."""

    matches: list[Match]
    runs_searched: int
    cursor: str | None
    skip: int | None


async def search(call: OperationCall) -> Response:
    """Search until the limit or the time is reached."""
    query: SearchQuery = call.query
    run_id = given(query.run_id)
    if run_id is None:
        return answer(await call.while_connected(_in_many(call, query)))
    try:
        check_run_id(run_id)
    except HoldfastError as error:
        raise ProblemError(INVALID, error.message, field="run_id") from None
    await visible(call.service, call.caller, run_id)
    found, skip = await asyncio.to_thread(_in_one, call, run_id, query)
    return answer(Matches(found, 1, None, skip))


async def _in_many(call: OperationCall, query: SearchQuery) -> Matches:
    found: list[Match] = []
    cursor, searched, end = given(query.cursor), 0, time.monotonic() + BUDGET_S
    while True:
        states = tuple(query.state)
        filters = filters_of(query, call.caller)
        page, cursor = await call.service.list(filters, states=states, cursor=cursor, limit=_PAGE)
        for report in page:
            if isinstance(run_id := report.get("run_id"), str):
                few, _ = await asyncio.to_thread(_in_one, call, run_id, query, _OF_EACH, _MOST_BYTES)
                found += few
                searched += 1
        if cursor is None or len(found) >= query.limit or time.monotonic() > end:
            return Matches(found, searched, cursor, None)


def _in_one(
    call: OperationCall, run_id: str, query: SearchQuery, most: int | None = None, most_bytes: int | None = None
) -> tuple[list[Match], int | None]:
    try:
        fd = call.service.journal(run_id)
    except HoldfastError:
        return [], None  # the run was removed meanwhile
    if fd < 0:
        return [], None
    try:
        known = map_of(run_id)
        known.extend(fd)
        search = OutputSearch(query.q, case=query.case, run_id=run_id, known=known)
        return search.through(fd, query.skip, most or query.limit, most_bytes)
    except HoldfastError:
        return [], None  # the record is broken, and the run's report says so
    finally:
        os.close(fd)


class OutputSearch:
    """One pass through the output of a run; the lines of each stream are put together separately."""

    def __init__(self, text: str, *, case: bool, run_id: str, known: OutputMap) -> None:
        self._wanted = text.encode() if case else text.lower().encode()
        self._case = case
        self._run_id = run_id
        self._known = known
        self._open: dict[str, tuple[int, bytes]] = {}  # by stream, the incomplete line: offset and bytes so far
        self.found: list[Match] = []

    def through(self, fd: int, start: int, most: int, most_bytes: int | None) -> tuple[list[Match], int | None]:
        """The first `most` matches, and the offset to continue at; None when nothing is left to search."""
        reader = RangeReader(fd, self._run_id, _ALL, self._known.mark_before(_ALL, start))
        end = time.monotonic() + BUDGET_S
        while (pieces := reader.read(start, None)) is not None:
            for piece in pieces:
                self._take(piece)
            if most_bytes is not None and reader.offset > most_bytes:
                return self.found[:most], None
            if len(self.found) >= most or time.monotonic() > end:
                begun = [began for began, _ in self._open.values()]
                return self.found[:most], self._rest(most) or min([reader.offset, *begun])
        for stream, (began, rest) in self._open.items():
            self._look(stream, began, rest, None, late=False)
        return self.found[:most], self._rest(most)

    def _rest(self, most: int) -> int | None:
        """The offset of the first match beyond the limit; None when there is no such match."""
        return min((one.offset for one in self.found[most:]), default=None)

    def _take(self, piece: Any) -> None:
        chunk = piece.chunk
        if piece.missing_bytes and chunk.stream in self._open:
            began, rest = self._open.pop(chunk.stream)
            self._look(chunk.stream, began, rest, None, late=False)  # the end of this line is gone
        began, rest = self._open.pop(chunk.stream, (piece.offset, b""))
        head, newline, tail = chunk.data.rpartition(b"\n")
        if not newline:
            self._keep(chunk.stream, began, rest + chunk.data)
            return
        whole = rest + head
        if self._wanted in (whole if self._case else whole.lower()):
            self._lines(chunk, began, rest, head, piece.offset)
        if tail:
            self._keep(chunk.stream, piece.offset + len(head) + 1, tail)

    def _keep(self, stream: str, began: int, line: bytes) -> None:
        if len(line) < _LONGEST_LINE:
            self._open[stream] = (began, line)
        else:
            self._look(stream, began, line, None, late=False)  # an overlong line is searched in pieces

    def _lines(self, chunk: Any, began: int, rest: bytes, head: bytes, offset: int) -> None:
        first, *others = head.split(b"\n")
        self._look(chunk.stream, began, rest + first, chunk.at_ns, late=chunk.late)
        at = offset + len(first) + 1
        for line in others:
            self._look(chunk.stream, at, line, chunk.at_ns, late=chunk.late)
            at += len(line) + 1

    def _look(self, stream: str, offset: int, line: bytes, at_ns: int | None, *, late: bool) -> None:
        place = (line if self._case else line.lower()).find(self._wanted)
        if place < 0:
            return
        low = max(0, place - _SHOWN // 2)
        shown = line[low : low + _SHOWN].decode("utf-8", "replace")
        offset_ns = self._known.wall_offset_ns
        at = None if at_ns is None or offset_ns is None else format_timestamp(at_ns + offset_ns)
        self.found.append(Match(self._run_id, stream, offset, at, late, shown))


OPERATIONS = (
    Operation(
        "GET",
        "/v1/search",
        search,
        "Search for text in the output of runs, newest run first.",
        Matches,
        query=SearchQuery,
        errors=(404, 503),
    ),
)
