"""Who may ask the daemon: over the Unix socket, over TCP with the token, or from a browser with a session.

On the Unix socket the file system is the wall (the state directory is 0700, the socket 0600), and the kernel's word for
who is at the other end is a second one (`web/connection.py`). Over TCP every request passes the walls of
`web/walls.py`. The daemon's own pages have a session instead of the token: see `browser/login.py`.

What is not known to have come through the Unix socket is taken to have come over TCP.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...web.scope import is_unix
from ...web.walls import TokenPolicy
from .browser.login import BrowserLogins

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from starlette.types import Scope


class Security(NamedTuple):
    """The daemon's policy: the walls of TCP clients, the sessions of browsers, and the paths that need neither."""

    tcp: TokenPolicy
    logins: BrowserLogins
    public: frozenset[str] = frozenset()  # paths without secrets, such as a page that then asks for the token

    @classmethod
    def of(cls, token: str | None, listen_hosts: Iterable[str] = (), public: Iterable[str] = ()) -> Security:
        """The policy for listeners on these hosts."""
        return cls(TokenPolicy.of(token, listen_hosts), BrowserLogins(token), frozenset(public))

    def check(self, scope: Scope, headers: Mapping[str, str]) -> None:
        """Let it pass or raise ProblemError: 403 for a wrong Host or Origin, 401 for a wrong token."""
        local = is_unix(scope)
        # A browser at the Unix socket came through a tunnel: its pages may be anybody's, with a name that leads here.
        if not local or "sec-fetch-site" in headers:
            self.tcp.check_host(headers)
        self.tcp.check_origin(headers)
        if local or scope["path"] in self.public:
            return
        if headers.get("authorization") or not self.logins.admits(scope.get("method", ""), headers):
            self.tcp.check_token(headers)
