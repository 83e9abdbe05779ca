"""The body of a request: read within two bounds, bytes and time, and decoded into the type its route wants.

The bounds hold whatever Content-Length says: it is believed when it is too large, and not needed otherwise. What is
refused unread is answered after a moment and some bytes, and then the connection is closed (`leave_unread`).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from starlette.requests import ClientDisconnect

from .problems import CLOSE, INVALID, MALFORMED, NOT_JSON, TOO_LARGE, TOO_SLOW, ProblemError

if TYPE_CHECKING:
    from starlette.requests import Request

JSON = "application/json"
BYTES = "application/octet-stream"
_UNREAD_BYTES = 1 << 20
_UNREAD_S = 0.5


class BodyBounds(NamedTuple):
    """How much of a body is read, and for how long."""

    size: int
    within_s: float


async def read(request: Request, bounds: BodyBounds) -> bytes:
    """All of it. ProblemError: 413 too large, 408 too slow, 400 for one that ends too early."""
    length = request.headers.get("content-length", "0")
    if len(length) > 18 or not length.isdigit() or int(length) > bounds.size:
        raise _too_large(bounds)
    parts, size = [], 0
    try:
        async with asyncio.timeout(bounds.within_s):
            async for part in request.stream():
                size += len(part)
                if size > bounds.size:
                    raise _too_large(bounds)
                parts.append(part)
    except TimeoutError:
        detail = f"the body was not complete after {bounds.within_s:g} s"
        raise ProblemError(TOO_SLOW, detail, remedy="send it faster, or less of it", headers=CLOSE) from None
    except ClientDisconnect:
        raise ProblemError(MALFORMED, "the request ended before its body did", headers=CLOSE) from None
    return b"".join(parts)


async def leave_unread(request: Request) -> None:
    """Take in and forget what of a refused body is on its way already, within bounds.

    A client that is still sending when the connection is closed sees a broken pipe, and many never read the answer.
    """
    headers = request.headers
    has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
    if not has_body or "expect" in headers:  # that one waits for our word before it sends, and will not get it
        return
    size = 0
    try:
        async with asyncio.timeout(_UNREAD_S):
            while size < _UNREAD_BYTES:
                message = await request.receive()
                size += len(message.get("body", b""))
                if not message.get("more_body", False):
                    return
    except TimeoutError:
        pass


def media_type(request: Request) -> str:
    """The type the client says its body has, without parameters; empty when it says nothing."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def check_media_type(request: Request, taken: tuple[str, ...]) -> None:
    """ProblemError 415 when a body comes as something else.

    A body without a type counts as something else: pages from elsewhere can make browsers send those without asking.
    """
    headers, found = request.headers, media_type(request)
    is_empty = headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers
    if found not in taken and (found or not is_empty):
        what = found[:80] or "a body without a type"
        raise ProblemError(NOT_JSON, f"this takes {' or '.join(taken)}, not {what}", unread=True)


def decode(data: bytes, wanted: type[Any]) -> Any:
    """The value; an empty body is an empty object. ProblemError: 400 no JSON, 422 not of this shape."""
    try:
        return msgspec.json.decode(data or b"{}", type=wanted)
    except msgspec.ValidationError as error:
        raise invalid(error) from None
    except msgspec.DecodeError as error:
        raise ProblemError(MALFORMED, f"the body is no JSON: {error}", remedy="send one JSON object") from None
    except UnicodeDecodeError:
        raise ProblemError(MALFORMED, "the body is not UTF-8", remedy="send one JSON object in UTF-8") from None
    except RecursionError:
        raise ProblemError(MALFORMED, "the body is nested too deeply", remedy="no field needs more than two") from None


def invalid(error: msgspec.ValidationError, remedy: str = "see /openapi.json for what may be sent") -> ProblemError:
    """The problem for a value of the wrong shape: `field` is the name before any index."""
    what, _, place = str(error).partition(" - at `$")
    place = place.rstrip("`").lstrip(".")
    field = place.split(".")[0].split("[")[0] or None
    return ProblemError(INVALID, f"{place}: {what}" if place else what, field=field, remedy=remedy)


def _too_large(bounds: BodyBounds) -> ProblemError:
    return ProblemError(
        TOO_LARGE,
        f"the body has more than {bounds.size} bytes",
        remedy="pass large data through files; the daemon's limit is request_bytes",
        unread=True,
    )
