"""HTTP operation: a method at a path with its types, from which routes and the OpenAPI document are made.

An operation names its types once. They decode the request before the handler sees it, they encode the answer, and they
describe both in the document; so the three cannot disagree.
"""

from __future__ import annotations

import asyncio
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from ....access.caller import Caller, caller_of
from ....web import request_body as bodies
from ....web.problems import INVALID, ProblemError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from starlette.requests import Request

    from ...service.service import Service

T = TypeVar("T")


class OperationCall(NamedTuple):
    """One decoded request, as a handler gets it."""

    service: Service
    request: Request
    query: Any
    body: Any

    @property
    def run_id(self) -> str:
        """The run id in the path."""
        found: str = self.request.path_params["run_id"]
        return found

    @property
    def caller(self) -> Caller:
        """The client that asks."""
        return caller_of(self.request.scope)

    async def while_connected(self, work: Coroutine[Any, Any, T]) -> T:
        """Do the work and return its result, unless the client disconnects first.

        ClientDisconnect: the work was stopped, because nobody would read the answer.
        """
        doing = asyncio.ensure_future(work)
        gone = asyncio.ensure_future(_disconnected(self.request))
        try:
            await asyncio.wait((doing, gone), return_when=asyncio.FIRST_COMPLETED)
            if not doing.done():
                raise ClientDisconnect
            return doing.result()
        finally:
            for task in (doing, gone):
                task.cancel()
            await asyncio.gather(doing, gone, return_exceptions=True)


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


class Header(NamedTuple):
    """A header of a request or an answer, as the document describes it."""

    name: str
    description: str
    schema: dict[str, Any]


class Operation(NamedTuple):
    """A method at a path: its types, its handler, and its description in the document."""

    method: str
    path: str
    handler: Callable[[OperationCall], Awaitable[Response]]
    summary: str
    answer: Any = None  # the type of the JSON answer
    status: int = 200
    also: tuple[int, ...] = ()  # other statuses with the same answer
    query: type[msgspec.Struct] | None = None
    body: type[msgspec.Struct] | None = None
    takes: tuple[str, ...] = (bodies.JSON,)
    largest: int | None = None  # the bound of the body in bytes, if it is lower than the daemon's
    gives: tuple[str, ...] = ()  # media types of an answer that is not JSON
    errors: tuple[int, ...] = ()
    sends: tuple[Header, ...] = ()
    returns: tuple[Header, ...] = ()

    async def respond(self, service: Service, request: Request, bounds: bodies.BodyBounds) -> Response:
        """Decode the request and call the handler. ProblemError, HoldfastError: the request is refused."""
        query = decode_query(request, self.query or _Nothing)
        asked = None
        if self.body is not None:
            bodies.check_media_type(request, self.takes)
            if self.largest is not None:
                bounds = bounds._replace(size=min(bounds.size, self.largest))
            data = await bodies.read(request, bounds)
            asked = data if bodies.media_type(request) == bodies.BYTES else bodies.decode(data, self.body)
        return await self.handler(OperationCall(service, request, query, asked))


class _Nothing(msgspec.Struct, forbid_unknown_fields=True):
    """No parameters."""


def decode_query(request: Request, wanted: type[msgspec.Struct]) -> Any:
    """Decode the query parameters. Only a parameter with a list type may be repeated. ProblemError 422."""
    given: dict[str, Any] = {}
    for name, value in request.query_params.multi_items():
        if name in list_fields(wanted):
            given.setdefault(name, []).append(value)
        elif name in given:
            raise ProblemError(INVALID, f"the parameter {name[:80]!r} was given twice", field=name[:80])
        else:
            given[name] = value
    try:
        return msgspec.convert(given, wanted, strict=False)
    except msgspec.ValidationError as error:
        raise bodies.invalid(error) from None


@cache
def list_fields(wanted: type[msgspec.Struct]) -> frozenset[str]:
    """The names of the fields with a list type."""
    kinds = {field.name: msgspec.inspect.type_info(field.type) for field in msgspec.structs.fields(wanted)}
    return frozenset(name for name, kind in kinds.items() if isinstance(kind, msgspec.inspect.ListType))


def answer(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Answer with a value as JSON. It describes one moment, so caches may not keep it."""
    return Response(msgspec.json.encode(value), status, {"Cache-Control": "no-store", **(headers or {})}, bodies.JSON)
