"""Codes, sessions and the CSRF token, without a daemon: each with what must fail. In a browser: tests/dashboard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from holdfast.daemon.http.browser.ended_sessions import EndedSessions
from holdfast.daemon.http.browser.login import CODE_S, CSRF, SESSION_S, BrowserLogins
from holdfast.daemon.http.security import Security
from holdfast.web.problems import ProblemError

if TYPE_CHECKING:
    from pathlib import Path

TOKEN = "a-token-that-is-long-enough"
TCP: dict[str, Any] = {"type": "http", "server": ("127.0.0.1", 8000), "path": "/v1/runs"}


class Clock:
    """A clock that stands still until the test moves it."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def session_of(logins: BrowserLogins) -> str:
    session = logins.exchange(logins.make_code()[0])
    assert session is not None
    return session


def refusal(logins: BrowserLogins, method: str, headers: dict[str, str]) -> int | None:
    security = Security.of(TOKEN)._replace(logins=logins)
    try:
        security.check({**TCP, "method": method}, {"host": "127.0.0.1:8000", **headers})
    except ProblemError as error:
        return error.problem.status
    return None


def test_a_code_is_used_once_and_not_for_long() -> None:
    clock = Clock()
    logins = BrowserLogins(TOKEN, clock)
    code, _ = logins.make_code()
    assert logins.exchange("wrong") is None
    assert logins.exchange(code) is not None
    assert logins.exchange(code) is None
    late, _ = logins.make_code()
    clock.now += CODE_S
    assert logins.exchange(late) is None


def test_a_code_is_for_who_asked() -> None:
    logins = BrowserLogins(TOKEN)
    code, _ = logins.make_code("user 1000")
    for other in ("user 1001", "address 192.0.2.7", None):
        with pytest.raises(ProblemError):
            logins.exchange(code, lambda other=other: other)  # type: ignore[misc]
    assert logins.exchange(code, lambda: "user 1000") is not None  # the attempts of others did not use it up
    anybodys, _ = logins.make_code()
    assert logins.exchange(anybodys, lambda: "user 1001") is not None


def test_a_wrong_code_does_not_make_us_look_for_its_user() -> None:
    def look() -> str:
        raise AssertionError("a stranger can make the daemon read the table of sockets")

    assert BrowserLogins(TOKEN).exchange("wrong", look) is None


def test_a_session_that_logged_out_is_over_also_after_a_restart(tmp_path: Path) -> None:
    clock = Clock()
    logins = BrowserLogins(TOKEN, clock, EndedSessions(str(tmp_path)))
    session, other = session_of(logins), session_of(logins)
    headers = {"cookie": f"{logins.cookie}={session}", CSRF: logins.csrf(session)}
    assert refusal(logins, "POST", headers) is None
    logins.end(session)
    assert refusal(logins, "GET", headers) == refusal(logins, "POST", headers) == 401
    again = BrowserLogins(TOKEN, clock, EndedSessions(str(tmp_path)))
    assert not again.holds(session)
    assert again.holds(other)  # control
    file = tmp_path / "ended-sessions"
    assert session not in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600
    clock.now += SESSION_S
    again.end(other)
    assert file.read_text() == ""  # a session whose time is over needs no row


def test_a_session_outlives_the_daemon_but_not_its_time_nor_the_token() -> None:
    clock = Clock()
    session = session_of(BrowserLogins(TOKEN, clock))
    assert BrowserLogins(TOKEN, clock).holds(session)
    assert not BrowserLogins(TOKEN + "2", clock).holds(session)
    assert not BrowserLogins(None, clock).holds(session)
    expires, nonce, mac = session.split(".")
    assert not BrowserLogins(TOKEN, clock).holds(f"{int(expires) + 1}.{nonce}.{mac}")
    assert not BrowserLogins(TOKEN, clock).holds(f"{expires}.{nonce}x.{mac}")
    assert not any(BrowserLogins(TOKEN, clock).holds(text) for text in ("", ".", "..", "é.é.é", "9" * 400 + ".a.b"))
    clock.now += SESSION_S
    assert not BrowserLogins(TOKEN, clock).holds(session)


def test_reading_needs_the_session_and_acting_the_csrf_token_too() -> None:
    logins = BrowserLogins(TOKEN)
    session = session_of(logins)
    cookie = {"cookie": f"other=1; {logins.cookie}={session}"}
    csrf = {CSRF: logins.csrf(session)}
    assert refusal(logins, "GET", {}) == 401
    assert refusal(logins, "GET", {"cookie": f"{logins.cookie}=made.up.session"}) == 401
    assert refusal(logins, "GET", cookie) is None
    assert refusal(logins, "POST", cookie) == 403
    assert refusal(logins, "DELETE", {**cookie, CSRF: "0" * 64}) == 403
    assert refusal(logins, "POST", {**cookie, CSRF: logins.csrf(session_of(logins))}) == 403  # of another session
    assert refusal(logins, "POST", {**cookie, **csrf}) is None
    assert refusal(logins, "POST", csrf) == 401


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_page_of_another_port_is_told_apart_by_the_browser(site: str) -> None:
    logins = BrowserLogins(TOKEN)
    session = session_of(logins)
    headers = {"cookie": f"{logins.cookie}={session}", CSRF: logins.csrf(session)}
    assert refusal(logins, "GET", {**headers, "sec-fetch-site": site}) == 403
    assert refusal(logins, "POST", {**headers, "sec-fetch-site": site}) == 403
    assert refusal(logins, "GET", {**headers, "sec-fetch-site": "same-origin"}) is None


def test_a_browser_in_a_tunnel_to_the_socket_may_not_come_by_a_name_of_others() -> None:
    unix = {"type": "http", "server": ("/state/holdfast.sock", None), "path": "/v1/runs", "method": "GET"}
    Security.of(TOKEN).check(unix, {"host": "localhost:7300", "sec-fetch-site": "same-origin"})
    Security.of(TOKEN, ["given.example"]).check(unix, {"host": "given.example"})
    for said_by_browser in ({"sec-fetch-site": "same-origin"}, {}):  # Chromium says nothing over plain HTTP
        with pytest.raises(ProblemError):
            Security.of(TOKEN).check(unix, {"host": "rebound.example", **said_by_browser})
