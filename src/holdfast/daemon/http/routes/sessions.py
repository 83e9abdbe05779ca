"""Sessions over HTTP: list them, close one, open it again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ..wire.operation import Operation, OperationCall, answer
from ..wire.types import Closing, Opening, Session, SessionList, Stop

if TYPE_CHECKING:
    from starlette.responses import Response


async def listing(call: OperationCall) -> Response:
    """List every session."""
    found, only = await call.service.sessions(), call.caller.session
    shown = [one for one in found if only in (None, one["name"])]
    return answer(SessionList(msgspec.convert(shown, list[Session])))


async def close(call: OperationCall) -> Response:
    """Close a session and end its runs; answers when each run has ended or its time is up. May be repeated."""
    asked: Stop = call.query
    name: str = call.request.path_params["session"]
    found = await call.service.close_session(name, reason=asked.reason, now=asked.now, grace_s=asked.grace_s)
    return answer(msgspec.convert(found, Closing))


async def open_again(call: OperationCall) -> Response:
    """Open a closed session: it takes runs again. May be repeated; 409 while runs of the session are live."""
    found = await call.service.open_session(call.request.path_params["session"])
    return answer(msgspec.convert(found, Opening))


OPERATIONS = (
    Operation("GET", "/v1/sessions", listing, "List sessions.", SessionList, errors=(503,)),
    Operation(
        "DELETE",
        "/v1/sessions/{session}",
        close,
        "Close a session: it accepts no more runs until it is opened again, and its runs are ended.",
        Closing,
        query=Stop,
        errors=(404, 503),
    ),
    Operation(
        "POST",
        "/v1/sessions/{session}/open",
        open_again,
        "Open a closed session: it accepts runs again.",
        Opening,
        errors=(404, 409, 503),
    ),
)
