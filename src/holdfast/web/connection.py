"""HTTP connection: uvicorn's protocol class with limits on the head of a request and a check of the peer.

It adds to uvicorn: a check of the user at the other end of a Unix socket; a place in the pool of its listener, which
bounds connections and the bytes of unknown clients; an account for the limits of its client; a limit on the size of a
request's head and on the time until it is complete; and refusals as problem JSON. uvicorn has no such time limit: a
client that sends a byte a minute keeps its descriptor for ever. uvicorn's parser keeps an incomplete head or trailer
however large it is, and takes an offer to upgrade for the end of HTTP on this connection. The limits of the body are in
`request_body.py`, because the route knows how much it accepts.

Several requests may arrive at once; they are answered one after the other. When the client disconnects, all of them
are told, not only the last one.
"""

from __future__ import annotations

import os
import re
import socket
import struct
import sys
from typing import TYPE_CHECKING, Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from .client_limits import address_account
from .connection_pool import ConnectionPool
from .problems import CLIENT_LIMIT, MALFORMED, TOO_MANY, TOO_SLOW, ProblemError, raw_response, retry_after
from .request_connection import ABORT, ADMIT, CROWDED, PEER_PID, PEER_SOCKET, PEER_UID, UNLIMITED

if TYPE_CHECKING:
    import asyncio

    from uvicorn import Config
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle
    from uvicorn.server import ServerState

    from .problems import ProblemKind

HEAD_S = 10.0  # the application can set another limit in `state.head_s`
_CROWDED_S = 2.0  # for the head of a connection that is one too many: it waits only for its refusal
_MOST_AT_ONCE = 64  # requests of one connection that are not answered yet
LONGEST_HEAD = 64 << 10  # bytes, or a little more: data that arrives in one piece is parsed as a whole
_PEER = struct.Struct("iII")
_FIRST_LINE = "begin with a line like `GET /v1/runs HTTP/1.1`, the method in capitals, without TLS and HTTP/2"
_WHOLE = f"send HTTP/1.1, with one Host header and a head of at most {LONGEST_HEAD} bytes"
_LESS = "wait for answers, or send less"
_OFFER = re.compile(rb"\r\nupgrade:[^\r\n]*", re.IGNORECASE)


class Connection(HttpToolsProtocol):
    """The protocol class for uvicorn: pass it as `http=Connection`."""

    charged = 0  # bytes that count in the pool
    _client = ""  # whose account the connection counts in
    _is_known = False  # a request of this connection has passed the access checks
    _waiting_bytes = 0  # that count in that account
    is_open = False  # the connection has begun: with TLS, its handshake is over
    _has_place = True  # in the pool
    _head_timer: asyncio.TimerHandle | None = None
    _pending = 0  # bytes received since the last complete head, piece of a body, or request
    _is_past_head = False
    _is_refused = False  # after a refusal, all further bytes are ignored
    _asked: tuple[RequestResponseCycle, ...] = ()  # in order of arrival; uvicorn handles the first unanswered request

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        pool: ConnectionPool | None = None,
    ) -> None:
        """`pool` is the pool of the listener, in which the connection has its place already."""
        super().__init__(config, server_state, app_state, _loop)
        self._pool = pool or ConnectionPool(sys.maxsize)
        self._is_crowded = self._pool.is_crowded()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Close the connection at once when the peer is another user than ours or root."""
        super().connection_made(transport)
        self.is_open = True
        self._pool.begin(self)
        connected: socket.socket | None = transport.get_extra_info("socket")
        if connected is not None and connected.family != socket.AF_UNIX:
            # asyncio does this only for sockets that were made with an explicit protocol number. Without it, the second
            # write of every answer waits for the client's delayed acknowledgement of the first: 44 ms instead of one.
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        pid, uid = peer_of(connected)
        self._client = address_account(self.client[0]) if uid is None and self.client else f"user {uid}"
        if uid is None:
            self._pool.clients.enter_stranger(self._client, self)
        self.app_state = {
            **self.app_state,
            ABORT: transport.abort,
            ADMIT: self._admit,
            CROWDED: self._is_one_too_many,
            PEER_PID: pid,
            PEER_SOCKET: connected,
            PEER_UID: uid,
        }
        if uid is not None and uid not in (os.geteuid(), 0):
            self.logger.warning("refused user %d on the Unix socket", uid)
            transport.abort()
            return
        self._arm()

    def data_received(self, data: bytes) -> None:
        """Parse what arrives. Between two requests, a head must be complete in time; the route bounds the body."""
        if not self._is_refused:
            self._pool.charge(self, len(data))  # this may close this connection or another one
            self._charge_client(len(data))
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
        if len(self._asked) >= _MOST_AT_ONCE and len(self._unanswered()) >= _MOST_AT_ONCE:
            raise ValueError(f"more than {_MOST_AT_ONCE} requests at once")
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

    def on_response_complete(self) -> None:
        """End an answer. When nothing is left to answer, the client's bytes do not count any more."""
        super().on_response_complete()
        if not self._unanswered():
            self._pool.release(self)
            self._release_client()

    @property
    def gives_way(self) -> bool:
        """Whether no request is under way; the pool asks for connections of unknown clients only."""
        return not self._unanswered()

    def evict(self, detail: str) -> None:
        """Close the connection, because others need its room; with a `detail`, after a refusal that says so."""
        self._give_place_back()  # now: the end of the connection comes a little later
        if detail:
            self._refuse_now(TOO_MANY, detail, "send Authorization, or send less")
        else:
            self._is_refused = True
            self.transport.abort()

    def _refuse_now(self, kind: ProblemKind, detail: str, remedy: str) -> None:
        """Refuse what is under way and close, without waiting for the client."""
        self._is_refused = True
        unanswered = self._unanswered()
        if not unanswered or not unanswered[0].response_started:
            self._write_problem(kind, detail, remedy)
        self.transport.abort() if self.transport.get_write_buffer_size() else self.transport.close()

    def _is_one_too_many(self) -> bool:
        """Whether this connection came when there were too many, and there still are too many."""
        self._is_crowded = self._is_crowded and self._pool.is_crowded()
        return self._is_crowded

    def _give_place_back(self) -> None:
        if self._has_place:
            self._has_place = False
            self._pool.leave()

    def _admit(self, client: str | None) -> None:
        """Count a request of this client; None: nobody knows the client. ProblemError 429: it is beyond a limit."""
        clients = self._pool.clients
        if client is None:
            clients.take(self._client, is_known=False)
        elif client != UNLIMITED:
            if not self._is_known or client != self._client:
                self._move_to(client)
            clients.take(client, is_known=True)

    def _move_to(self, client: str) -> None:
        """Count the connection in the account of a client that is known now. ProblemError 429: it has too many."""
        clients, size = self._pool.clients, self._waiting_bytes
        clients.enter(client, self)
        if client != self._client:
            self._release_client()
            clients.leave(self._client, self)
        self._client, self._is_known, self._waiting_bytes = client, True, size
        self._pool.end(self)
        if (told := clients.charge(client, size)) is not None:
            raise ProblemError(CLIENT_LIMIT, told, remedy=_LESS, headers=retry_after(CLIENT_LIMIT))

    def _charge_client(self, size: int) -> None:
        self._waiting_bytes += size
        if self._is_known and not self._is_refused:
            told = self._pool.clients.charge(self._client, size)
            if told is not None:
                self._refuse_now(CLIENT_LIMIT, told, _LESS)

    def _release_client(self) -> None:
        if self._is_known:
            self._pool.clients.release(self._client, self._waiting_bytes)
        self._waiting_bytes = 0

    def shutdown(self) -> None:
        """Close the connection after the answers that are under way."""
        for cycle in self._unanswered():
            cycle.keep_alive = False
        super().shutdown()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell every unanswered request that its client is gone."""
        self._disarm()
        self._pool.end(self)
        self._release_client()
        self._pool.clients.leave(self._client, self)
        self._give_place_back()
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
        self.transport.write(raw_response(kind, detail, remedy))

    def _unanswered(self) -> tuple[RequestResponseCycle, ...]:
        return tuple(cycle for cycle in self._asked if not cycle.response_complete)

    @property
    def _head_s(self) -> float:
        return head_bound_s(self.app, is_crowded=self._is_crowded)

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


def head_bound_s(app: object, *, is_crowded: bool) -> float:
    """How long a client may take for the head of a request, and for its TLS handshake."""
    # The application is the only object of ours that uvicorn passes on to its connections.
    within_s: float = getattr(getattr(app, "state", None), "head_s", HEAD_S)
    return min(within_s, _CROWDED_S) if is_crowded else within_s


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


def peer_of(connected: socket.socket | None) -> tuple[int | None, int | None]:
    """The process that connected to a Unix socket and its user, as the kernel reports them; None for other sockets."""
    if connected is None or connected.family != socket.AF_UNIX:
        return None, None
    pid, uid, _ = _PEER.unpack(connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    return pid, uid
