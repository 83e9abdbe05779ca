"""Requests under way with a token or a session: they are cut when the token is revoked or the session ends.

The access checks look at both when a request begins. A stream may go on for days, so the daemon looks again every
second until the answer is complete. The end date of a token, a log out and the end of a session count, too.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from starlette.datastructures import Headers

from ....access.caller import CALLER
from ....values.errors import StateError
from ....web.request_connection import ABORT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from starlette.types import ASGIApp, Receive, Scope, Send

    from ....access.caller import Caller
    from ....access.tokens import TokenFile

EVERY_S = 1.0


class _Watching:
    """The looks at the caller of one request. A timer instead of a task: most answers are complete before the first."""

    def __init__(self, holds: Callable[[], bool], abort: Callable[[], None]) -> None:
        self._holds, self._abort = holds, abort
        self.timer = asyncio.get_running_loop().call_later(EVERY_S, self._look)

    def _look(self) -> None:
        if self._holds():
            self.timer = asyncio.get_running_loop().call_later(EVERY_S, self._look)
        else:
            self._abort()


class OpenRequests:
    """The middleware behind the access checks."""

    def __init__(self, app: ASGIApp, tokens: TokenFile, session_of: Callable[[Mapping[str, str]], str | None]) -> None:
        """`session_of` returns the browser session in the headers of a request, while it is valid."""
        self._app = app
        self._tokens, self._session_of = tokens, session_of

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        caller: Caller | None = scope.get("state", {}).get(CALLER)
        if caller is None or (caller.digest is None and caller.by != "session"):
            await self._app(scope, receive, send)
            return
        watching = _Watching(lambda: self._holds(caller, scope), scope["state"].get(ABORT, lambda: None))
        try:
            await self._app(scope, receive, send)
        finally:
            watching.timer.cancel()

    def _holds(self, caller: Caller, scope: Scope) -> bool:
        if caller.by == "session":
            return self._session_of(Headers(scope=scope)) is not None
        try:
            return self._tokens.holds(caller.digest or "")
        except StateError:
            return False  # new requests are refused, too
