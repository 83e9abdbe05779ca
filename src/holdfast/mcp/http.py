"""Streamable HTTP on the loopback interface: uvicorn under our signals, behind the same walls as the daemon."""

from __future__ import annotations

import os
import socket
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import anyio
import uvicorn

from ..state.token import TOKEN_FILE, load_token
from ..values.errors import HoldfastError
from ..web.problems import ProblemError, ProblemKind, respond
from ..web.walls import TokenPolicy, Walls

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp.server.mcpserver import MCPServer
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from ..state.directory import StateDirectory

_LAST_ANSWERS_S = 2
_STOPPING = ProblemKind(503, "draining", "The server is stopping")


class HttpTransport:
    """Listens from the moment it is made. HoldfastError: the address cannot be used. StateError: the token cannot."""

    def __init__(self, address: tuple[str, int], state: StateDirectory) -> None:
        self._host = address[0]
        self._token_file = os.path.join(state.path, TOKEN_FILE)
        self._policy = TokenPolicy.of(load_token(state.path), [self._host])
        self._listener = _listen(address)

    @property
    def url(self) -> str:
        """Where the server answers."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._listener.getsockname()[1]}/mcp"

    async def __call__(self, server: MCPServer, stop: anyio.Event) -> None:
        """Serve until `stop`; every request then has a moment to be answered, and its answer an end."""
        answers = _Answers(server.streamable_http_app(host=self._host))
        app = Walls(answers, self._policy)
        # By name: uvicorn would take the faster parser where it is installed, and that one has no bound for a head.
        config = uvicorn.Config(
            app,
            http="h11",
            ws="none",
            log_level="warning",
            timeout_graceful_shutdown=2 * _LAST_ANSWERS_S,
            access_log=False,
        )
        serving = _Serving(config)

        async def end_at_stop() -> None:
            await stop.wait()
            answers.end()
            serving.should_exit = True

        # Connections are accepted already; what comes early waits until the first line of code below runs.
        print(f"holdfast mcp: {self.url}, bearer token in {self._token_file}", file=sys.stderr, flush=True)  # noqa: T201
        async with anyio.create_task_group() as group:
            group.start_soon(end_at_stop)
            with self._listener:
                await serving.serve([self._listener])
            group.cancel_scope.cancel()


class _Answers:
    """Gives every answer an end, also where the server stops before the protocol has one for it.

    Waiting calls are answered by themselves. What else is open then is a stream a client listens to, which nothing
    would end, or a request that has not arrived. uvicorn would cancel those, and leave them as torn as its log.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._open: dict[anyio.CancelScope, float] = {}
        self._ending: float | None = None

    def end(self) -> None:
        """The server stops: streams end now, and what may be a call in a moment."""
        self._ending = anyio.current_time()
        for scope, moment in self._open.items():
            scope.deadline = self._ending + moment

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        more: bool | None = None  # None: the answer has not begun

        async def watched(message: Message) -> None:
            nonlocal more
            more = message.get("more_body", False) or message["type"] == "http.response.start"
            await send(message)

        with self._bounded(0 if scope["method"] == "GET" else _LAST_ANSWERS_S):
            await self._app(scope, receive, watched)
        if more is None:
            await respond(ProblemError(_STOPPING, remedy="ask again when it is back"))(scope, receive, send)
        elif more:
            await send({"type": "http.response.body"})

    @contextmanager
    def _bounded(self, moment: float) -> Iterator[None]:
        with anyio.CancelScope() as scope:
            self._open[scope] = moment
            if self._ending is not None:
                scope.deadline = self._ending + moment
            try:
                yield
            finally:
                del self._open[scope]


class _Serving(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Not its business: the runs have to be ended, too."""
        yield


def _listen(address: tuple[str, int]) -> socket.socket:
    listener = socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(128)
    except OSError as error:
        listener.close()
        where = f"{address[0]}:{address[1]}"
        raise HoldfastError(f"cannot listen on {where}: {error.strerror}", remedy="choose another port") from None
    return listener
