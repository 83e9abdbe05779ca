"""One connection: uvicorn's protocol with three bounds more.

Who is at the other end, how long a request's head may take, and refusals that are problem JSON like all others. uvicorn
has no limit for the time until the head of a request is whole: a client that sends a byte a minute keeps its descriptor
for ever. The body's limit is in `body.py`: by then there is a route that knows how much it wants.
"""

from __future__ import annotations

import os
import socket
import struct
from typing import TYPE_CHECKING, Any

import h11
import msgspec
from uvicorn.protocols.http.h11_impl import H11Protocol

from .problems import MALFORMED, MEDIA_TYPE, PREFIX, Problem

if TYPE_CHECKING:
    import asyncio

HEAD_S = 10.0  # unless the application says otherwise, in `state.head_s`
ABORT = "holdfast.abort"  # in the state of each request's scope: cuts the connection, whatever is still to be sent
CROWDED = "holdfast.crowded"  # there, too: this one came when there were too many
_PEER = struct.Struct("iII")


class Connection(H11Protocol):
    """Give it to uvicorn as `http=Connection`."""

    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Close at once when another user is at the other end; root may do what it wants anyway."""
        super().connection_made(transport)
        connected: socket.socket | None = transport.get_extra_info("socket")
        if connected is not None and connected.family != socket.AF_UNIX:
            # asyncio does this only for sockets whose protocol was named when they were made. Without it, the second
            # write of every answer waits for the client's delayed acknowledgement of the first: 44 ms instead of one.
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # uvicorn's own answer to too many is plain text, and goes to those who were there first as well.
        most, self.limit_concurrency = self.limit_concurrency, None
        crowded = most is not None and len(self.connections) > most
        self.app_state = {**self.app_state, ABORT: transport.abort, CROWDED: crowded}
        if (uid := peer_uid(connected)) is not None and uid not in (os.geteuid(), 0):
            self.logger.warning("refused user %d on the Unix socket", uid)
            transport.abort()
            return
        self._arm()

    def data_received(self, data: bytes) -> None:
        """A head has begun, and has to be whole in time; what follows it is the route's."""
        if self._head_timer is None and self.conn.their_state is h11.IDLE:
            self._arm()
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._disarm()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is left of it."""
        self._disarm()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP gets the same kind of answer as everything else that is wrong."""
        problem = Problem(PREFIX + MALFORMED.word, MALFORMED.title, 400, msg)
        headers = [("content-type", MEDIA_TYPE), ("connection", "close")]
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            events: tuple[Any, ...] = (
                h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
                h11.Data(data=msgspec.json.encode(problem)),
                h11.EndOfMessage(),
            )
            for event in events:
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _arm(self) -> None:
        # The application is all that uvicorn hands on to its connections.
        within_s = getattr(getattr(self.app, "state", None), "head_s", HEAD_S)
        self._head_timer = self.loop.call_later(within_s, self._too_slow)

    def _disarm(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _too_slow(self) -> None:
        self._head_timer = None
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self.transport.abort()


def peer_uid(connected: socket.socket | None) -> int | None:
    """The user at the other end of a Unix socket, from the kernel; None for other sockets."""
    if connected is None or connected.family != socket.AF_UNIX:
        return None
    raw = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    uid: int = _PEER.unpack(raw)[1]
    return uid
