"""Streamable HTTP transport of the MCP server on the loopback interface, on the daemon's web server.

`web/` has everything that stands between a stranger and the protocol: the access checks (`access_checks.py`), the
bounds of a head (`connection.py`), and of connections, descriptors and bytes (`connection_pool.py`, `server.py`).
"""

from __future__ import annotations

import os
import socket
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import anyio

from ..runs.descriptor_limit import DescriptorReserve, raise_descriptor_limit
from ..state.token import TOKEN_FILE, load_token
from ..values.errors import HoldfastError
from ..web.access_checks import AccessChecks, TokenPolicy
from ..web.connection_pool import ConnectionPool
from ..web.problems import ProblemError, ProblemKind, respond
from ..web.server import BACKLOG, ListeningSocket, WebServer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp.server.mcpserver import MCPServer
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from ..state.directory import StateDirectory

_LAST_ANSWERS_S = 2
_MOST_CONNECTIONS = 1024
_STOPPING = ProblemKind(503, "draining", "The server is stopping")


class HttpTransport:
    """Listens as soon as it is made. HoldfastError: the address is not usable. StateError: the token is not usable."""

    def __init__(self, address: tuple[str, int], state: StateDirectory, max_runs: int) -> None:
        self._host = address[0]
        self._reserve = DescriptorReserve.of(raise_descriptor_limit(), max_runs)
        self._token_file = os.path.join(state.path, TOKEN_FILE)
        self._policy = TokenPolicy.of(load_token(state.path), [self._host])
        self._listener = _listen(address)

    @property
    def url(self) -> str:
        """The URL of the server."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._listener.getsockname()[1]}/mcp"

    async def __call__(self, server: MCPServer, stop: anyio.Event) -> None:
        """Serve until `stop`; then every open request has a short time to be answered, and every answer ends."""
        answers = _EndedAnswers(server.streamable_http_app(host=self._host))
        pool = ConnectionPool(_MOST_CONNECTIONS, name=self.url, number_bound=self._reserve.stranger_bound)
        web = WebServer(
            AccessChecks(answers, self._policy),
            [ListeningSocket(self._listener, pool)],
            last_answers_s=2 * _LAST_ANSWERS_S,
            lifespan="on",
        )
        # The socket listens already: a connection that comes early waits until the server below accepts it.
        print(f"holdfast mcp: {self.url}, bearer token in {self._token_file}", file=sys.stderr, flush=True)  # noqa: T201
        await web.start()
        try:
            await stop.wait()
            answers.end()
        finally:
            with anyio.CancelScope(shield=True):
                await web.close()


class _EndedAnswers:
    """Ends every answer properly when the server stops.

    Waiting calls are answered by the tools. The other open requests are streams that a client listens to, which would
    never end, or requests that have not arrived completely. uvicorn would cancel both in the middle of an answer.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._open: dict[anyio.CancelScope, float] = {}
        self._ending: float | None = None

    def end(self) -> None:
        """The server stops: end streams now, and other requests after `_LAST_ANSWERS_S`."""
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


def _listen(address: tuple[str, int]) -> socket.socket:
    listener = socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        where = f"{address[0]}:{address[1]}"
        raise HoldfastError(f"cannot listen on {where}: {error.strerror}", remedy="choose another port") from None
    return listener
