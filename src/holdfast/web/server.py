"""Web server: serves an application on listening sockets, each with a connection pool of its own.

uvicorn speaks HTTP; accepting connections is ours. uvicorn accepts every connection there is, from all listeners alike,
until no descriptor is left. Here a connection gets a place in the pool of its listener first, or is closed at once. A
listener that gets no descriptor pauses for a moment: its socket stays readable, and asking again at once would keep the
event loop busy. Until its TLS handshake is over, a connection gives way as one of a client that nobody knows, and has
as long as the head of a request. uvicorn's handling of signals is not used: the caller decides when to close.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import uvicorn

from .connection import Connection, head_bound_s
from .problems import TOO_MANY, raw_response

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

    from starlette.types import ASGIApp

    from .connection_pool import ConnectionPool
    from .tls import ServerTls

BACKLOG = 2048
_AT_ONCE = 64  # connections that one turn of the event loop accepts from one listener
_PAUSE_S = 0.1
_FAREWELL_S = 2.0  # for the client's part of the end of a TLS connection
_MOST_HANDSHAKES = 512  # of one listener at once: OpenSSL takes up to 130 KiB for each


class ListeningSocket(NamedTuple):
    """A bound socket that listens, the pool of its connections, and its TLS (None: plain TCP, or a Unix socket)."""

    socket: socket.socket
    pool: ConnectionPool
    tls: ServerTls | None = None


class WebServer:
    """A server of bound sockets that listen. `start`, then `close`, which closes the sockets, too."""

    def __init__(
        self,
        app: ASGIApp,
        listeners: Sequence[ListeningSocket],
        *,
        last_answers_s: int,
        lifespan: Literal["on", "off"] = "off",
    ) -> None:
        """`last_answers_s`: how long answers may take that are not complete when the server is closed."""
        settings = uvicorn.Config(
            app,
            http=Connection,
            ws="none",
            lifespan=lifespan,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=last_answers_s,
        )
        settings.load()
        self._listeners = listeners
        self._server = uvicorn.Server(settings)
        self._server.lifespan = settings.lifespan_class(settings)
        self._acceptors: list[_Acceptor] = []
        self._ticking: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to answer requests."""
        await self._server.startup(sockets=[])
        self._ticking = asyncio.create_task(self._server.main_loop(), name="uvicorn")
        self._acceptors = [_Acceptor(self._server, listener) for listener in self._listeners]

    def add(self, listener: ListeningSocket) -> None:
        """Answer the requests of another listener, too. The server has been started."""
        self._listeners = [*self._listeners, listener]
        self._acceptors.append(_Acceptor(self._server, listener))

    async def close(self) -> None:
        """Take no more requests; answers that have begun get a moment to end."""
        for acceptor in self._acceptors:
            acceptor.close()
        if self._ticking is not None:
            self._server.should_exit = True
            self._ticking.cancel()  # it would see should_exit by itself, a tenth of a second later
            await asyncio.gather(self._ticking, return_exceptions=True)
            await self._server.shutdown(sockets=[])
        for listener in self._listeners:
            listener.socket.close()


class _Beginning:
    """A connection that is accepted and not open yet: its TLS handshake may be under way. A member of the pool."""

    charged = 0
    connection: Connection | None = None
    task: asyncio.Task[None]

    def __init__(self, pool: ConnectionPool, connected: socket.socket) -> None:
        self.connected = connected
        self._pool = pool
        self._has_place = True

    @property
    def gives_way(self) -> bool:
        """Whether the connection is not open yet; from then on it is a member itself."""
        return self._has_place and (self.connection is None or not self.connection.is_open)

    def evict(self, _detail: str) -> None:
        """End the connection, because others need its room."""
        self._has_place = False
        self._pool.leave()
        self.task.cancel()

    def end(self) -> None:
        """Give everything back that an open connection does not need, or does not have."""
        self._pool.end(self)
        if self.connection is None:
            self.connected.close()  # otherwise its transport closes it
        if self.gives_way:
            self._has_place = False
            self._pool.leave()


class _Acceptor:
    """Accepts the connections of one listener."""

    def __init__(self, server: uvicorn.Server, listener: ListeningSocket) -> None:
        self._server = server
        self._listening, self._pool, self._tls = listener
        self._loop = asyncio.get_running_loop()
        self._pausing: asyncio.TimerHandle | None = None
        self._beginning: dict[_Beginning, None] = {}  # the oldest first
        self._listening.setblocking(False)
        self._resume()

    def close(self) -> None:
        """Accept no more connections."""
        self._loop.remove_reader(self._listening)
        if self._pausing is not None:
            self._pausing.cancel()
        for beginning in self._beginning:
            beginning.task.cancel()

    def _resume(self) -> None:
        self._pausing = None
        self._loop.add_reader(self._listening, self._accept)

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                connected, _address = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:  # no descriptor, no memory
                self._pool.note_shortage()
                self._loop.remove_reader(self._listening)
                self._pausing = self._loop.call_later(_PAUSE_S, self._resume)
                return
            if self._pool.enter(connected.fileno()):
                self._begin(connected)
            elif self._tls is None:
                _refuse(connected)
            else:
                connected.close()  # without a handshake nothing can be said

    def _begin(self, connected: socket.socket) -> None:
        # A member at once, and not when its task begins: many connections may be accepted before that.
        beginning = _Beginning(self._pool, connected)
        beginning.task = self._loop.create_task(self._open(beginning))
        beginning.task.add_done_callback(lambda _: self._end(beginning))
        self._beginning[beginning] = None
        self._pool.begin(beginning)
        if self._tls is not None and len(self._beginning) > _MOST_HANDSHAKES:
            oldest = next(iter(self._beginning))
            del self._beginning[oldest]
            if oldest.gives_way:
                oldest.evict("")

    def _end(self, beginning: _Beginning) -> None:
        self._beginning.pop(beginning, None)
        beginning.end()

    async def _open(self, beginning: _Beginning) -> None:
        def make() -> Connection:
            server = self._server
            beginning.connection = Connection(
                server.config, server.server_state, server.lifespan.state, pool=self._pool
            )
            return beginning.connection

        beginning.connected.setblocking(False)
        try:
            await self._loop.connect_accepted_socket(make, beginning.connected, **self._tls_options())
        except OSError:
            pass  # the client is gone already, or speaks no TLS, or has no certificate

    def _tls_options(self) -> dict[str, Any]:
        if self._tls is None:
            return {}
        app = self._server.config.loaded_app
        return {
            "ssl": self._tls.context(),
            "ssl_handshake_timeout": head_bound_s(app, is_crowded=self._pool.is_crowded()),
            "ssl_shutdown_timeout": _FAREWELL_S,
        }


def _refuse(connected: socket.socket) -> None:
    """Say that there is no room, if that can be said without waiting, and close."""
    try:
        connected.setblocking(False)
        connected.send(raw_response(TOO_MANY, "there is no room for another connection", "come again later"))
    except OSError:
        pass  # the client is gone
    connected.close()
