"""Request body: read within a size limit and a time limit, then decoded into the type of its route.

The limits hold whatever Content-Length says: a length above the limit is refused at once, and a smaller one is not
trusted. When a request is refused before its body was read, the server takes in a little more of it, answers, and
closes the connection (`leave_unread`).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from starlette.requests import ClientDisconnect

from .problems import CLOSE, INVALID, MALFORMED, TOO_LARGE, TOO_SLOW, WRONG_TYPE, ProblemError

if TYPE_CHECKING:
    from starlette.requests import Request

JSON = "application/json"
BYTES = "application/octet-stream"
_UNREAD_BYTES = 1 << 20
_LARGEST_INTEGER = 2.0**63
_UNREAD_S = 0.5


class BodyBounds(NamedTuple):
    """The limits of a body: its size in bytes, and the time within which it must arrive."""

    size: int
    within_s: float


async def read(request: Request, bounds: BodyBounds) -> bytes:
    """Read the whole body. ProblemError: 413 too large, 408 too slow, 400 when it ends too early."""
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
    """Receive and drop the part of a refused body that is already on its way, within bounds.

    A client that is still sending when the connection is closed sees a broken pipe; many never read the answer then.
    """
    headers = request.headers
    has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
    if not has_body or "expect" in headers:  # with Expect, the client sends nothing before our go-ahead
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
    """The media type in Content-Type, without parameters; empty when the client sent none."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def check_media_type(request: Request, taken: tuple[str, ...]) -> None:
    """Refuse a body of another media type: ProblemError 415.

    A body without a type is refused, too: a page of another site can make a browser send one without a preflight.
    """
    headers, found = request.headers, media_type(request)
    is_empty = headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers
    if found not in taken and (found or not is_empty):
        what = found[:80] or "a body without a type"
        raise ProblemError(WRONG_TYPE, f"this path takes {' or '.join(taken)}, not {what}", unread=True)


def decode(data: bytes, wanted: type[Any]) -> Any:
    """Decode JSON; an empty body is an empty object. ProblemError: 400 not JSON, 422 not of this type.

    An integer may be written as 1.0 or 1e3: JSON Schema, in which we describe our types, makes no difference.
    """
    try:
        return msgspec.json.decode(data or b"{}", type=wanted)
    except msgspec.ValidationError as error:
        try:
            return msgspec.convert(_with_integers(msgspec.json.decode(data)), wanted)
        except (msgspec.MsgspecError, RecursionError):
            raise invalid(error) from None
    except msgspec.DecodeError as error:
        raise ProblemError(MALFORMED, f"the body is not JSON: {error}", remedy="send one JSON object") from None
    except UnicodeDecodeError:
        raise ProblemError(MALFORMED, "the body is not UTF-8", remedy="send one JSON object in UTF-8") from None
    except RecursionError:
        raise ProblemError(MALFORMED, "the body is nested too deeply", remedy="use at most two levels") from None


def _with_integers(value: Any) -> Any:
    """The value with an integer in the place of each number that is one."""
    if isinstance(value, float) and value.is_integer() and abs(value) < _LARGEST_INTEGER:
        return int(value)
    if isinstance(value, dict):
        return {name: _with_integers(item) for name, item in value.items()}
    return [_with_integers(item) for item in value] if isinstance(value, list) else value


def invalid(error: msgspec.ValidationError, remedy: str = "see /openapi.json for the types") -> ProblemError:
    """The 422 for a value of the wrong type: `field` is the name of the field, without any index."""
    what, _, place = str(error).partition(" - at `$")
    place = place.rstrip("`").lstrip(".")
    field = place.split(".")[0].split("[")[0] or None
    return ProblemError(INVALID, f"{place}: {what}" if place else what, field=field, remedy=remedy)


def _too_large(bounds: BodyBounds) -> ProblemError:
    return ProblemError(
        TOO_LARGE,
        f"the body has more than {bounds.size} bytes",
        remedy="pass large data in files, or raise the daemon's setting request_bytes",
        unread=True,
    )
