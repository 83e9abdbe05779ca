"""Stream of a door: sends server-sent events as they are made, until they end or the client leaves.

After a silence the stream sends a comment, so that no proxy takes a silent agent for a dead connection. A client that
reads nothing for a while is cut off, and counts as a client that left.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec
from starlette.responses import Response

from ....web.request_connection import ABORT

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable
    from typing import Any

    from starlette.types import Receive, Scope, Send

SILENT_S = 15.0
STALLED_S = 60.0
_COMMENT = b": \n\n"


def event(data: Any, type_: str | None = None) -> bytes:
    """One server-sent event as bytes."""
    head = b"" if type_ is None else b"event: %s\n" % type_.encode()
    return b"%sdata: %s\n\n" % (head, msgspec.json.encode(data))


class DoorStream(Response):
    """The response that sends events until they end; `on_leave` is called when the client leaves before that."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncGenerator[bytes], on_leave: Callable[[], Awaitable[None]] | None = None) -> None:
        super().__init__(headers={"cache-control": "no-store", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._events = events
        self._on_leave = on_leave

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events until they end or the client leaves."""
        sending = asyncio.ensure_future(self._send_all(scope, send))
        leaving = asyncio.ensure_future(_left(receive))
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
            has_left = not (sending.done() and sending.result())
        finally:
            for task in (sending, leaving):
                task.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)
            await self._events.aclose()
        if has_left and self._on_leave is not None:
            await self._on_leave()

    async def _send_all(self, scope: Scope, send: Send) -> bool:
        """Send every event; False: the client reads nothing, and its connection is cut."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        pending = asyncio.ensure_future(anext(self._events, b""))
        try:
            while True:
                await asyncio.wait((pending,), timeout=SILENT_S)
                data = pending.result() if pending.done() else _COMMENT
                if not data:
                    break
                if pending.done():
                    pending = asyncio.ensure_future(anext(self._events, b""))
                async with asyncio.timeout(STALLED_S):
                    await send({"type": "http.response.body", "body": data, "more_body": True})
        except TimeoutError:
            scope.get("state", {}).get(ABORT, lambda: None)()
            return False
        finally:
            pending.cancel()
            await asyncio.gather(pending, return_exceptions=True)
        await send({"type": "http.response.body", "body": b""})
        return True


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
