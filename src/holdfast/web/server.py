"""Web server: serves an application on listening sockets, each with a connection pool of its own.

uvicorn speaks HTTP; accepting connections is ours. uvicorn accepts every connection there is, from all listeners alike,
until no descriptor is left. Here a connection gets a place in the pool of its listener first, or is closed at once. A
listener that gets no descriptor pauses for a moment: its socket stays readable, and asking again at once would keep the
event loop busy. uvicorn's handling of signals is not used: the caller decides when to close.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Literal

import uvicorn

from .connection import Connection
from .problems import TOO_MANY, raw_response

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

    from starlette.types import ASGIApp

    from .connection_pool import ConnectionPool

BACKLOG = 2048
_AT_ONCE = 64  # connections that one turn of the event loop accepts from one listener
_PAUSE_S = 0.1


class WebServer:
    """A server of bound sockets that listen. `start`, then `close`, which closes the sockets, too."""

    def __init__(
        self,
        app: ASGIApp,
        listeners: Sequence[tuple[socket.socket, ConnectionPool]],
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
        self._acceptors = [_Acceptor(self._server, *listener) for listener in self._listeners]

    async def close(self) -> None:
        """Take no more requests; answers that have begun get a moment to end."""
        for acceptor in self._acceptors:
            acceptor.close()
        if self._ticking is not None:
            self._server.should_exit = True
            self._ticking.cancel()  # it would see should_exit by itself, a tenth of a second later
            await asyncio.gather(self._ticking, return_exceptions=True)
            await self._server.shutdown(sockets=[])
        for bound, _ in self._listeners:
            bound.close()


class _Acceptor:
    """Accepts the connections of one listener."""

    def __init__(self, server: uvicorn.Server, listening: socket.socket, pool: ConnectionPool) -> None:
        self._server = server
        self._listening = listening
        self._pool = pool
        self._loop = asyncio.get_running_loop()
        self._pausing: asyncio.TimerHandle | None = None
        self._beginning: set[asyncio.Task[None]] = set()
        listening.setblocking(False)
        self._resume()

    def close(self) -> None:
        """Accept no more connections."""
        self._loop.remove_reader(self._listening)
        if self._pausing is not None:
            self._pausing.cancel()
        for task in self._beginning:
            task.cancel()

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
                task = self._loop.create_task(self._begin(connected))
                self._beginning.add(task)
                task.add_done_callback(self._beginning.discard)
            else:
                _refuse(connected)

    async def _begin(self, connected: socket.socket) -> None:
        server, made = self._server, False

        def make() -> Connection:
            nonlocal made
            made = True
            return Connection(server.config, server.server_state, server.lifespan.state, pool=self._pool)

        connected.setblocking(False)
        try:
            await self._loop.connect_accepted_socket(make, connected)
        except OSError:
            pass  # the client is gone already
        finally:
            if not made:
                connected.close()
                self._pool.leave()


def _refuse(connected: socket.socket) -> None:
    """Say that there is no room, if that can be said without waiting, and close."""
    try:
        connected.setblocking(False)
        connected.send(raw_response(TOO_MANY, "there is no room for another connection", "come again later"))
    except OSError:
        pass  # the client is gone
    connected.close()
