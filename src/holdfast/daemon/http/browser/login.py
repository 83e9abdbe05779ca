"""Browser login: a one-time code is exchanged for a session cookie, and every action also needs a CSRF token.

`holdfast open` asks for a code over the Unix socket (or with the token) and opens the page with the code after `#`,
through a file that only its user can read: other users can read the command line of a browser.
Browsers never send that part of a URL, so the code is in no log and no Referer. The page posts the code once and gets
the cookie. A code works only for who asked for it: the same user on this host (`web/peer_user.py`), or the same address
elsewhere.

The cookie is HttpOnly and SameSite=Strict. It is signed with a key derived from the token, so a session survives a
restart of the daemon, and a new token ends all sessions. Log out ends one (`ended_sessions.py`). A session whose link
was made with a named token carries the hash of that token, and ends with the token.

Neither cookies nor SameSite tell ports apart: a server of another user on another port of this host gets the cookie,
and its pages are "same site". So the cookie alone can only read. Every action also needs the CSRF token. The daemon
sends it once, in the answer to the code, and the page keeps it in the storage of its origin, which no other port can
read. A request that the browser itself marks as coming from another origin is refused.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta

from ....access.caller import UNCHANGED, Caller, caller_of
from ....access.roles import Role
from ....values.errors import StateError
from ....values.timestamps import format_timestamp
from ....web.peer_user import peer_of
from ....web.problems import FORBIDDEN, REFUSED, UNAUTHORIZED, ProblemError
from ....web.request_connection import PEER_UID, is_unix
from ..wire.operation import Operation, OperationCall, answer
from ..wire.types import Time
from .ended_sessions import EndedSessions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from starlette.responses import Response
    from starlette.types import Scope

    from ....access.tokens import AccessToken, TokenFile

CODE_S = 60.0
SESSION_S = 7 * 86_400
CSRF = "holdfast-csrf"
_SAFE = ("GET", "HEAD", "OPTIONS")
_MOST_CODES = 100
_LARGEST = 1024  # bytes of a body that anybody may send
_OPEN = "run `holdfast open` on the daemon's host, and use the link it prints"
_ANY_USER = "open it as the user who asked for it; through a proxy or from another host, use `holdfast open --any-user`"


class LoginCode(NamedTuple):
    """A code that is still valid: when it expires, and the peer that may use it (None: anybody who has it)."""

    end: float
    peer: str | None
    digest: str | None  # the hash of the named token that asked for it


class BrowserLogins:
    """The codes that are still valid, and the check of sessions. Without a token there is no TCP and no login."""

    def __init__(
        self,
        token: str | None,
        now: Callable[[], float] = time.time,
        ended: EndedSessions | None = None,
        tokens: TokenFile | None = None,
    ) -> None:
        self._key = _session_key(token)
        self._codes: dict[str, LoginCode] = {}
        self._now = now
        self._ended = ended or EndedSessions()
        self._tokens = tokens
        self.addresses: list[str] = []  # URLs of the TCP listeners, set when they are open
        # Opens a TCP listener for browsers, and returns the token and the URL.
        self.opener: Callable[[], tuple[str, str]] | None = None

    @property
    def cookie(self) -> str:
        """The name of the cookie. All ports of a host share cookies: daemons with other tokens use other names."""
        return f"holdfast-{self._mac('name')[:8]}"

    def open(self) -> None:
        """Make sure that there is an address for browsers. HoldfastError: none can be opened."""
        if not self.addresses and self.opener is not None:
            token, address = self.opener()
            self._key = _session_key(token)
            self.addresses = [address]

    def make_code(self, peer: str | None = None, digest: str | None = None) -> tuple[str, float]:
        """Make a code for this peer (None: for anybody who has it); returns it with the time it expires at.

        `digest` is the hash of the named token that asks: the session ends with this token.
        """
        now = self._now()
        self._codes = {digest: known for digest, known in self._codes.items() if known.end > now}
        while len(self._codes) >= _MOST_CODES:
            del self._codes[next(iter(self._codes))]
        code, end = secrets.token_urlsafe(32), now + CODE_S
        self._codes[_digest(code)] = LoginCode(end, peer, digest)
        return code, end

    def exchange(self, code: str, who: Callable[[], str | None] = lambda: None) -> str | None:
        """Exchange a code for a session; None when the code is wrong, expired or already used.

        `who` returns the peer that asks. ProblemError 403: the code is for another one, for whom it still works.
        """
        digest = _digest(code)  # the time of a lookup by digest tells nothing about the code
        known = self._codes.get(digest)
        if self._key is None or known is None or known.end <= self._now():
            return None
        if known.peer is not None and who() != known.peer:
            raise ProblemError(FORBIDDEN, "this link is for another user", remedy=_ANY_USER)
        del self._codes[digest]
        body = f"{round(self._now() + SESSION_S)}.{secrets.token_urlsafe(16)}"
        if known.digest is not None:
            body += f".{known.digest}"
        session = f"{body}.{self._mac(f'session {body}')}"
        return session if self.holds(session) else None  # the token may have been revoked since the code was made

    def holds(self, session: str) -> bool:
        """Whether we signed this session, and neither it nor the token that made it has ended."""
        return self.caller(session) is not None

    def caller(self, session: str) -> Caller | None:
        """The caller with this session: the owner, or the token that made it. None: the session does not hold."""
        body, _, mac = session.rpartition(".")
        expires = body.partition(".")[0]
        if self._key is None or not (expires.isascii() and expires.isdigit() and len(expires) < 16):
            return None
        right = hmac.compare_digest(mac.encode("utf-8", "replace"), self._mac(f"session {body}").encode())
        if not right or int(expires) <= self._now() or session in self._ended:
            return None
        match body.split("."):
            case [_, _, digest]:
                token = self._token(digest)
                return token and Caller("session", token.role, token.name, token.session, token.digest)
        return Caller("session", Role.ADMIN)

    def _token(self, digest: str) -> AccessToken | None:
        try:
            return None if self._tokens is None else self._tokens.held(digest)
        except StateError:
            return None  # every token of that file is refused

    def end(self, session: str) -> None:
        """End a session before its time: its cookie and its CSRF token work no more. OSError: see `EndedSessions`."""
        self._ended.add(session, int(session.partition(".")[0]), self._now())

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

    def admit(self, method: str, headers: Mapping[str, str]) -> Caller | None:
        """The caller whose browser session admits this request; None when there is no session.

        ProblemError 403: there is a session, but a page of another site asks, or the CSRF token is wrong.
        """
        session = self.session_of(headers)
        if session is None:
            return None
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            raise ProblemError(FORBIDDEN, "a page of another site may not ask", remedy="use the dashboard")
        given = headers.get(CSRF, "").encode("utf-8", "replace")
        if method not in _SAFE and not hmac.compare_digest(given, self.csrf(session).encode()):
            raise ProblemError(FORBIDDEN, "the CSRF token is missing or wrong", remedy=f"log in again: {_OPEN}")
        return self.caller(session)

    def _mac(self, text: str) -> str:
        return hmac.new(self._key or b"", text.encode(), "sha256").hexdigest()


def _session_key(token: str | None) -> bytes | None:
    return None if token is None else hmac.digest(token.encode(), b"holdfast sessions 1", "sha256")


def _digest(code: str) -> str:
    return hashlib.sha256(code.encode("utf-8", "replace")).hexdigest()


class LinkWanted(msgspec.Struct, forbid_unknown_fields=True):
    """Who may use the link: the user who asks, or anybody who has it."""

    any_user: bool = False


class LoginLink(msgspec.Struct):
    """A link that logs a browser in once: one of `urls`, or `path` at any other address of this daemon."""

    path: str
    urls: list[str]
    expires_at: Time


class Code(msgspec.Struct, forbid_unknown_fields=True):
    """The one-time code of a login link."""

    code: Annotated[str, Meta(min_length=1, max_length=200)]


class Login(msgspec.Struct):
    """How the daemon knows the client. With a `session`, every action sends `csrf` in the header Holdfast-CSRF.

    Only the answer to the code of a link has a `csrf`.
    """

    by: Literal["session", "token", "socket"]
    csrf: str | None


async def make_link(call: OperationCall) -> Response:
    """Make a login link. ProblemError: a session asks, which could prolong itself for ever. HoldfastError: no port."""
    logins = logins_of(call)
    if not is_unix(call.request.scope) and "authorization" not in call.request.headers:
        raise ProblemError(FORBIDDEN, "a browser session cannot make a login link", remedy=_OPEN)
    logins.open()
    peer = None if call.body.any_user else _peer(call.request.scope)
    if peer is None and not call.body.any_user:
        raise ProblemError(REFUSED, "the kernel does not say which user asks", remedy="use `holdfast open --any-user`")
    code, end = logins.make_code(peer, caller_of(call.request.scope).digest)
    path = f"/#login={code}"
    expires_at = format_timestamp(round(end * 1e9))
    return answer(LoginLink(path, [f"{url}{path}" for url in logins.addresses], expires_at), 201)


async def exchange(call: OperationCall) -> Response:
    """Exchange the code for the session cookie."""
    logins = logins_of(call)
    session = logins.exchange(call.body.code, lambda: _peer(call.request.scope))
    if session is None:
        raise ProblemError(UNAUTHORIZED, "this link is wrong, has expired, or was used before", remedy=_OPEN)
    response = answer(Login("session", logins.csrf(session)))
    _set_cookie(call, response, session, SESSION_S)
    return response


async def who(call: OperationCall) -> Response:
    """Tell the page how the daemon knows it, before the page asks for anything else."""
    if is_unix(call.request.scope):
        return answer(Login("socket", None))
    # Never the CSRF token: who has only the cookie could ask for it, too.
    return answer(Login("token" if "authorization" in call.request.headers else "session", None))


async def leave(call: OperationCall) -> Response:
    """Log out: end the session, and make the browser forget the cookie."""
    logins = logins_of(call)
    session = logins.session_of(call.request.headers)
    if session is not None:
        logins.end(session)
    else:
        call.request.scope["state"][UNCHANGED] = True
    response = answer(Login("session", None))
    _set_cookie(call, response, "", 0)
    return response


def logins_of(call: OperationCall) -> BrowserLogins:
    """The logins that this application holds."""
    found: BrowserLogins = call.request.app.state.logins
    return found


def _peer(scope: Scope) -> str | None:
    uid = scope.get("state", {}).get(PEER_UID)
    return peer_of(scope) if uid is None else f"user {uid}"


def _set_cookie(call: OperationCall, response: Response, value: str, age_s: int) -> None:
    # TLS of ours, or of a server in front of us: the browser then says so in Origin.
    has_tls = call.request.url.scheme == "https" or call.request.headers.get("origin", "").startswith("https:")
    response.set_cookie(
        logins_of(call).cookie, value, max_age=age_s, path="/", secure=has_tls, httponly=True, samesite="strict"
    )


OPERATIONS = (
    Operation(
        "POST",
        "/v1/login-links",
        make_link,
        "Make a link that logs a browser in once.",
        LoginLink,
        201,
        body=LinkWanted,
        largest=_LARGEST,
        errors=(409,),
    ),
    Operation(
        "POST", "/v1/login", exchange, "Exchange the code of a link for a session.", Login, body=Code, largest=_LARGEST
    ),
    Operation("GET", "/v1/login/session", who, "How the client is known.", Login),
    Operation("DELETE", "/v1/login/session", leave, "Log out.", Login),
)
PUBLIC = frozenset(("/v1/login",))
