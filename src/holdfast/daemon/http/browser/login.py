"""How a browser comes in: a one-time code is exchanged for a session cookie, and actions carry a second secret.

`holdfast open` asks for a code over the Unix socket (or with the token) and opens the page with the code behind `#`,
which browsers never send: it is in no log and no Referer. The page posts it, once, and gets the cookie. The cookie is
HttpOnly and SameSite=Strict; what it says is signed with a key made from the token, so a session outlives the daemon's
restart, and a new token ends all sessions. SameSite does not tell ports apart, and other pages of this host are "same
site": so every action needs the CSRF token besides, which only a page of the same origin can read, and requests that
the browser itself says come from elsewhere are refused.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta

from ....web.problems import FORBIDDEN, REFUSED, UNAUTHORIZED, ProblemError
from ....web.scope import is_unix
from ..wire.operation import Operation, OperationCall, answer
from ..wire.types import Time

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from starlette.responses import Response

CODE_S = 300.0
SESSION_S = 7 * 86_400
CSRF = "holdfast-csrf"
_SAFE = ("GET", "HEAD", "OPTIONS")
_MOST_CODES = 100
_OPEN = "run `holdfast open` on the daemon's host, and use the link it prints"


class BrowserLogins:
    """Codes that were given out, and sessions. Without a token there is no TCP listener, and nobody to log in."""

    def __init__(self, token: str | None, now: Callable[[], float] = time.time) -> None:
        self._key = None if token is None else hmac.digest(token.encode(), b"holdfast sessions 1", "sha256")
        self._codes: dict[str, float] = {}
        self._now = now
        self.addresses: list[str] = []  # URLs we listen on, known when the listener is open
        # Cookies are shared by all ports of a host: daemons with different tokens use different names.
        self.cookie = f"holdfast-{self._mac('name')[:8]}"

    def make_code(self) -> tuple[str, float]:
        """A code and until when it can be used."""
        now = self._now()
        self._codes = {known: end for known, end in self._codes.items() if end > now}
        while len(self._codes) >= _MOST_CODES:
            del self._codes[next(iter(self._codes))]
        code, end = secrets.token_urlsafe(32), now + CODE_S
        self._codes[_digest(code)] = end
        return code, end

    def exchange(self, code: str) -> str | None:
        """The session for a code; None when it is wrong, old or was used."""
        end = self._codes.pop(_digest(code), 0.0)  # by its digest: how long the look takes tells nothing
        if self._key is None or end <= self._now():
            return None
        body = f"{round(self._now() + SESSION_S)}.{secrets.token_urlsafe(16)}"
        return f"{body}.{self._mac(f'session {body}')}"

    def holds(self, session: str) -> bool:
        """Whether this session is one of ours, and not over."""
        body, _, mac = session.rpartition(".")
        expires = body.partition(".")[0]
        if self._key is None or not (expires.isascii() and expires.isdigit() and len(expires) < 16):
            return False
        right = hmac.compare_digest(mac.encode("utf-8", "replace"), self._mac(f"session {body}").encode())
        return right and int(expires) > self._now()

    def csrf(self, session: str) -> str:
        """What actions of this session carry."""
        return self._mac(f"csrf {session}")

    def session_of(self, headers: Mapping[str, str]) -> str | None:
        """The session in the cookies, if it is a good one."""
        for part in headers.get("cookie", "").split(";"):
            name, _, value = part.strip().partition("=")
            if name == self.cookie and self.holds(value):
                return value
        return None

    def admits(self, method: str, headers: Mapping[str, str]) -> bool:
        """Whether a browser's session lets this pass; False: there is none. ProblemError 403: not this request."""
        session = self.session_of(headers)
        if session is None:
            return False
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            raise ProblemError(FORBIDDEN, "a page from elsewhere may not ask", remedy="use the daemon's own page")
        given = headers.get(CSRF, "").encode("utf-8", "replace")
        if method not in _SAFE and not hmac.compare_digest(given, self.csrf(session).encode()):
            raise ProblemError(FORBIDDEN, "there is no CSRF token, or a wrong one", remedy="load the page again")
        return True

    def _mac(self, text: str) -> str:
        return hmac.new(self._key or b"", text.encode(), "sha256").hexdigest()


def _digest(code: str) -> str:
    return hashlib.sha256(code.encode("utf-8", "replace")).hexdigest()


class LoginLink(msgspec.Struct):
    """A link that logs a browser in, once: one of `urls`, or `path` at any address that leads here."""

    path: str
    urls: list[str]
    expires_at: Time


class Code(msgspec.Struct, forbid_unknown_fields=True):
    """The code of a link."""

    code: Annotated[str, Meta(min_length=1, max_length=200)]


class Login(msgspec.Struct):
    """Who is asking: by a `session` (then `csrf` goes with every action, as header Holdfast-CSRF), token or socket."""

    by: Literal["session", "token", "socket"]
    csrf: str | None


async def make_link(call: OperationCall) -> Response:
    """A new link. ProblemError: this daemon has no TCP listener, or a session asks (it may not make itself last)."""
    logins = logins_of(call)
    if not is_unix(call.request.scope) and "authorization" not in call.request.headers:
        raise ProblemError(FORBIDDEN, "a session cannot make a link", remedy=_OPEN)
    if not logins.addresses:
        remedy = "start it with --listen 127.0.0.1:7300; from another host: ssh -L 7300:127.0.0.1:7300 HOST"
        raise ProblemError(REFUSED, "the daemon listens on its socket only, which browsers cannot open", remedy=remedy)
    code, end = logins.make_code()
    path = f"/#login={code}"
    expires_at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(end))
    return answer(LoginLink(path, [f"{url}{path}" for url in logins.addresses], expires_at), 201)


async def exchange(call: OperationCall) -> Response:
    """The cookie for the code."""
    logins = logins_of(call)
    session = logins.exchange(call.body.code)
    if session is None:
        raise ProblemError(UNAUTHORIZED, "this link is wrong, too old or was used before", remedy=_OPEN)
    response = answer(Login("session", logins.csrf(session)))
    _set_cookie(call, response, session, SESSION_S)
    return response


async def who(call: OperationCall) -> Response:
    """What the page needs to know before it asks for anything."""
    logins, request = logins_of(call), call.request
    if is_unix(request.scope):
        return answer(Login("socket", None))
    if "authorization" in request.headers:
        return answer(Login("token", None))
    session = logins.session_of(request.headers) or ""
    return answer(Login("session", logins.csrf(session)))


async def leave(call: OperationCall) -> Response:
    """Log out: the browser forgets the cookie."""
    response = answer(Login("session", None))
    _set_cookie(call, response, "", 0)
    return response


def logins_of(call: OperationCall) -> BrowserLogins:
    """The logins of this application."""
    found: BrowserLogins = call.request.app.state.logins
    return found


def _set_cookie(call: OperationCall, response: Response, value: str, age_s: int) -> None:
    behind_tls = call.request.headers.get("origin", "").startswith("https:")
    response.set_cookie(
        logins_of(call).cookie, value, max_age=age_s, path="/", secure=behind_tls, httponly=True, samesite="strict"
    )


OPERATIONS = (
    Operation(
        "POST", "/v1/login-links", make_link, "Make a link that logs a browser in, once.", LoginLink, 201, errors=(409,)
    ),
    Operation("POST", "/v1/login", exchange, "Exchange the code of a link for a session.", Login, body=Code),
    Operation("GET", "/v1/login/session", who, "Who is asking.", Login),
    Operation("DELETE", "/v1/login/session", leave, "Log out.", Login),
)
PUBLIC = frozenset(("/v1/login",))
