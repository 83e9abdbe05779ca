"""Access checks of a web server: Host, Origin and token, checked before a byte of the body is read.

Over TCP the kernel does not tell us who the client is, so every request carries the token. A page of another site can
make a browser send requests to us. Two checks stop that:

- Host. A page of attacker.example whose name now points to 127.0.0.1 still says `Host: attacker.example`. The server
  answers only to names that nobody else can have: addresses, `localhost`, and the names it was told to listen on.
- Origin. A browser names the site of the page that asks. Only the server's own pages may ask, so Origin must be the
  same as Host. There is no CORS.

`holdfast mcp` makes all three checks for every request (`TokenPolicy.check`). The daemon has more ways in, and a policy
of its own made of the same checks (`daemon/http/security.py`).
"""

from __future__ import annotations

import hmac
import ipaddress
from typing import TYPE_CHECKING, NamedTuple, Protocol

from starlette.datastructures import Headers
from starlette.requests import Request

from .problems import CLOSE, FORBIDDEN, TOO_MANY, UNAUTHORIZED, ProblemError, retry_after
from .problems import respond as respond_with
from .request_body import leave_unread
from .request_connection import ADMIT, CLIENT, CROWDED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

_OWNER = "the token"  # of a policy that does not name its clients
_HOST_REMEDY = "use an address, localhost, or the name given to --listen"
_ORIGIN_REMEDY = "ask from a program, or from the dashboard"
_TOKEN_REMEDY = "send Authorization: Bearer TOKEN, with the content of the file `token` in the state directory"


class Policy(Protocol):
    """Decides which requests pass."""

    def check(self, scope: Scope, headers: Mapping[str, str]) -> bool:
        """Let the request pass, or raise ProblemError. True: the client is known; False: the path is for everybody."""


class TokenPolicy(NamedTuple):
    """The policy for TCP clients: their token (None: every TCP client is refused), and the server's host names."""

    token: str | None
    names: frozenset[str] = frozenset()

    @classmethod
    def of(cls, token: str | None, listen_hosts: Iterable[str] = ()) -> TokenPolicy:
        """The policy for listeners on these hosts."""
        return cls(token, frozenset(host.lower().strip("[]") for host in listen_hosts))

    def check(self, scope: Scope, headers: Mapping[str, str]) -> bool:  # noqa: ARG002 - as `Policy` wants it
        """Check Host, Origin and token. ProblemError: 403 for a wrong Host or Origin, 401 for a wrong token."""
        self.check_host(headers)
        self.check_origin(headers)
        self.check_token(headers)
        return True

    def check_host(self, headers: Mapping[str, str]) -> None:
        """Check the Host header. ProblemError 403: it is a name that another site may have."""
        if not self._is_ours(headers.get("host", "")):
            raise ProblemError(FORBIDDEN, "the Host header does not name this server", remedy=_HOST_REMEDY)

    def check_origin(self, headers: Mapping[str, str]) -> None:
        """Check the Origin header. ProblemError 403: a page of another site asks."""
        origin = headers.get("origin")
        if origin is not None and not self._is_same(origin, headers.get("host", "")):
            raise ProblemError(FORBIDDEN, "a page of another site may not ask", remedy=_ORIGIN_REMEDY)

    def check_token(self, headers: Mapping[str, str]) -> None:
        """Check the token. ProblemError 401: there is no token, or it is wrong."""
        authorization = headers.get("authorization", "")
        scheme, _, given = authorization.partition(" ")
        # As bytes: compare_digest refuses text outside ASCII, and a header may hold any byte.
        same = self.token is not None and hmac.compare_digest(
            given.strip().encode("utf-8", "surrogateescape"), self.token.encode()
        )
        if scheme.lower() != "bearer" or not same:
            raise unauthorized("the token is wrong" if authorization else "there is no token")

    def _is_ours(self, host: str) -> bool:
        name = _host_name(host)
        return name is not None and (name == "localhost" or name in self.names or _is_address(name))

    def _is_same(self, origin: str, host: str) -> bool:
        scheme, colon, rest = origin.partition("://")
        return bool(colon) and scheme in ("http", "https") and rest.lower() == host.lower() and self._is_ours(host)


class AccessChecks:
    """The outermost middleware: every request passes `Policy.check` or is refused."""

    def __init__(
        self, app: ASGIApp, policy: Policy, respond: Callable[[Scope, ProblemError], Response] | None = None
    ) -> None:
        """`respond` makes the response to a refused request; without it, the response is problem JSON."""
        self._app = app
        self._policy = policy
        self._respond = respond or (lambda _scope, error: respond_with(error))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        if scope["type"] != "http":
            return  # a WebSocket: no route speaks it
        try:
            if (is_crowded := scope.get("state", {}).get(CROWDED)) and is_crowded():
                raise ProblemError(TOO_MANY, "this connection is one too many", headers=retry_after(TOO_MANY))
            self._check(scope)
        except ProblemError as error:
            await leave_unread(Request(scope, receive))
            error.headers |= CLOSE
            await self._respond(scope, error)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _check(self, scope: Scope) -> None:
        try:
            is_known = self._policy.check(scope, Headers(scope=scope))
        except ProblemError:
            _admit(scope, scope.get("state", {}).get(CLIENT))  # refusals count, too: a token cannot be guessed
            raise
        _admit(scope, scope.get("state", {}).get(CLIENT, _OWNER if is_known else None))


def unauthorized(what: str) -> ProblemError:
    """The 401 that asks for a token."""
    challenge = {"WWW-Authenticate": 'Bearer realm="holdfast"'}
    return ProblemError(UNAUTHORIZED, what, remedy=_TOKEN_REMEDY, headers=challenge)


def _admit(scope: Scope, client: str | None) -> None:
    """Count the request. ProblemError 429: the client is beyond one of its limits."""
    if (admit := scope.get("state", {}).get(ADMIT)) is not None:
        admit(client)


def _host_name(host: str) -> str | None:
    """The name in a Host header, without its port; None when the header is malformed."""
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
