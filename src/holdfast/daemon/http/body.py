"""The body of a request: read within two bounds, bytes and time, and decoded into the type its route wants.

The bounds hold whatever Content-Length says: it is believed when it is too large, and not needed otherwise. A refused
body is left unread and its connection closed, so nobody is kept busy by bytes that nobody wants.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from starlette.requests import ClientDisconnect

from .problems import INVALID, MALFORMED, NOT_JSON, TOO_LARGE, TOO_SLOW, ProblemError

if TYPE_CHECKING:
    from starlette.requests import Request

JSON = "application/json"
BYTES = "application/octet-stream"
_CLOSE = {"Connection": "close"}


class Bounds(NamedTuple):
    """How much of a body is read, and for how long."""

    size: int
    within_s: float


async def read(request: Request, bounds: Bounds) -> bytes:
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
        raise ProblemError(TOO_SLOW, detail, remedy="send it faster, or less of it", headers=_CLOSE) from None
    except ClientDisconnect:
        raise ProblemError(MALFORMED, "the request ended before its body did", headers=_CLOSE) from None
    return b"".join(parts)


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
        raise ProblemError(NOT_JSON, f"this takes {' or '.join(taken)}, not {what}", headers=_CLOSE)


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


def _too_large(bounds: Bounds) -> ProblemError:
    return ProblemError(
        TOO_LARGE,
        f"the body has more than {bounds.size} bytes",
        remedy="pass large data through files; the daemon's limit is request_bytes",
        headers=_CLOSE,
    )
