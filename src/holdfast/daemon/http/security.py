"""Access policy of the daemon: the Unix socket, TCP with the token, or a browser with a session.

On the Unix socket the file system keeps others out (the state directory is 0700, the socket 0600); the kernel's report
of the peer's user is a second check (`web/connection.py`). Over TCP every request passes `web/access_checks.py`. The
daemon's own pages have a session instead of the token: see `browser/login.py`.

A request counts as a TCP request unless it is known to have come through the Unix socket.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...web.access_checks import TokenPolicy
from ...web.request_connection import is_unix
from .browser.login import BrowserLogins

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from starlette.types import Scope


class Security(NamedTuple):
    """The daemon's policy: the checks for TCP clients, the logins of browsers, and the paths that need neither."""

    tcp: TokenPolicy
    logins: BrowserLogins
    public: frozenset[str] = frozenset()  # paths without secrets, such as the page where a browser logs in

    @classmethod
    def of(cls, token: str | None, listen_hosts: Iterable[str] = (), public: Iterable[str] = ()) -> Security:
        """The policy for listeners on these hosts."""
        return cls(TokenPolicy.of(token, listen_hosts), BrowserLogins(token), frozenset(public))

    def check(self, scope: Scope, headers: Mapping[str, str]) -> bool:
        """Let the request pass, or raise ProblemError: 403 for a wrong Host or Origin, 401 for a wrong token.

        True: the client is known. False: the path is for everybody.
        """
        local = is_unix(scope)
        # Also on the Unix socket: a browser may reach it through a tunnel, with a page of any site whose name leads
        # here. Nothing else in the request tells that browser from a program: Chromium sends Sec-Fetch-Site only over
        # TLS and to localhost.
        self.tcp.check_host(headers)
        self.tcp.check_origin(headers)
        if local or scope["path"] in self.public:
            return local
        if headers.get("authorization") or not self.logins.admits(scope.get("method", ""), headers):
            self.tcp.check_token(headers)
        return True
