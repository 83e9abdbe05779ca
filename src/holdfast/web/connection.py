"""One connection: uvicorn's protocol with bounds and rules of ours.

Who is at the other end, how long a request's head may take and may be, and refusals that are problem JSON like all
others. uvicorn has no limit for the time until the head of a request is whole: a client that sends a byte a minute
keeps its descriptor for ever. Its parser keeps whatever is not whole yet (a head, trailers) however much that is, and
takes an offer to upgrade for the end of HTTP on this connection. The body's limits are in `body.py`: by then there is a
route that knows how much it wants.

Several requests may come at once; they are answered one after the other. When the client goes away, all of them are
told, not only the last one.
"""

from __future__ import annotations

import os
import re
import socket
import struct
import sys
from http import HTTPStatus
from typing import TYPE_CHECKING

import httptools
import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from .problems import MALFORMED, MEDIA_TYPE, PREFIX, TOO_SLOW, Problem
from .scope import ABORT, CROWDED

if TYPE_CHECKING:
    import asyncio

    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

    from .problems import ProblemKind

HEAD_S = 10.0  # unless the application says otherwise, in `state.head_s`
LONGEST_HEAD = 64 << 10  # bytes, or a little more: what comes in one piece is looked at as a whole
_PEER = struct.Struct("iII")
_FIRST_LINE = "begin with a line like `GET /v1/runs HTTP/1.1`, the method in capitals; no TLS or HTTP/2 is spoken here"
_WHOLE = f"send HTTP/1.1, with one Host and a head of at most {LONGEST_HEAD} bytes"
_OFFER = re.compile(rb"\r\nupgrade:[^\r\n]*", re.IGNORECASE)


class Connection(HttpToolsProtocol):
    """Give it to uvicorn as `http=Connection`."""

    _head_timer: asyncio.TimerHandle | None = None
    _pending = 0  # bytes that have come since anything was whole: a head, a piece of a body, a request
    _is_past_head = False
    _is_refused = False  # what else comes is not looked at
    _asked: tuple[RequestResponseCycle, ...] = ()  # requests; the first that is not answered is the one at work

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
        """What comes while nothing is answered has to become a whole head in time; a request's body is the route's."""
        if self._is_refused:
            return
        if self._head_timer is None and (self.cycle is None or self.cycle.response_complete):
            self._arm()
        if not self._pending and not self._is_past_head:
            # We speak nothing else, so an offer is left alone. The parser would give a request that makes one no body.
            head, end, rest = data.partition(b"\r\n\r\n")
            data = _OFFER.sub(b"", head) + end + rest
        self._pending += len(data)
        super().data_received(data)
        if self._pending > LONGEST_HEAD and not self._is_refused:
            self.send_400_response(f"more than {LONGEST_HEAD} bytes, and the head is not whole")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Trailers come here, too: they are nothing that a route or a wall should take for the head."""
        if not self._is_past_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """A request begins. ValueError, of which the parser makes a refusal: it is not clear whom or what it asks."""
        hosts = sum(name == b"host" for name, _ in self.headers)
        if hosts > 1 or (hosts == 0 and self.parser.get_http_version() != "1.0"):
            raise ValueError("a request has one Host")
        if self.parser.should_upgrade():  # CONNECT, or an offer in a head that came in pieces
            raise ValueError("nothing but HTTP is spoken here")
        super().on_headers_complete()
        self._disarm()
        self._pending, self._is_past_head = 0, True
        self._asked = (*self._unanswered(), self.cycle)

    def on_body(self, body: bytes) -> None:
        """A piece of it."""
        self._pending = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """What comes next is a head."""
        self._pending, self._is_past_head = 0, False
        super().on_message_complete()

    def shutdown(self) -> None:
        """Close after what is being answered."""
        for cycle in self._unanswered():
            cycle.keep_alive = False
        super().shutdown()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is left of it."""
        self._disarm()
        for cycle in self._unanswered():
            cycle.disconnected = True
            cycle.message_event.set()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP gets the same kind of answer as everything else that is wrong.

        When it came behind a whole request, that one is answered, and then the connection ends.
        """
        self._is_refused = True
        unanswered = self._unanswered()
        if unanswered and not unanswered[0].more_body:
            unanswered[0].keep_alive = False
            return
        if not unanswered or not unanswered[0].response_started:
            detail, remedy = _what_is_wrong(sys.exception()) or (msg, _WHOLE)
            self._write_problem(MALFORMED, detail, remedy)
        self.transport.close()

    def _write_problem(self, kind: ProblemKind, detail: str, remedy: str) -> None:
        body = msgspec.json.encode(Problem(PREFIX + kind.word, kind.title, kind.status, detail, remedy))
        head = (
            f"HTTP/1.1 {kind.status} {HTTPStatus(kind.status).phrase}\r\ncontent-type: {MEDIA_TYPE}\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)

    def _unanswered(self) -> tuple[RequestResponseCycle, ...]:
        return tuple(cycle for cycle in self._asked if not cycle.response_complete)

    @property
    def _head_s(self) -> float:
        # The application is all that uvicorn hands on to its connections.
        within_s: float = getattr(getattr(self.app, "state", None), "head_s", HEAD_S)
        return within_s

    def _arm(self) -> None:
        self._head_timer = self.loop.call_later(self._head_s, self._too_slow)

    def _disarm(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _too_slow(self) -> None:
        self._head_timer = None
        if self.transport.is_closing():
            return
        # Who has asked nothing gets no answer: it would be taken for that to the next request.
        if self._pending and not self.transport.get_write_buffer_size():
            self._is_refused = True
            detail = f"the head of the request was not complete after {self._head_s:g} s"
            self._write_problem(TOO_SLOW, detail, "send it faster")
            if not self.transport.get_write_buffer_size():
                self.transport.close()
                return
        self.transport.abort()  # it does not read, and closing would wait for that


def _what_is_wrong(error: BaseException | None) -> tuple[str, str] | None:
    """What the parser, at work when this is asked, has against it, and what to do; None when it has nothing."""
    match error:
        case httptools.HttpParserInvalidMethodError():
            return "it does not begin with a method of HTTP", _FIRST_LINE
        case httptools.HttpParserCallbackError(__context__=ValueError() as ours):
            return str(ours), _WHOLE
        case httptools.HttpParserError():
            return f"it is no HTTP: {error}", _WHOLE
        case _:
            return None


def peer_uid(connected: socket.socket | None) -> int | None:
    """The user at the other end of a Unix socket, from the kernel; None for other sockets."""
    if connected is None or connected.family != socket.AF_UNIX:
        return None
    raw = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    uid: int = _PEER.unpack(raw)[1]
    return uid
