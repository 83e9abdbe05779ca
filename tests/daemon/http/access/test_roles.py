"""Tokens with roles and sessions, against a real daemon: what each may do, and what it may not even see."""

from __future__ import annotations

import json
import socket
import time
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.access.tokens import TokenFile

from ....support.daemons import daemon
from ....support.web import Raw, fetch, port_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ....support.daemons import Daemon

pytestmark = pytest.mark.guard
ROLES = ("read", "submit", "operate", "admin")


class Client:
    """A client of the daemon's TCP address, with a token."""

    def __init__(self, port: int, secret: str) -> None:
        self._port = port
        self.secret = secret

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Raw:
        sent = {
            "Authorization": f"Bearer {self.secret}",
            **{name.replace("_", "-"): text for name, text in headers.items()},
        }
        content = None
        if body is not None:
            content, sent["Content-Type"] = json.dumps(body).encode(), "application/json"
        return fetch(self._port, path, method=method, body=content, headers=sent)

    def post(self, argv: list[str], **fields: Any) -> str:
        answer = self.ask("POST", "/v1/runs", {"argv": argv, **fields})
        assert answer.status == 201, answer
        run_id: str = answer.json["run_id"]
        return run_id


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Daemon]:
    with daemon(tmp_path / "state", "--listen", "127.0.0.1:0") as started:
        yield started


def client(running: Daemon, name: str, role: str, *, session: str | None = None) -> Client:
    """A client with a new token, made while the daemon runs."""
    _, secret = TokenFile(str(running.state_dir)).create(name, role, session=session)
    return Client(port_of(running), secret)


@pytest.fixture
def clients(running: Daemon) -> dict[str, Client]:
    return {role: client(running, f"my-{role}", role) for role in ROLES}


# What each request needs. The run `live` was posted by the owner.
NEEDS = [
    ("GET", "/v1/runs", None, "read"),
    ("GET", "/v1/runs/live", None, "read"),
    ("GET", "/v1/runs/live/output", None, "read"),
    ("GET", "/v1/health", None, "read"),
    ("GET", "/v1/search?q=x", None, "read"),
    ("GET", "/v1/hosts", None, "read"),
    ("POST", "/v1/runs", {"argv": ["true"]}, "submit"),
    ("POST", "/v1/runs/live/signal", {"signal": "CONT"}, "operate"),
    ("POST", "/v1/runs/live/extend", {"seconds": 1}, "operate"),
    ("POST", "/v1/runs/live/input", {"text": ""}, "operate"),
    ("DELETE", "/v1/sessions/none", None, "operate"),
    ("POST", "/v1/sessions/none/open", None, "operate"),
    ("GET", "/v1/doctor", None, "operate"),
    ("GET", "/v1/config", None, "admin"),
    ("GET", "/v1/tokens", None, "admin"),
    ("POST", "/v1/tokens", {"name": "new", "role": "read"}, "admin"),
    ("DELETE", "/v1/tokens/new", None, "admin"),
    ("POST", "/v1/login-links", {}, "admin"),
]


def test_each_role_may_do_what_it_is_for_and_nothing_more(running: Daemon, clients: dict[str, Client]) -> None:
    running.submit(["sleep", "1000"], run_id="live", timeout_s=1000, stdin="pipe")
    for method, path, body, needed in NEEDS:
        for role, asking in clients.items():
            answer = asking.ask(method, path, body)
            seen = (method, path, role, answer.status)
            if ROLES.index(role) < ROLES.index(needed):
                assert answer.status == 403, seen
                problem = answer.json
                assert problem["type"] == "urn:holdfast:problem:role-needed"
                # A submitter may touch its own runs, so a reader is told of that role.
                told = "submit" if role == "read" and path.startswith("/v1/runs/live/") else needed
                assert problem["role"] == told, problem
                assert f"the role {told}" in problem["detail"]
                assert f"my-{role}" in problem["detail"]
            else:
                assert answer.status in (200, 201), seen
    assert running.cancel("live")["status"] == "cancelled"


def test_a_submitter_ends_its_own_runs_and_no_others(running: Daemon, clients: dict[str, Client]) -> None:
    theirs = running.submit(["sleep", "1000"])["run_id"]
    mine = clients["submit"].post(["sleep", "1000"])
    report = clients["read"].ask("GET", f"/v1/runs/{mine}").json
    assert report["labels"] == {"holdfast.token": "my-submit"}
    refused = clients["submit"].ask("POST", f"/v1/runs/{theirs}/cancel", {})
    assert (refused.status, refused.json["role"]) == (403, "operate")
    assert clients["submit"].ask("POST", f"/v1/runs/{mine}/cancel", {}).json["status"] == "cancelled"
    assert running.report(theirs)["status"] is None
    assert clients["operate"].ask("POST", f"/v1/runs/{theirs}/cancel", {}).json["status"] == "cancelled"


def test_nobody_claims_the_runs_of_another_token(clients: dict[str, Client]) -> None:
    asked = {"argv": ["true"], "labels": {"holdfast.token": "my-admin"}}
    answer = clients["submit"].ask("POST", "/v1/runs", asked)
    assert (answer.status, answer.json["field"]) == (403, "labels")


def test_a_revoked_token_is_refused_at_the_next_request(running: Daemon) -> None:
    reader = client(running, "ci", "read")
    assert reader.ask("GET", "/v1/runs").status == 200
    assert running.request("DELETE", "/v1/tokens/ci").status == 200
    answer = reader.ask("GET", "/v1/runs")
    assert answer.status == 401
    assert answer.json["detail"] == "the token is wrong, or was revoked"
    assert running.request("DELETE", "/v1/tokens/ci").status == 404


def test_a_token_ends_at_its_end_date(running: Daemon) -> None:
    # The end date is moved in the file, as if the time had passed: nothing here waits.
    reader = client(running, "ci", "read")
    path = running.state_dir / "tokens.json"
    content = json.loads(path.read_text())
    for end_ns, status in ((time.time_ns() + 3600 * 10**9, 200), (time.time_ns() - 1, 401)):
        content["tokens"][0]["expires_ns"] = end_ns
        path.write_text(json.dumps(content))
        assert reader.ask("GET", "/v1/runs").status == status
    assert reader.ask("GET", "/v1/runs").json["detail"] == "the end date of the token has passed"
    assert running.request("GET", "/v1/tokens").body["tokens"][0]["expired"] is True


def test_a_token_is_shown_once_and_is_in_no_file_and_no_log(running: Daemon) -> None:
    asked = {"name": "ci", "role": "submit", "session": "nightly", "expires_at": "2099-01-01T00:00:00Z"}
    made = running.request("POST", "/v1/tokens", asked)
    assert made.status == 201
    secret = made.body.pop("token")
    assert made.body == running.request("GET", "/v1/tokens").body["tokens"][0]
    assert made.body["expires_at"] == "2099-01-01T00:00:00.000000Z"
    assert running.request("POST", "/v1/tokens", asked).body["type"] == "urn:holdfast:problem:token-exists"
    asking = Client(port_of(running), secret)
    run_id = asking.post(["true"])
    running.wait(run_id)
    asking.ask("POST", "/v1/login-links", {})
    running.signal()
    assert running.exit_code() == 0
    for file in running.state_dir.rglob("*"):
        assert not file.is_file() or secret.encode() not in file.read_bytes(), file
    assert secret not in "\n".join(running.lines)


@pytest.mark.parametrize("secret", ["hft_", "hft_wrong", "hft_\xff", "Hft_x"])
def test_a_token_that_nobody_made_is_refused_on_tcp(running: Daemon, secret: str) -> None:
    assert Client(port_of(running), secret).ask("GET", "/v1/runs").status == 401


def test_on_the_socket_a_token_bounds_its_client_too(running: Daemon, clients: dict[str, Client]) -> None:
    def status(secret: str) -> int:
        headers = {"Authorization": f"Bearer {secret}"}
        return running.request("POST", "/v1/runs", {"argv": ["true"]}, headers).status

    assert status(clients["read"].secret) == 403
    assert status(clients["submit"].secret) == 201
    assert status("hft_revoked") == 401
    assert status("anything-else") == 401
    assert status((running.state_dir / "token").read_text().strip()) == 201


def test_a_damaged_file_of_tokens_leaves_the_owner_in(running: Daemon, clients: dict[str, Client]) -> None:
    (running.state_dir / "tokens.json").write_text("{")
    assert clients["admin"].ask("GET", "/v1/runs").status == 503
    assert running.request("GET", "/v1/health").body["status"] == "degraded"
    owner = Client(port_of(running), (running.state_dir / "token").read_text().strip())
    assert owner.ask("GET", "/v1/runs").status == 200


# A token of one session.


@pytest.fixture
def two(running: Daemon) -> dict[str, str]:
    """A live run of the session `one` and one of the session `two`, which both have written."""
    found = {
        name: running.submit(["sh", "-c", "echo needle; exec sleep 1000"], session=name, run_id=f"in-{name}")["run_id"]
        for name in ("one", "two")
    }
    for run_id in found.values():
        running.until_output(run_id, b"needle")
    return found


def test_a_token_of_a_session_sees_only_its_runs(running: Daemon, two: dict[str, str]) -> None:
    bound = client(running, "bound", "operate", session="one")
    assert [run["run_id"] for run in bound.ask("GET", "/v1/runs").json["runs"]] == ["in-one"]
    assert [one["name"] for one in bound.ask("GET", "/v1/sessions").json["sessions"]] == ["one"]
    assert [run["run_id"] for run in bound.ask("GET", "/v1/processes").json["runs"]] == ["in-one"]
    assert {one["run_id"] for one in bound.ask("GET", "/v1/search?q=needle").json["matches"]} == {"in-one"}
    for path in ("/v1/runs?session=two", "/v1/search?q=needle&session=two", "/v1/events?session=two"):
        assert bound.ask("GET", path).status == 403
    for path in ("/v1/statistics", "/metrics", "/v1/doctor", "/v1/hosts", "/openai/v1/models"):
        assert bound.ask("GET", path).status == 403, path
    assert two == {"one": "in-one", "two": "in-two"}
    assert bound.ask("GET", "/v1/health").json["runs"]["running"] == 1
    assert running.request("GET", "/v1/health").body["runs"]["running"] == 2


def test_a_run_of_another_session_is_as_if_it_did_not_exist(running: Daemon, two: dict[str, str]) -> None:
    bound = client(running, "bound", "operate", session="one")
    for method, rest, body in (
        ("GET", "", None),
        ("GET", "/wait?timeout_s=0", None),
        ("GET", "/output", None),
        ("GET", "/spec", None),
        ("GET", "/evidence", None),
        ("GET", "/timeline", None),
        ("GET", "/processes", None),
        ("GET", "/deliveries", None),
        ("POST", "/cancel", {}),
        ("POST", "/extend", {"seconds": 1}),
        ("POST", "/signal", {"signal": "KILL"}),
        ("POST", "/input", {"text": "x"}),
        ("POST", "/resize", {"rows": 1, "columns": 1}),
    ):
        foreign = bound.ask(method, f"/v1/runs/{two['two']}{rest}", body)
        absent = bound.ask(method, f"/v1/runs/in-too{rest}", body)
        assert foreign.status == absent.status == 404, (method, rest)
        assert foreign.body.replace(b"in-two", b"") == absent.body.replace(b"in-too", b"")
    assert bound.ask("GET", "/v1/search?q=needle&run_id=in-two").status == 404
    assert bound.ask("DELETE", "/v1/sessions/two").status == 404
    assert running.report("in-two")["status"] is None
    assert bound.ask("POST", "/v1/runs/in-one/cancel", {}).status == 200
    assert bound.ask("DELETE", "/v1/sessions/one").status == 200


def test_a_token_of_a_session_starts_runs_only_there(running: Daemon, two: dict[str, str]) -> None:
    bound = client(running, "bound", "submit", session="one")
    assert running.report(bound.post(["true"]))["session"] == "one"
    assert running.report(bound.post(["true"], session="one"))["session"] == "one"
    assert bound.ask("POST", "/v1/runs", {"argv": ["true"], "session": "two"}).status == 403
    assert bound.ask("POST", "/v1/runs", {"argv": ["true"], "parent": two["two"]}).status == 404
    assert bound.ask("POST", "/v1/runs", {"argv": ["true"], "parent": two["one"]}).status == 201


def test_sessions_do_not_share_idempotency_keys(running: Daemon) -> None:
    asked = {"argv": ["true"]}
    found = [
        client(running, f"bound-{name}", "submit", session=name).ask("POST", "/v1/runs", asked, Idempotency_Key="k")
        for name in ("one", "two")
    ]
    assert [answer.status for answer in found] == [201, 201]
    assert found[0].json["run_id"] != found[1].json["run_id"]


def test_events_of_other_sessions_are_not_sent(running: Daemon) -> None:
    from http.client import HTTPConnection

    bound = client(running, "bound", "read", session="one")
    connection = HTTPConnection("127.0.0.1", port_of(running), timeout=60)
    connection.request("GET", "/v1/events?after=0", headers={"Authorization": f"Bearer {bound.secret}"})
    response = connection.getresponse()
    running.wait(running.submit(["true"], session="two")["run_id"])
    running.wait(running.submit(["true"], session="one", run_id="mine")["run_id"])
    seen = set()
    while "run.settled" not in seen:
        line = response.readline().decode()
        if line.startswith("event: run."):
            seen.add(line.split()[1])
        elif line.startswith("data:") and "run_id" in line:
            assert json.loads(line[5:])["run_id"] == "mine"
    connection.close()


NOT_AGAIN = "from holdfast.daemon.http.access import open_requests as o; o.EVERY_S = 1e6"


@pytest.mark.parametrize("path", ["/v1/events", "/v1/runs/live/output?follow=true", "/v1/runs/live/wait?timeout_s=600"])
def test_an_open_stream_ends_with_its_token(running: Daemon, path: str) -> None:
    running.submit(["sleep", "1000"], run_id="live")
    response = _opened(running, client(running, "ci", "read"), path)
    TokenFile(str(running.state_dir)).revoke("ci")
    assert _is_cut(response)


def test_without_another_look_it_would_go_on(tmp_path: Path) -> None:
    with daemon(tmp_path / "state", "--listen", "127.0.0.1:0", before=NOT_AGAIN) as running:
        stream = _opened(running, client(running, "ci", "read"), "/v1/events")
        TokenFile(str(running.state_dir)).revoke("ci")
        stream.settimeout(3.0)
        running.submit(["true"], run_id="seen")
        seen = b""
        while b"seen" not in seen:
            part = stream.recv(65536)
            assert part
            seen += part
        stream.close()


def _opened(running: Daemon, asking: Client, path: str) -> socket.socket:
    """A connection with a request that is under way: the daemon has answered, or waits."""
    connected = socket.create_connection(("127.0.0.1", port_of(running)), timeout=60)
    head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {asking.secret}\r\n\r\n"
    connected.sendall(head.encode())
    if "wait" not in path:
        assert connected.recv(12) == b"HTTP/1.1 200"
    return connected


def _is_cut(connected: socket.socket) -> bool:
    """Whether the daemon ends the connection, before the run is over."""
    with connected:
        try:
            while connected.recv(65536):
                pass
        except ConnectionResetError:
            pass
    return True
