"""The access policy without a daemon: every Host, Origin and token. With a daemon: test_attack."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.daemon.http.security import Security
from holdfast.web.problems import ProblemError

TOKEN = "a-token-that-is-long-enough"
BEARER = {"authorization": f"Bearer {TOKEN}"}
UNIX: dict[str, Any] = {"type": "http", "server": ("/state/holdfast.sock", None), "path": "/v1/health"}
TCP: dict[str, Any] = {"type": "http", "server": ("127.0.0.1", 8000), "path": "/v1/health"}
SECURITY = Security.of(TOKEN, ["build.example", "[::1]"], ["/"])


def refusal(scope: dict[str, Any], headers: dict[str, str], security: Security = SECURITY) -> int | None:
    """The status of the refusal; None if the request passes."""
    try:
        security.check(scope, headers)
    except ProblemError as error:
        return error.problem.status
    return None


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST:80", "localhost.", "127.0.0.1:8000", "192.0.2.7", "[::1]:8000", "build.example:1"],
)
def test_hosts_that_nobody_else_can_have_are_answered(host: str) -> None:
    assert refusal(TCP, {"host": host, **BEARER}) is None


@pytest.mark.parametrize(
    "host",
    [
        "attacker.example",
        "localhost.attacker.example",
        "127.0.0.1.attacker.example",
        "attacker.example:8000",
        "[::1].attacker.example",
        "127.0.0.1:8000@attacker.example",
        "",
        "[",
        "[]",
        ":8000",
    ],
)
def test_a_rebound_name_is_refused_even_with_the_token(host: str) -> None:
    assert refusal(TCP, {"host": host, **BEARER}) == 403


def test_a_request_without_a_host_is_refused() -> None:
    assert refusal(TCP, BEARER) == 403


@pytest.mark.parametrize("scope", [UNIX, TCP])
@pytest.mark.parametrize(
    "origin", ["http://attacker.example", "null", "", "file://", "http://localhost:9999", "chrome-extension://x"]
)
def test_pages_from_elsewhere_are_refused_on_every_listener(scope: dict[str, Any], origin: str) -> None:
    assert refusal(scope, {"host": "localhost:8000", "origin": origin, **BEARER}) == 403


@pytest.mark.parametrize("scope", [UNIX, TCP])
def test_our_own_pages_may_ask(scope: dict[str, Any]) -> None:
    assert refusal(scope, {"host": "localhost:8000", "origin": "http://localhost:8000", **BEARER}) is None


def test_a_rebound_page_behind_a_proxy_to_the_socket_is_refused() -> None:
    assert refusal(UNIX, {"host": "attacker.example", "origin": "http://attacker.example"}) == 403
    assert refusal(UNIX, {"host": "attacker.example:7300"}) == 403  # a GET of a page to its own site has no Origin
    assert refusal(UNIX, {}) == 403


def test_the_socket_needs_no_token() -> None:
    assert refusal(UNIX, {"host": "localhost"}) is None


@pytest.mark.parametrize("text", ["", "Basic x", "Bearer nonsense", "Bearer\thft_x", f"Bearer\t{TOKEN}", "hft_x"])
def test_on_the_socket_a_token_that_is_wrong_is_refused(text: str) -> None:
    assert refusal(UNIX, {"host": "localhost", "authorization": text}) == 401
    assert refusal(UNIX, {"host": "localhost", **BEARER}) is None  # the owner's


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        f"Basic {TOKEN}",
        TOKEN,
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN[:-1]}",
        f"Bearer {TOKEN.upper()}",
        f"Bearer {TOKEN} {TOKEN}",
        "Bearer \xff\xfe",
    ],
)
def test_without_the_token_nobody_comes_in_over_tcp(authorization: str | None) -> None:
    headers = {"host": "localhost"} | ({} if authorization is None else {"authorization": authorization})
    assert refusal(TCP, headers) == 401


def test_the_word_bearer_may_be_written_as_one_likes() -> None:
    assert refusal(TCP, {"host": "localhost", "authorization": f"bEARER {TOKEN}"}) is None


def test_a_daemon_without_a_token_lets_nobody_in_over_tcp() -> None:
    assert refusal(TCP, {"host": "localhost", "authorization": "Bearer "}, Security.of(None)) == 401


def test_only_named_paths_are_open() -> None:
    assert refusal({**TCP, "path": "/"}, {"host": "localhost"}) is None
    assert refusal({**TCP, "path": "/"}, {"host": "attacker.example"}) == 403
    assert refusal({**TCP, "path": "//"}, {"host": "localhost"}) == 401


@pytest.mark.parametrize("server", [None, ("", None), ("127.0.0.1", 80)])
def test_what_is_not_known_to_be_the_socket_needs_the_token(server: Any) -> None:
    assert refusal({**UNIX, "server": server}, {"host": "localhost"}) == 401
