"""The walls in front of a web server: Host, Origin and token, checked before a byte of the body is read.

Over TCP nobody is known, so every request carries the token. A browser can be made to send requests by pages from
elsewhere. Two checks stop that:

- Host. A page of attacker.example whose name now points to 127.0.0.1 still says `Host: attacker.example`. Only names
  that nobody else can have are answered: addresses, `localhost`, and the names the server was told to listen on.
- Origin. A browser names the page that asks. Only the server's own pages may, so it must be the same as Host. There is
  no CORS.

`holdfast mcp` asks for all three of every request (`TokenPolicy.check`). The daemon has more ways in, and a policy of
its own that is made of the same checks (`daemon/http/security.py`).
"""

from __future__ import annotations

import hmac
import ipaddress
from typing import TYPE_CHECKING, NamedTuple, Protocol

from starlette.datastructures import Headers
from starlette.requests import Request

from .problems import CLOSE, CROWD, FORBIDDEN, UNAUTHORIZED, ProblemError, respond, retry_after
from .request_body import leave_unread
from .scope import CROWDED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from starlette.types import ASGIApp, Receive, Scope, Send

_HOST_REMEDY = "use an address, localhost, or the name given to --listen"
_ORIGIN_REMEDY = "ask from a program, or from the daemon's own pages"
_TOKEN_REMEDY = "send Authorization: Bearer TOKEN, with what is in the file `token` of the state directory"


class Policy(Protocol):
    """Decides which requests pass."""

    def check(self, scope: Scope, headers: Mapping[str, str]) -> None:
        """Let the request pass, or raise ProblemError."""


class TokenPolicy(NamedTuple):
    """The policy for TCP clients: their token (None: nobody comes in over TCP), and the names the server has."""

    token: str | None
    names: frozenset[str] = frozenset()

    @classmethod
    def of(cls, token: str | None, listen_hosts: Iterable[str] = ()) -> TokenPolicy:
        """The policy for listeners on these hosts."""
        return cls(token, frozenset(host.lower().strip("[]") for host in listen_hosts))

    def check(self, scope: Scope, headers: Mapping[str, str]) -> None:  # noqa: ARG002 - as `Policy` wants it
        """Host, Origin and token. ProblemError: 403 for a wrong Host or Origin, 401 for a wrong token."""
        self.check_host(headers)
        self.check_origin(headers)
        self.check_token(headers)

    def check_host(self, headers: Mapping[str, str]) -> None:
        """ProblemError 403 when Host is a name that somebody else may have."""
        if not self._is_ours(headers.get("host", "")):
            raise ProblemError(FORBIDDEN, "the Host header names a host this daemon is not", remedy=_HOST_REMEDY)

    def check_origin(self, headers: Mapping[str, str]) -> None:
        """ProblemError 403 when a page of another server asks."""
        origin = headers.get("origin")
        if origin is not None and not self._is_same(origin, headers.get("host", "")):
            raise ProblemError(FORBIDDEN, "a page from elsewhere may not ask", remedy=_ORIGIN_REMEDY)

    def check_token(self, headers: Mapping[str, str]) -> None:
        """ProblemError 401 when there is no token, or a wrong one."""
        authorization = headers.get("authorization", "")
        scheme, _, given = authorization.partition(" ")
        # As bytes: compare_digest refuses text outside ASCII, and a header may hold any.
        same = self.token is not None and hmac.compare_digest(
            given.strip().encode("utf-8", "surrogateescape"), self.token.encode()
        )
        if scheme.lower() != "bearer" or not same:
            what = "the token is wrong" if authorization else "there is no token"
            challenge = {"WWW-Authenticate": 'Bearer realm="holdfast"'}
            raise ProblemError(UNAUTHORIZED, what, remedy=_TOKEN_REMEDY, headers=challenge)

    def _is_ours(self, host: str) -> bool:
        name = _host_name(host)
        return name is not None and (name == "localhost" or name in self.names or _is_address(name))

    def _is_same(self, origin: str, host: str) -> bool:
        scheme, colon, rest = origin.partition("://")
        return bool(colon) and scheme in ("http", "https") and rest.lower() == host.lower() and self._is_ours(host)


class Walls:
    """Middleware, the outermost one: no request gets past without `Policy.check`."""

    def __init__(self, app: ASGIApp, policy: Policy) -> None:
        self._app = app
        self._policy = policy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        if scope["type"] != "http":
            return  # a WebSocket: nothing here speaks that
        try:
            if scope.get("state", {}).get(CROWDED):
                raise ProblemError(CROWD, "there are too many connections", headers=retry_after(CROWD))
            self._policy.check(scope, Headers(scope=scope))
        except ProblemError as error:
            await leave_unread(Request(scope, receive))
            error.headers |= CLOSE
            await respond(error)(scope, receive, send)
            return
        await self._app(scope, receive, send)


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
