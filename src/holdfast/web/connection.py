"""HTTP connection: uvicorn's protocol class with limits on the head of a request and a check of the peer.

It adds to uvicorn: a check of the user at the other end of a Unix socket; a limit on the size of a request's head and
on the time until it is complete; and refusals as problem JSON. uvicorn has no such time limit: a client that sends a
byte a minute keeps its descriptor for ever. uvicorn's parser keeps an incomplete head or trailer however large it is,
and takes an offer to upgrade for the end of HTTP on this connection. The limits of the body are in `request_body.py`,
because the route knows how much it accepts.

Several requests may arrive at once; they are answered one after the other. When the client disconnects, all of them
are told, not only the last one.
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
from .request_connection import ABORT, CROWDED

if TYPE_CHECKING:
    import asyncio

    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

    from .problems import ProblemKind

HEAD_S = 10.0  # the application can set another limit in `state.head_s`
LONGEST_HEAD = 64 << 10  # bytes, or a little more: data that arrives in one piece is parsed as a whole
_PEER = struct.Struct("iII")
_FIRST_LINE = "begin with a line like `GET /v1/runs HTTP/1.1`, the method in capitals, without TLS and HTTP/2"
_WHOLE = f"send HTTP/1.1, with one Host header and a head of at most {LONGEST_HEAD} bytes"
_OFFER = re.compile(rb"\r\nupgrade:[^\r\n]*", re.IGNORECASE)


class Connection(HttpToolsProtocol):
    """The protocol class for uvicorn: pass it as `http=Connection`."""

    _head_timer: asyncio.TimerHandle | None = None
    _pending = 0  # bytes received since the last complete head, piece of a body, or request
    _is_past_head = False
    _is_refused = False  # after a refusal, all further bytes are ignored
    _asked: tuple[RequestResponseCycle, ...] = ()  # in order of arrival; uvicorn handles the first unanswered request

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Close the connection at once when the peer is another user than ours or root."""
        super().connection_made(transport)
        connected: socket.socket | None = transport.get_extra_info("socket")
        if connected is not None and connected.family != socket.AF_UNIX:
            # asyncio does this only for sockets that were made with an explicit protocol number. Without it, the second
            # write of every answer waits for the client's delayed acknowledgement of the first: 44 ms instead of one.
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # uvicorn refuses too many connections in plain text, and also refuses clients that were there first.
        most, self.limit_concurrency = self.limit_concurrency, None
        crowded = most is not None and len(self.connections) > most
        self.app_state = {**self.app_state, ABORT: transport.abort, CROWDED: crowded}
        if (uid := peer_uid(connected)) is not None and uid not in (os.geteuid(), 0):
            self.logger.warning("refused user %d on the Unix socket", uid)
            transport.abort()
            return
        self._arm()

    def data_received(self, data: bytes) -> None:
        """Parse what arrives. Between two requests, a head must be complete in time; the route bounds the body."""
        if self._is_refused:
            return
        if self._head_timer is None and (self.cycle is None or self.cycle.response_complete):
            self._arm()
        if not self._pending and not self._is_past_head:
            # An offer to upgrade is removed: we speak only HTTP/1.1, and the parser would drop the request's body.
            head, end, rest = data.partition(b"\r\n\r\n")
            data = _OFFER.sub(b"", head) + end + rest
        self._pending += len(data)
        super().data_received(data)
        if self._pending > LONGEST_HEAD and not self._is_refused:
            self.send_400_response(f"more than {LONGEST_HEAD} bytes, and the head is not complete")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header of the head. Trailers arrive here, too, and are dropped: they are not part of the head."""
        if not self._is_past_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Take a complete head. ValueError, which the parser makes a refusal: not exactly one Host, or an upgrade."""
        hosts = sum(name == b"host" for name, _ in self.headers)
        if hosts > 1 or (hosts == 0 and self.parser.get_http_version() != "1.0"):
            raise ValueError("a request needs exactly one Host header")
        if self.parser.should_upgrade():  # CONNECT, or an offer to upgrade in a head that arrived in pieces
            raise ValueError("this server speaks only HTTP")
        super().on_headers_complete()
        self._disarm()
        self._pending, self._is_past_head = 0, True
        self._asked = (*self._unanswered(), self.cycle)

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        self._pending = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End a complete request: the next bytes are a head."""
        self._pending, self._is_past_head = 0, False
        super().on_message_complete()

    def shutdown(self) -> None:
        """Close the connection after the answers that are under way."""
        for cycle in self._unanswered():
            cycle.keep_alive = False
        super().shutdown()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell every unanswered request that its client is gone."""
        self._disarm()
        for cycle in self._unanswered():
            cycle.disconnected = True
            cycle.message_event.set()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that are not HTTP with problem JSON, and close.

        If the bytes follow a complete request, that request is answered, and then the connection is closed.
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
        # The application is the only object of ours that uvicorn passes on to its connections.
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
        # A client that sent nothing gets no answer: it would read a 408 as the answer to its next request.
        if self._pending and not self.transport.get_write_buffer_size():
            self._is_refused = True
            detail = f"the head of the request was not complete after {self._head_s:g} s"
            self._write_problem(TOO_SLOW, detail, "send it faster")
            if not self.transport.get_write_buffer_size():
                self.transport.close()
                return
        self.transport.abort()  # the client does not read, and a normal close would wait until it does


def _what_is_wrong(error: BaseException | None) -> tuple[str, str] | None:
    """Detail and remedy for the parser error that is being handled; None when it is no error of the parser."""
    match error:
        case httptools.HttpParserInvalidMethodError():
            return "it does not begin with a method of HTTP", _FIRST_LINE
        case httptools.HttpParserCallbackError(__context__=ValueError() as ours):
            return str(ours), _WHOLE
        case httptools.HttpParserError():
            return f"it is not HTTP: {error}", _WHOLE
        case _:
            return None


def peer_uid(connected: socket.socket | None) -> int | None:
    """The user id of the peer of a Unix socket, as the kernel reports it; None for other sockets."""
    if connected is None or connected.family != socket.AF_UNIX:
        return None
    raw = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    uid: int = _PEER.unpack(raw)[1]
    return uid
