"""Who may ask: the walls in front of every route, looked at before a byte of the body is read.

On the Unix socket the file system is the wall (the state directory is 0700, the socket 0600), and the kernel's word for
who is at the other end is a second one (`connection.py`). Over TCP nobody is known, so every request carries the token.
A browser is the third kind of client: it can be made to send requests by pages from elsewhere. Two looks stop that:

- Host. A page of attacker.example whose name now points to 127.0.0.1 still says `Host: attacker.example`. Only names
  that nobody else can have are answered: addresses, `localhost`, and the names we were told to listen on.
- Origin. A browser names the page that asks. Only our own pages may, so it must be the same as Host. There is no CORS.

The daemon's own pages have a session instead of the token: see `login.py`.

What is not known to have come through the Unix socket is taken to have come over TCP.
"""

from __future__ import annotations

import hmac
import ipaddress
import os
import secrets
import stat
from typing import TYPE_CHECKING, NamedTuple

from starlette.datastructures import Headers
from starlette.requests import Request

from ...state.directory import state_error
from ...values.errors import StateError
from ...web.body import leave_unread
from ...web.connection import CROWDED
from ...web.problems import CLOSE, CROWD, FORBIDDEN, UNAUTHORIZED, ProblemError, respond, retry_after
from .browser.login import Logins

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from starlette.types import ASGIApp, Receive, Scope, Send

TOKEN_FILE = "token"
_TOKEN_BYTES = 32
_SHORTEST_TOKEN = 16
_HOST_REMEDY = "use an address, localhost, or the name given to --listen"
_ORIGIN_REMEDY = "ask from a program, or from the daemon's own pages"
_TOKEN_REMEDY = "send Authorization: Bearer TOKEN, with what is in the file `token` of the state directory"


class Security(NamedTuple):
    """The policy: the token of TCP clients (None: nobody comes in over TCP), names we are known by, open paths."""

    token: str | None
    names: frozenset[str] = frozenset()
    public: frozenset[str] = frozenset()  # paths without secrets, such as a page that then asks for the token
    logins: Logins = Logins(None)

    @classmethod
    def of(cls, token: str | None, listen_hosts: Iterable[str] = (), public: Iterable[str] = ()) -> Security:
        """The policy for listeners on these hosts."""
        names = frozenset(host.lower().strip("[]") for host in listen_hosts)
        return cls(token, names, frozenset(public), Logins(token))

    def check(self, scope: Scope, headers: Mapping[str, str]) -> None:
        """Let it pass or raise ProblemError: 403 for a wrong Host or Origin, 401 for a wrong token."""
        host = headers.get("host", "")
        local = is_unix(scope)
        # A browser at the Unix socket came through a tunnel: its pages may be anybody's, with a name that leads here.
        if (not local or "sec-fetch-site" in headers) and not self._is_ours(host):
            raise ProblemError(FORBIDDEN, "the Host header names a host this daemon is not", remedy=_HOST_REMEDY)
        if (origin := headers.get("origin")) is not None and not self._is_same(origin, host):
            raise ProblemError(FORBIDDEN, "a page from elsewhere may not ask", remedy=_ORIGIN_REMEDY)
        if not local and scope["path"] not in self.public:
            authorization = headers.get("authorization", "")
            if authorization or not self.logins.admits(scope.get("method", ""), headers):
                self._check_token(authorization)

    def _is_ours(self, host: str) -> bool:
        name = _host_name(host)
        return name is not None and (name == "localhost" or name in self.names or _is_address(name))

    def _is_same(self, origin: str, host: str) -> bool:
        scheme, colon, rest = origin.partition("://")
        return bool(colon) and scheme in ("http", "https") and rest.lower() == host.lower() and self._is_ours(host)

    def _check_token(self, authorization: str) -> None:
        scheme, _, given = authorization.partition(" ")
        # As bytes: compare_digest refuses text outside ASCII, and a header may hold any.
        same = self.token is not None and hmac.compare_digest(
            given.strip().encode("utf-8", "surrogateescape"), self.token.encode()
        )
        if scheme.lower() != "bearer" or not same:
            what = "the token is wrong" if authorization else "there is no token"
            headers = {"WWW-Authenticate": 'Bearer realm="holdfast"'}
            raise ProblemError(UNAUTHORIZED, what, remedy=_TOKEN_REMEDY, headers=headers)


class Walls:
    """Nothing gets past without `Security.check`: middleware, the outermost one."""

    def __init__(self, app: ASGIApp, security: Security) -> None:
        self._app = app
        self._security = security

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        try:
            if scope.get("state", {}).get(CROWDED):
                raise ProblemError(CROWD, "there are too many connections", headers=retry_after(CROWD))
            self._security.check(scope, Headers(scope=scope))
        except ProblemError as error:
            await leave_unread(Request(scope, receive))
            error.headers |= CLOSE
            await respond(error)(scope, receive, send)
            return
        await self._app(scope, receive, send)


def is_unix(scope: Scope) -> bool:
    """Whether this came through the Unix socket: its address is a path and has no port."""
    server = scope.get("server")
    return server is not None and server[1] is None and bool(server[0])


def load_token(state_path: str) -> str:
    """The token of this state directory, made when there is none: STATE/token, 0600.

    StateError: it cannot be made or read, is not ours alone, or is too short to be one.
    """
    path = os.path.join(state_path, TOKEN_FILE)
    try:
        _make_token(path)
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            found = os.fstat(fd)
            text = os.read(fd, 4096).decode("ascii", "replace").strip()
        finally:
            os.close(fd)
    except OSError as error:
        raise state_error(error, path) from None
    if found.st_uid not in (os.geteuid(), 0) or stat.S_IMODE(found.st_mode) & 0o077:
        raise StateError(f"others may read the token {path}", remedy="remove it; a new one is made at the next start")
    if len(text) < _SHORTEST_TOKEN or not text.isascii() or not text.isprintable() or " " in text:
        raise StateError(f"{path} holds no token", remedy="remove it; a new one is made at the next start")
    return text


def _make_token(path: str) -> None:
    """Whole or not at all, and never over one that is there: clients may have it already."""
    if os.path.lexists(path):
        return
    temporary = f"{path}.{os.getpid()}.new"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, secrets.token_urlsafe(_TOKEN_BYTES).encode() + b"\n")
        os.fsync(fd)
        os.link(temporary, path)
    except FileExistsError:
        pass
    finally:
        os.close(fd)
        os.unlink(temporary)


def _host_name(host: str) -> str | None:
    """The name in a Host header without its port; None when it is none."""
    if host.startswith("["):
        name, bracket, port = host[1:].partition("]")
        port = port.removeprefix(":")
    else:
        name, _, port = host.partition(":")
        bracket = "]"
    return name.lower().rstrip(".") if name and bracket and (not port or port.isdigit()) else None


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
