"""Event stream: `GET /v1/events` sends the event log as server-sent events.

One task writes to the client, and it is the only task that waits for the client. A second task notices when the client
disconnects. When the log ends the stream (the client was too slow, or the daemon stops), the writer may be stuck with a
client that reads nothing. The connection is then cut after a while: a normal close would wait for that client, and
uvicorn's shutdown would wait with it.

Why this is not a library's response: see docs/decisions/0010-event-streams.md.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from ....access.caller import caller_of
from ....values.errors import SpecError
from ....web.request_connection import ABORT
from ...events.event import TYPES, EventFilter
from ..access.run_access import narrowed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

    from ...events.subscription import Subscription
    from ...service.service import Service

_HELLO = b"retry: 1000\n: events\nid: %d\n\n"  # with the id, a client can resume even without a first event
_LINGER_S = 1.0  # how long a client may take to read the end of the stream
_KNOWN = ("after", "run_id", "session", "types", "output", "late")
_SWITCH = {"1": True, "true": True, "0": False, "false": False}
_MOST = 100  # values per parameter
_LONGEST_NUMBER = 400  # digits; a number above all our ids is accepted, as the id of another log


def routes(service: Service) -> list[BaseRoute]:
    """The route of the event stream."""

    async def events(request: Request) -> Response:
        after, event_filter = read_query(request)
        event_filter = event_filter._replace(session=narrowed(caller_of(request.scope), event_filter.session))
        if request.method == "HEAD":
            return Response(headers=EventStream.HEADERS, media_type=EventStream.media_type)
        return EventStream(service.subscribe(after, event_filter))

    return [Route("/v1/events", events, methods=["GET"])]


def read_query(request: Request) -> tuple[int | None, EventFilter]:
    """The id of the event to start after (None: only new events), and the filter. SpecError: a wrong parameter."""
    query = request.query_params
    for name in query:
        if name not in _KNOWN:
            raise SpecError(f"there is no parameter {name!r}", field=name, remedy=f"these are: {', '.join(_KNOWN)}")
    run_ids, types = _several("run_id", query.getlist("run_id")), _several("types", query.getlist("types"))
    if unknown := sorted((types or frozenset()) - set(TYPES)):
        raise SpecError(f"there is no event {unknown[0]!r}", field="types", remedy=f"these are: {', '.join(TYPES)}")
    event_filter = EventFilter(
        run_ids=run_ids,
        session=query.get("session"),
        types=types,
        output=_switch("output", query.get("output", "0")),
        late=_switch("late", query.get("late", "0")),
    )
    # A browser that reconnects sends the header and its first URL: the header is newer.
    if header := request.headers.get("last-event-id"):
        return _number("Last-Event-ID", header), event_filter
    return _number("after", query.get("after")), event_filter


def _several(name: str, given: Iterable[str]) -> frozenset[str] | None:
    values = frozenset(value for text in given for value in text.split(",") if value)
    if len(values) > _MOST:
        raise SpecError(
            f"more than {_MOST} values", field=name, remedy="leave it out, and filter the events in the client"
        )
    return values or None


def _switch(name: str, text: str) -> bool:
    if text not in _SWITCH:
        raise SpecError(f"{text[:40]!r} is neither 0 nor 1", field=name, remedy="give 1 or leave it out")
    return _SWITCH[text]


def _number(name: str, text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= _LONGEST_NUMBER):
        raise SpecError(
            f"{text[:40]!r} is no event id",
            field=name,
            remedy="give the id of the last event you received, or leave it out",
        )
    return int(text)


class EventStream(Response):
    """The response that sends the events of one subscription, until the client or the daemon ends it."""

    media_type = "text/event-stream"
    HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no", "connection": "close"}  # noqa: RUF012

    def __init__(self, subscription: Subscription) -> None:
        self.status_code = 200
        self.background = None
        self.init_headers(self.HEADERS)
        self.subscription = subscription

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until the client disconnects or the log ends the subscription."""
        subscription = self.subscription
        subscription.on_end = _cutter(scope)
        watcher = asyncio.create_task(_watch(receive, subscription))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await send({"type": "http.response.body", "body": _HELLO % subscription.position, "more_body": True})
            async for batch in subscription:
                frames = batch[0].frame if len(batch) == 1 else b"".join([event.frame for event in batch])
                await send({"type": "http.response.body", "body": frames, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            subscription.close()
            watcher.cancel()


async def _watch(receive: Receive, subscription: Subscription) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    subscription.close()


def _cutter(scope: Scope) -> Callable[[], None]:
    """A function that cuts the connection after `_LINGER_S`; harmless when the connection is closed by then."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    abort: Callable[[], object] = scope.get("state", {}).get(ABORT) or (task.cancel if task else lambda: None)

    def cut_later() -> None:
        loop.call_later(_LINGER_S, abort)

    return cut_later
