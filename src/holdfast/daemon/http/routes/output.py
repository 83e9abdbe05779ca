"""Output of a run over HTTP: a range, all of it, or following it live; raw bytes, or frames that name their stream.

Without `follow`, the answer's headers have its length and the next offset: a client that polls with that offset loses
nothing and sees nothing twice. With `follow`, the answer ends when the run is settled. Threads read the journal, one
block at a time, and only as fast as the client reads; a client that reads nothing for a while is cut off. The run never
notices.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import msgspec
from starlette.responses import Response

from ....values.timestamps import format_timestamp
from ....web.problems import OUT_OF_RANGE, ProblemError
from ....web.request_body import BYTES
from ....web.request_connection import ABORT
from ..wire.operation import Header, Operation, OperationCall
from ..wire.types import OutputFrame, OutputQuery, given
from .output_map import OutputChoice, OutputMap, OutputPiece, RangeReader, map_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.types import Receive, Scope, Send

    from ...service.service import Service

FRAMES = "application/x-ndjson"
NEXT = "Holdfast-Next-Offset"
START = "Holdfast-Offset"
COMPLETE = "Holdfast-Complete"
STALLED_S = 60.0


async def output(call: OperationCall) -> Response:
    """Answer with a range of output. ProblemError 416: the offset is beyond the end."""
    query: OutputQuery = call.query
    framed = FRAMES in call.request.headers.get("accept", "")
    fd = call.service.journal(call.run_id)
    if fd < 0 and not query.follow:
        return Response(b"", headers=_headers(0, 0, complete=False), media_type=FRAMES if framed else BYTES)
    return await _ranged(call, query, fd, framed=framed)


async def _ranged(call: OperationCall, query: OutputQuery, fd: int, *, framed: bool) -> Response:
    choice, found = OutputChoice(query.stream, query.late), map_of(call.run_id)
    try:
        if fd >= 0:
            await asyncio.to_thread(found.extend, fd)
        total = found.total(choice) if fd >= 0 else 0
        start = query.offset if query.offset >= 0 else max(0, total + query.offset)
        if start > total:
            remedy = "offsets count bytes of the chosen stream; the next one is in Holdfast-Next-Offset"
            headers = {NEXT: str(total)}
            detail = f"the output has {total} bytes, and offset {start} is beyond its end"
            raise ProblemError(OUT_OF_RANGE, detail, run_id=call.run_id, field="offset", remedy=remedy, headers=headers)
    except BaseException:
        if fd >= 0:
            os.close(fd)
        raise
    limit = given(query.limit)
    end = None if limit is None else start + limit
    if not query.follow:
        end = total if end is None else min(total, end)
    asked = OutputRange(call.service, call.run_id, choice, start, end)
    return OutputStream(asked, fd, found, follow=query.follow, framed=framed)


def _headers(start: int, end: int | None, *, complete: bool) -> dict[str, str]:
    headers = {START: str(start), "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
    if end is not None:
        headers |= {NEXT: str(end), COMPLETE: str(complete).lower()}
    return headers


class OutputRange(msgspec.Struct, frozen=True):
    """The range to send; when `end` is None, the range lasts to the end of the run."""

    service: Service
    run_id: str
    choice: OutputChoice
    start: int
    end: int | None


class OutputStream(Response):
    """The response that sends pieces as fast as the client reads; it owns the journal's descriptor."""

    def __init__(self, asked: OutputRange, fd: int, found: OutputMap, *, follow: bool, framed: bool) -> None:
        self._asked = asked
        self._fd = fd
        self._map = found
        self._follow = follow
        self._framed = framed
        complete = not follow and found.ended and asked.end == found.total(asked.choice)
        headers = _headers(asked.start, None if follow else asked.end, complete=complete)
        super().__init__(headers=headers, media_type=FRAMES if framed else BYTES)
        del self.headers["content-length"]
        if not follow and not framed and asked.end is not None and not found.has_gaps:
            self.headers["content-length"] = str(asked.end - asked.start)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = asyncio.ensure_future(self._send_all(scope, send))
        leaving = asyncio.ensure_future(_left(receive))
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
        finally:
            for task in (sending, leaving):
                task.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1

    async def _send_all(self, scope: Scope, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        if scope["method"] != "HEAD":
            async for data in self._data():
                try:
                    async with asyncio.timeout(STALLED_S):
                        await send({"type": "http.response.body", "body": data, "more_body": True})
                except TimeoutError:
                    scope.get("state", {}).get(ABORT, lambda: None)()
                    return
        await send({"type": "http.response.body", "body": b""})

    async def _data(self) -> AsyncIterator[bytes]:
        async for pieces in self._pieces():
            if self._framed:
                yield b"".join(self._frame(piece) for piece in pieces)
            elif pieces:
                yield b"".join(piece.chunk.data for piece in pieces)

    async def _pieces(self) -> AsyncIterator[list[OutputPiece]]:
        asked, more = self._asked, True
        if self._fd < 0:
            await self._until_started()
        if self._fd < 0 or asked.end == asked.start:
            return
        place = self._map.mark_before(asked.choice, asked.start)
        reader = RangeReader(self._fd, asked.run_id, asked.choice, place)
        while True:
            while not self._has_all(reader):
                pieces = await asyncio.to_thread(reader.read, asked.start, asked.end)
                if pieces is None:
                    break
                yield pieces
            if not (self._follow and more) or self._has_all(reader) or reader.reader.ended:
                return
            # `more` is False when nothing more will be written. The bytes written before that must still be read.
            more = await asked.service.output_wait(asked.run_id, reader.reader.position)

    def _has_all(self, reader: RangeReader) -> bool:
        return reader.is_fenced or (self._asked.end is not None and reader.offset >= self._asked.end)

    async def _until_started(self) -> None:
        """Wait until the run has a journal, which a run that ends in the queue gets, too; or until the daemon stops."""
        asked = self._asked
        while self._fd < 0 and await asked.service.output_wait(asked.run_id, 0):
            self._fd = asked.service.journal(asked.run_id)
        if self._fd < 0:
            self._fd = asked.service.journal(asked.run_id)
        if self._fd >= 0:
            await asyncio.to_thread(self._map.extend, self._fd)

    def _frame(self, piece: OutputPiece) -> bytes:
        offset_ns = self._map.wall_offset_ns
        chunk = piece.chunk
        at = None if offset_ns is None else format_timestamp(chunk.at_ns + offset_ns)
        frame = OutputFrame(chunk.stream, piece.offset, at, chunk.late, chunk.data, piece.missing_bytes)
        return msgspec.json.encode(frame) + b"\n"


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


_COUNT = {"type": "integer", "minimum": 0}
OPERATIONS = (
    Operation(
        "GET",
        "/v1/runs/{run_id}/output",
        output,
        "Read the output of a run: a range, all of it, or following it live.",
        query=OutputQuery,
        gives=(BYTES, FRAMES),
        errors=(416,),
        returns=(
            Header(START, "The offset at which the answer begins.", _COUNT),
            Header(NEXT, "The offset to continue at; absent with `follow`.", _COUNT),
            Header(COMPLETE, "Whether the output ends here for good.", {"type": "string", "enum": ["true", "false"]}),
        ),
    ),
)
