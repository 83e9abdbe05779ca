"""Text in the output of runs: of one run, line by line through all of it; or of many, a few lines of each.

A search takes a moment at most and then says where to go on (`cursor`): a log of a gigabyte is searched in a few
requests, and nobody else waits for them. Case does not matter; the text is taken as it is, not as a pattern.
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
from ....web.problems import INVALID, ProblemError
from ...events.event import wall_time
from ..wire.operation import Operation, OperationCall, answer
from ..wire.types import Filter, RunsQuery, Time, given
from .output import map_of
from .output_map import OutputChoice, OutputMap, RangeReader
from .runs import filters_of

if TYPE_CHECKING:
    from starlette.responses import Response

BUDGET_S = 1.0
_PAGE = 8  # runs between two looks at the clock
_OF_EACH = 5  # lines, when many runs are searched
_MOST_BYTES = 64 << 20  # of one run among many
_SHOWN = 500  # characters of a line
_LONGEST_LINE = 1 << 20
_ALL = OutputChoice("all", late=True)


class SearchQuery(RunsQuery, kw_only=True):
    """What to look for, and in which runs. `case`: it matters. `skip` is for `run_id`: begin at this offset."""

    q: Annotated[str, Meta(min_length=1, max_length=1000)]
    run_id: Filter | UnsetType = UNSET
    skip: Annotated[int, Meta(ge=0, le=1 << 53)] = 0
    case: bool = False


class Match(msgspec.Struct):
    """A line with the text. `offset`: where it begins in the output of both streams, late ones included."""

    run_id: str
    stream: str
    offset: int
    at: Time | None
    late: bool
    line: str


class Matches(msgspec.Struct):
    """What was found. `cursor` continues with older runs, `skip` further on in the same run; null at the end."""

    matches: list[Match]
    runs_searched: int
    cursor: str | None
    skip: int | None


async def search(call: OperationCall) -> Response:
    """As many as asked for, or as a moment allows."""
    query: SearchQuery = call.query
    run_id = given(query.run_id)
    if run_id is None:
        return answer(await call.while_connected(_in_many(call, query)))
    try:
        check_run_id(run_id)
    except HoldfastError as error:
        raise ProblemError(INVALID, error.message, field="run_id") from None
    await call.service.report(run_id)
    found, skip = await asyncio.to_thread(_in_one, call, run_id, query)
    return answer(Matches(found, 1, None, skip))


async def _in_many(call: OperationCall, query: SearchQuery) -> Matches:
    found: list[Match] = []
    cursor, searched, end = given(query.cursor), 0, time.monotonic() + BUDGET_S
    while True:
        states = tuple(query.state)
        page, cursor = await call.service.list(filters_of(query), states=states, cursor=cursor, limit=_PAGE)
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
        return [], None  # removed since
    if fd < 0:
        return [], None
    try:
        known = map_of(run_id)
        known.extend(fd)
        search = OutputSearch(query.q, case=query.case, run_id=run_id, known=known)
        return search.through(fd, query.skip, most or query.limit, most_bytes)
    except HoldfastError:
        return [], None  # its record is broken: the report says so
    finally:
        os.close(fd)


class OutputSearch:
    """One pass through the output of a run. Lines of the two streams are put together apart from each other."""

    def __init__(self, text: str, *, case: bool, run_id: str, known: OutputMap) -> None:
        self._wanted = text.encode() if case else text.lower().encode()
        self._case = case
        self._run_id = run_id
        self._known = known
        self._open: dict[str, tuple[int, bytes]] = {}  # the line that has no end yet: where it began, and what of it
        self.found: list[Match] = []

    def through(self, fd: int, start: int, most: int, most_bytes: int | None) -> tuple[list[Match], int | None]:
        """The matches, and where to go on, None at the end."""
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
        """Where the first one begins that was found and is not given out now."""
        return min((one.offset for one in self.found[most:]), default=None)

    def _take(self, piece: Any) -> None:
        chunk = piece.chunk
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
            self._look(stream, began, line, None, late=False)  # a line without end is looked at by pieces

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
        at = None if at_ns is None or offset_ns is None else wall_time(at_ns + offset_ns)
        self.found.append(Match(self._run_id, stream, offset, at, late, shown))


OPERATIONS = (
    Operation(
        "GET",
        "/v1/search",
        search,
        "Look for text in the output of runs, newest run first.",
        Matches,
        query=SearchQuery,
        errors=(404, 503),
    ),
)
