"""Streamable HTTP on the loopback interface: uvicorn under our signals, with a token."""

from __future__ import annotations

import socket
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import anyio
import uvicorn

from ..errors import HoldfastError
from .token import RequireToken, read_token

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp.server.mcpserver import MCPServer

_CONNECTIONS_S = 2


class HttpTransport:
    """Listens from the moment it is made. HoldfastError: the address cannot be used. StateError: the token cannot."""

    def __init__(self, address: tuple[str, int], token_file: str) -> None:
        self._host = address[0]
        self._token_file = token_file
        self._token = read_token(token_file)
        self._listener = _listen(address)

    @property
    def url(self) -> str:
        """Where the server answers."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._listener.getsockname()[1]}/mcp"

    async def __call__(self, server: MCPServer, stop: anyio.Event) -> None:
        """Serve until `stop`; calls that are waiting then get a moment, and are cancelled."""
        app = RequireToken(server.streamable_http_app(host=self._host), self._token)
        config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=_CONNECTIONS_S, access_log=False)
        serving = _Serving(config)

        async def end_at_stop() -> None:
            await stop.wait()
            serving.should_exit = True

        # Connections are accepted already; what comes early waits until the first line of code below runs.
        print(f"holdfast mcp: {self.url}, bearer token in {self._token_file}", file=sys.stderr, flush=True)  # noqa: T201
        async with anyio.create_task_group() as group:
            group.start_soon(end_at_stop)
            with self._listener:
                await serving.serve([self._listener])
            group.cancel_scope.cancel()


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
