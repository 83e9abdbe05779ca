"""Browser login: a one-time code is exchanged for a session cookie, and every action also needs a CSRF token.

`holdfast open` asks for a code over the Unix socket (or with the token) and opens the page with the code after `#`,
through a file that only its user can read: other users can read the command line of a browser.
Browsers never send that part of a URL, so the code is in no log and no Referer. The page posts the code once and gets
the cookie. The cookie is HttpOnly and SameSite=Strict. It is signed with a key derived from the token, so a session
survives a restart of the daemon, and a new token ends all sessions. SameSite does not tell ports apart: a page on
another port of this host is "same site". So every action also needs the CSRF token, which only a page of the same
origin can read, and a request that the browser itself marks as coming from another origin is refused.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta

from ....values.timestamps import format_timestamp
from ....web.problems import FORBIDDEN, REFUSED, UNAUTHORIZED, ProblemError
from ....web.request_connection import is_unix
from ..wire.operation import Operation, OperationCall, answer
from ..wire.types import Time

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from starlette.responses import Response

CODE_S = 60.0
SESSION_S = 7 * 86_400
CSRF = "holdfast-csrf"
_SAFE = ("GET", "HEAD", "OPTIONS")
_MOST_CODES = 100
_LARGEST = 1024  # bytes of a body that anybody may send
_OPEN = "run `holdfast open` on the daemon's host, and use the link it prints"


class BrowserLogins:
    """The codes that are still valid, and the check of sessions. Without a token there is no TCP and no login."""

    def __init__(self, token: str | None, now: Callable[[], float] = time.time) -> None:
        self._key = None if token is None else hmac.digest(token.encode(), b"holdfast sessions 1", "sha256")
        self._codes: dict[str, float] = {}
        self._now = now
        self.addresses: list[str] = []  # URLs of the TCP listeners, set when they are open
        # All ports of a host share its cookies: daemons with different tokens use different cookie names.
        self.cookie = f"holdfast-{self._mac('name')[:8]}"

    def make_code(self) -> tuple[str, float]:
        """Make a code; returns it with the time it expires at."""
        now = self._now()
        self._codes = {known: end for known, end in self._codes.items() if end > now}
        while len(self._codes) >= _MOST_CODES:
            del self._codes[next(iter(self._codes))]
        code, end = secrets.token_urlsafe(32), now + CODE_S
        self._codes[_digest(code)] = end
        return code, end

    def exchange(self, code: str) -> str | None:
        """Exchange a code for a session; None when the code is wrong, expired or already used."""
        end = self._codes.pop(_digest(code), 0.0)  # by its digest: the time of the lookup tells nothing about the code
        if self._key is None or end <= self._now():
            return None
        body = f"{round(self._now() + SESSION_S)}.{secrets.token_urlsafe(16)}"
        return f"{body}.{self._mac(f'session {body}')}"

    def holds(self, session: str) -> bool:
        """Whether we signed this session and it has not expired."""
        body, _, mac = session.rpartition(".")
        expires = body.partition(".")[0]
        if self._key is None or not (expires.isascii() and expires.isdigit() and len(expires) < 16):
            return False
        right = hmac.compare_digest(mac.encode("utf-8", "replace"), self._mac(f"session {body}").encode())
        return right and int(expires) > self._now()

    def csrf(self, session: str) -> str:
        """The CSRF token that actions of this session carry."""
        return self._mac(f"csrf {session}")

    def session_of(self, headers: Mapping[str, str]) -> str | None:
        """The valid session in the cookies; None when there is none."""
        for part in headers.get("cookie", "").split(";"):
            name, _, value = part.strip().partition("=")
            if name == self.cookie and self.holds(value):
                return value
        return None

    def admits(self, method: str, headers: Mapping[str, str]) -> bool:
        """Whether a browser session admits this request; False when there is no session.

        ProblemError 403: there is a session, but a page of another site asks, or the CSRF token is wrong.
        """
        session = self.session_of(headers)
        if session is None:
            return False
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            raise ProblemError(FORBIDDEN, "a page of another site may not ask", remedy="use the dashboard")
        given = headers.get(CSRF, "").encode("utf-8", "replace")
        if method not in _SAFE and not hmac.compare_digest(given, self.csrf(session).encode()):
            raise ProblemError(FORBIDDEN, "the CSRF token is missing or wrong", remedy="load the page again")
        return True

    def _mac(self, text: str) -> str:
        return hmac.new(self._key or b"", text.encode(), "sha256").hexdigest()


def _digest(code: str) -> str:
    return hashlib.sha256(code.encode("utf-8", "replace")).hexdigest()


class LoginLink(msgspec.Struct):
    """A link that logs a browser in once: one of `urls`, or `path` at any other address of this daemon."""

    path: str
    urls: list[str]
    expires_at: Time


class Code(msgspec.Struct, forbid_unknown_fields=True):
    """The one-time code of a login link."""

    code: Annotated[str, Meta(min_length=1, max_length=200)]


class Login(msgspec.Struct):
    """How the daemon knows the client. With a `session`, every action sends `csrf` in the header Holdfast-CSRF."""

    by: Literal["session", "token", "socket"]
    csrf: str | None


async def make_link(call: OperationCall) -> Response:
    """Make a login link. ProblemError: no TCP listener, or a session asks (it could prolong itself for ever)."""
    logins = logins_of(call)
    if not is_unix(call.request.scope) and "authorization" not in call.request.headers:
        raise ProblemError(FORBIDDEN, "a browser session cannot make a login link", remedy=_OPEN)
    if not logins.addresses:
        remedy = "start it with --listen 127.0.0.1:7300; from another host: ssh -L 7300:127.0.0.1:7300 HOST"
        raise ProblemError(
            REFUSED, "the daemon listens only on its Unix socket, which browsers cannot open", remedy=remedy
        )
    code, end = logins.make_code()
    path = f"/#login={code}"
    expires_at = format_timestamp(round(end * 1e9))
    return answer(LoginLink(path, [f"{url}{path}" for url in logins.addresses], expires_at), 201)


async def exchange(call: OperationCall) -> Response:
    """Exchange the code for the session cookie."""
    logins = logins_of(call)
    session = logins.exchange(call.body.code)
    if session is None:
        raise ProblemError(UNAUTHORIZED, "this link is wrong, has expired, or was used before", remedy=_OPEN)
    response = answer(Login("session", logins.csrf(session)))
    _set_cookie(call, response, session, SESSION_S)
    return response


async def who(call: OperationCall) -> Response:
    """Tell the page how the daemon knows it, before the page asks for anything else."""
    logins, request = logins_of(call), call.request
    if is_unix(request.scope):
        return answer(Login("socket", None))
    if "authorization" in request.headers:
        return answer(Login("token", None))
    session = logins.session_of(request.headers) or ""
    return answer(Login("session", logins.csrf(session)))


async def leave(call: OperationCall) -> Response:
    """Log out: make the browser forget the cookie."""
    response = answer(Login("session", None))
    _set_cookie(call, response, "", 0)
    return response


def logins_of(call: OperationCall) -> BrowserLogins:
    """The logins that this application holds."""
    found: BrowserLogins = call.request.app.state.logins
    return found


def _set_cookie(call: OperationCall, response: Response, value: str, age_s: int) -> None:
    behind_tls = call.request.headers.get("origin", "").startswith("https:")
    response.set_cookie(
        logins_of(call).cookie, value, max_age=age_s, path="/", secure=behind_tls, httponly=True, samesite="strict"
    )


OPERATIONS = (
    Operation(
        "POST", "/v1/login-links", make_link, "Make a link that logs a browser in once.", LoginLink, 201, errors=(409,)
    ),
    Operation(
        "POST", "/v1/login", exchange, "Exchange the code of a link for a session.", Login, body=Code, largest=_LARGEST
    ),
    Operation("GET", "/v1/login/session", who, "How the client is known.", Login),
    Operation("DELETE", "/v1/login/session", leave, "Log out.", Login),
)
PUBLIC = frozenset(("/v1/login",))
