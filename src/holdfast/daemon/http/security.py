"""Access policy of the daemon: the Unix socket, TCP with the token, or a browser with a session.

On the Unix socket the file system keeps others out (the state directory is 0700, the socket 0600); the kernel's report
of the peer's user is a second check (`web/connection.py`). Over TCP every request passes `web/access_checks.py`. The
daemon's own pages have a session instead of the token: see `browser/login.py`. The socket, a session and the token of
`STATE/token` may do everything; a token that the owner made may do what its role allows (`access/route_access.py`), and
so may a session that was opened with it.

A request counts as a TCP request unless it is known to have come through the Unix socket.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from ...access.caller import ABOUT, CALLER, STRANGER, Caller
from ...access.roles import Role
from ...access.tokens import PREFIX
from ...values.errors import StateError
from ...web.access_checks import TokenPolicy, unauthorized
from ...web.problems import UNAVAILABLE, ProblemError
from ...web.request_connection import CLIENT, PEER_UID, UNLIMITED, is_unix
from .access.route_access import check_route
from .browser.login import BrowserLogins
from .routes import probes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from starlette.types import Scope

    from ...access.tokens import TokenFile
    from .browser.ended_sessions import EndedSessions


class Security(NamedTuple):
    """The daemon's policy: the checks for TCP clients, the logins of browsers, and the paths that need neither."""

    tcp: TokenPolicy
    logins: BrowserLogins
    public: frozenset[str] = frozenset()  # paths without secrets, such as the page where a browser logs in
    tokens: TokenFile | None = None  # the tokens that the owner made

    @classmethod
    def of(
        cls,
        token: str | None,
        listen_hosts: Iterable[str] = (),
        public: Iterable[str] = (),
        tokens: TokenFile | None = None,
        ended: EndedSessions | None = None,
    ) -> Security:
        """The policy for listeners on these hosts."""
        logins = BrowserLogins(token, ended=ended, tokens=tokens)
        return cls(TokenPolicy.of(token, listen_hosts), logins, frozenset(public), tokens)

    def check(self, scope: Scope, headers: Mapping[str, str]) -> bool:
        """Let the request pass, or raise ProblemError: 403 for a wrong Host, Origin or role, 401 for a wrong token.

        True: the client is known, and `caller_of` returns it. False: the path is for everybody.
        """
        # Also on the Unix socket: a browser may reach it through a tunnel, with a page of any site whose name leads
        # here. Nothing else in the request tells that browser from a program: Chromium sends Sec-Fetch-Site only over
        # TLS and to localhost.
        self.tcp.check_host(headers)
        self.tcp.check_origin(headers)
        method, path = scope.get("method", ""), scope["path"]
        state = scope.setdefault("state", {})
        if path in self.public and not is_unix(scope):
            state[CALLER] = STRANGER
            # A probe costs as little as its refusal, and a stranger must not be able to make it fail.
            state[CLIENT] = UNLIMITED if path in probes.PUBLIC else None
            return False
        state[CALLER] = self._caller(scope, method, headers)
        state[CLIENT] = _client_of(state[CALLER], state.get(PEER_UID))
        check_route(state[CALLER], method, path)
        return True

    def _caller(self, scope: Scope, method: str, headers: Mapping[str, str]) -> Caller:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        # On the Unix socket, too: a proxy in front of it may pass on the tokens of its clients.
        if scheme.lower() == "bearer" and given.strip().startswith(PREFIX):
            return self._named(scope, given.strip())
        if is_unix(scope):
            if "authorization" in headers:  # a client that shows a wrong token must not get more than without the token
                self.tcp.check_token(headers)
            return Caller("socket", Role.ADMIN)
        browser = None if scheme else self.logins.admit(method, headers)
        if browser is not None:
            return browser
        self.tcp.check_token(headers)
        return Caller("token", Role.ADMIN)

    def _named(self, scope: Scope, secret: str) -> Caller:
        try:
            token = None if self.tokens is None else self.tokens.find(secret)
        except StateError:  # its text has paths in it, and anybody may ask
            remedy = "the daemon's health says why"
            raise ProblemError(UNAVAILABLE, "the tokens cannot be read", remedy=remedy) from None
        if token is None:
            raise unauthorized("the token is wrong, or was revoked")
        if token.has_ended(time.time_ns()):
            scope["state"][ABOUT] = f"token {token.name}"
            raise unauthorized("the end date of the token has passed")
        return Caller("token", token.role, token.name, token.session, token.digest)


def _client_of(caller: Caller, uid: int | None) -> str:
    """The client for its limits."""
    if caller.by == "socket":
        return f"user {uid}"
    return f"token {caller.token}" if caller.token else "the owner's token" if caller.by == "token" else "browsers"
