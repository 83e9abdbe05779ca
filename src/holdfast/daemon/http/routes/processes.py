"""Resource use of live runs, as a snapshot or a stream; the process tree of one run."""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta
from starlette.responses import StreamingResponse

from ....values.timestamps import format_timestamp
from ...service.process_tree import tree_of
from ..access.run_access import sees
from ..wire.operation import Operation, OperationCall, answer
from ..wire.types import Time

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.responses import Response

STREAM = "text/event-stream"


class RunNow(msgspec.Struct):
    """Resource use of a live run; null where it is unknown. `idle_at`: when the idle timeout ends a silent run."""

    run_id: str
    state: str
    processes: int
    cpu_percent: float | None
    rss_bytes: int | None
    output_bytes: int
    output_rate: Annotated[float | None, Meta(description="bytes per second since the previous sample")]
    ports: list[int] | None
    waiting_for_input: bool | None
    timeout_s: float | None
    deadline_at: Time | None
    idle_timeout_s: float | None
    idle_at: Time | None


class LiveUsage(msgspec.Struct):
    """Every live run of the state directory, including runs of other owners."""

    at: Time
    runs: list[RunNow]


class NowQuery(msgspec.Struct, forbid_unknown_fields=True):
    """How often the stream sends a snapshot."""

    every_s: Annotated[float, Meta(ge=0.5, le=3600)] = 1.0


class Process(msgspec.Struct):
    """One process; `state` is the kernel's letter for its state."""

    pid: int
    parent_pid: int
    command: str
    state: str
    cpu_s: float
    rss_bytes: int


class ProcessTree(msgspec.Struct):
    """The processes of a run now, parents before their children; empty when the run is queued or over."""

    run_id: str
    guard_pid: int | None
    processes: list[Process]


async def now(call: OperationCall) -> Response:
    """A snapshot; or, for a client that accepts text/event-stream, a stream of `processes` events."""
    if STREAM in call.request.headers.get("accept", ""):
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", "Connection": "close"}
        frames = _frames(call, call.query.every_s)
        return StreamingResponse(frames, headers=headers, media_type=STREAM)
    return answer(await _look(call))


async def _frames(call: OperationCall, every_s: float) -> AsyncIterator[bytes]:
    goes_on = True
    while goes_on:
        yield b"event: processes\ndata: %s\n\n" % msgspec.json.encode(await _look(call))
        goes_on = await call.service.pause(every_s)


async def _look(call: OperationCall) -> LiveUsage:
    found = await call.service.usage()
    if call.caller.session is not None:
        found = [one for one in found if await sees(call.service, call.caller, one["run_id"])]
    return LiveUsage(format_timestamp(time.time_ns()), msgspec.convert(found, list[RunNow]))


async def tree(call: OperationCall) -> Response:
    """The process tree of a run."""
    report = await call.service.report(call.run_id)
    started = next((fact for fact in report["evidence"] if fact["fact"] == "started"), None)
    is_here = report["host"] in (None, os.uname().nodename)  # else its PIDs are another host's
    guard_pid = None if started is None or report["state"] == "settled" or not is_here else int(started["guard_pid"])
    found = [] if guard_pid is None else await asyncio.to_thread(tree_of, guard_pid)
    return answer(ProcessTree(call.run_id, guard_pid, msgspec.convert(found, list[Process])))


OPERATIONS = (
    Operation(
        "GET",
        "/v1/processes",
        now,
        "The resources that live runs use now, and their deadlines; also as a stream.",
        LiveUsage,
        query=NowQuery,
        gives=(STREAM,),
        errors=(503,),
    ),
    Operation("GET", "/v1/runs/{run_id}/processes", tree, "The process tree of a run now.", ProcessTree),
)
