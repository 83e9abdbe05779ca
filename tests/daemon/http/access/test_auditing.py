"""The audit log of a real daemon: who did what from where, also what was refused; and no secret in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.access.tokens import TokenFile

from ....support.agents import write_agents
from ....support.daemons import daemon
from ....support.unprivileged import NOBODY, as_nobody
from ....support.web import fetch, port_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ....support.daemons import Daemon

pytestmark = pytest.mark.guard
# The limit of requests per second is the other protection; here the bound on records is asked alone.
ANY_RATE = ("--listen", "127.0.0.1:0", "--stranger-rate", "none")
SILENT = "from holdfast.access.audit_log import AuditLog as A; A.record = lambda *_: None"
UNBOUNDED = "from holdfast.access.refusal_bound import RefusalBound as B; B.take = lambda *_: 0"


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Daemon]:
    with daemon(tmp_path / "state", "--listen", "127.0.0.1:0") as started:
        yield started


def records(running: Daemon, query: str = "") -> list[dict[str, Any]]:
    """The records, oldest first."""
    found: list[dict[str, Any]] = running.request("GET", f"/v1/audit?limit=1000{query}").body["records"]
    return found[::-1]


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}


def test_what_changes_something_is_recorded_with_its_caller(running: Daemon) -> None:
    run_id = running.submit(["sleep", "1000"], name="secret-argument")["run_id"]
    _, secret = TokenFile(str(running.state_dir)).create("ops", "operate")
    fetch(port_of(running), f"/v1/runs/{run_id}/cancel", method="POST", body=b"{}", headers=bearer(secret))
    running.report(run_id)  # reading is not recorded
    posted, cancelled = records(running)
    assert (posted["action"], posted["by"], posted["status"], posted["run_id"]) == (
        "POST /v1/runs",
        "socket",
        201,
        run_id,
    )
    assert (posted["user"], posted["pid"], posted["address"]) == (os.geteuid(), os.getpid(), None)
    assert (cancelled["action"], cancelled["by"]) == (f"POST /v1/runs/{run_id}/cancel", "token")
    assert (cancelled["token"], cancelled["status"], cancelled["run_id"]) == ("ops", 200, run_id)
    assert cancelled["address"].startswith("127.0.0.1:")
    assert (cancelled["user"], cancelled["pid"]) == (None, None)


def test_without_the_log_nothing_is_recorded(tmp_path: Path) -> None:
    with daemon(tmp_path / "state", before=SILENT) as running:
        running.submit(["true"])
        assert records(running) == []


def test_what_is_refused_is_recorded_with_the_reason(running: Daemon) -> None:
    port = port_of(running)
    _, secret = TokenFile(str(running.state_dir)).create("ci", "read")
    fetch(port, "/v1/runs")
    fetch(port, "/v1/runs?secret=query", headers=bearer("hft_wrong-secret"))
    fetch(port, "/v1/runs", method="POST", body=b'{"argv":["true"]}', headers=bearer(secret))
    fetch(port, "/v1/runs", headers={**bearer(secret), "Host": "attacker.example"})
    fetch(
        port, "/v1/login", method="POST", body=b'{"code":"wrong-secret"}', headers={"Content-Type": "application/json"}
    )
    told = [
        (one["action"], one["by"], one["token"], one["status"], one["problem"])
        for one in records(running, "&refused=1")
    ]
    assert told == [
        ("GET /v1/runs", "nothing", None, 401, "unauthorized"),
        ("GET /v1/runs", "nothing", None, 401, "unauthorized"),
        ("POST /v1/runs", "token", "ci", 403, "role-needed"),
        ("GET /v1/runs", "nothing", None, 403, "forbidden"),
        ("POST /v1/login", "nothing", None, 401, "unauthorized"),
    ]
    log = b"".join(file.read_bytes() for file in (running.state_dir / "audit").iterdir())
    assert b"secret" not in log
    assert secret.encode() not in log


@pytest.mark.root
def test_failed_logins_of_another_user_are_recorded_and_do_not_fill_the_disk(tmp_path: Path) -> None:
    with daemon(tmp_path / "state", *ANY_RATE) as running:
        grown = _refused_many(running)
        _check_records_of_many(running, grown)


def _check_records_of_many(running: Daemon, grown: int) -> None:
    refused = records(running, "&refused=1")
    assert 10 <= len(refused) < 30
    assert grown < 20_000
    assert all(one["address"].startswith("127.0.0.1:") for one in refused)
    # The next record says how many refusals have none. It is of another source: that address has used up its share.
    _, secret = TokenFile(str(running.state_dir)).create("ci", "read")
    fetch(port_of(running), "/v1/tokens", headers=bearer(secret))
    assert records(running)[-1]["suppressed"] > 1900


@pytest.mark.root
def test_without_the_bound_they_would(tmp_path: Path) -> None:
    with daemon(tmp_path / "state", *ANY_RATE, before=UNBOUNDED) as running:
        assert _refused_many(running) > 200_000


def _refused_many(running: Daemon) -> int:
    """2,000 wrong tokens of the user `nobody`; returns how many bytes the audit log has then."""
    asks = """
import http.client, os, sys
assert os.geteuid() == int(sys.argv[2])
connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
for number in range(2000):
    connection.request("GET", "/v1/runs", headers={"Authorization": f"Bearer guess-{number}"})
    answer = connection.getresponse()
    assert answer.status == 401, answer.status
    answer.read()
"""
    words = as_nobody([sys.executable, "-c", asks, str(port_of(running)), str(NOBODY)])
    subprocess.run(words, check=True, timeout=60)
    return sum(file.stat().st_size for file in (running.state_dir / "audit").iterdir())


def test_tokens_are_on_record_whoever_made_them(running: Daemon) -> None:
    words = [sys.executable, "-m", "holdfast.cli.main", "token", "--state-dir", str(running.state_dir)]
    subprocess.run([*words, "create", "one", "--role", "admin"], check=True, capture_output=True)
    running.request("POST", "/v1/tokens", {"name": "two", "role": "read", "session": "s"})
    subprocess.run([*words, "revoke", "one"], check=True, capture_output=True)
    running.request("DELETE", "/v1/tokens/two")
    made, posted, revoked, deleted = records(running)
    assert (made["action"], made["by"], made["user"]) == ("holdfast token create one", "command", os.getuid())
    assert (posted["action"], posted["about"]) == ("POST /v1/tokens", "token two, role read, session s")
    assert revoked["action"] == "holdfast token revoke one"
    assert deleted["action"] == "DELETE /v1/tokens/two"


def test_a_token_in_the_place_of_its_name_is_not_recorded(running: Daemon) -> None:
    assert running.request("DELETE", "/v1/tokens/hft_pasted").status == 404
    assert [one["action"] for one in records(running)] == ["DELETE /v1/tokens/hft_..."]


def log_in(running: Daemon) -> dict[str, str]:
    """The cookie and the CSRF token of a new session."""
    code = running.request("POST", "/v1/login-links", {}).body["path"].partition("#login=")[2]
    kind = {"Content-Type": "application/json"}
    answer = fetch(port_of(running), "/v1/login", method="POST", body=json.dumps({"code": code}).encode(), headers=kind)
    assert answer.status == 200
    return {"Cookie": answer.headers["set-cookie"].partition(";")[0], "Holdfast-CSRF": answer.json["csrf"]}


def test_a_login_is_recorded_after_any_number_of_guesses(tmp_path: Path) -> None:
    with daemon(tmp_path / "state", *ANY_RATE) as running:
        for _ in range(20):
            fetch(port_of(running), "/v1/runs", headers=bearer("guess"))
        log_in(running)
        assert len(records(running, "&refused=1")) < 20  # the bound is in force
        assert [one["status"] for one in records(running, "&action=POST%20/v1/login") if one["by"] == "nothing"] == [
            200
        ]


def test_log_out_is_recorded_if_it_ended_a_session(running: Daemon) -> None:
    port, headers = port_of(running), log_in(running)
    _, secret = TokenFile(str(running.state_dir)).create("ci", "read")
    for _ in range(3):
        assert fetch(port, "/v1/login/session", method="DELETE", headers=bearer(secret)).status == 200
    assert records(running, "&action=DELETE") == []
    assert fetch(port, "/v1/login/session", method="DELETE", headers=headers).status == 200
    assert [one["by"] for one in records(running, "&action=DELETE")] == ["session"]


def test_runs_of_agents_are_recorded_with_their_ids(tmp_path: Path) -> None:
    write_agents(tmp_path / "state")
    with daemon(tmp_path / "state") as running:
        asked = {"model": "echo", "input": "hello"}
        response = running.request("POST", "/openai/v1/responses", asked).body["id"].removeprefix("resp_")
        running.request("POST", f"/openai/v1/responses/resp_{response}/cancel")
        message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
        call = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
        task = running.request("POST", "/a2a/echo", call).body["result"]["task"]["id"]
        running.request("POST", "/a2a/echo", {**call, "method": "CancelTask", "params": {"id": task}})
        assert [(one["run_id"], one["about"]) for one in records(running)] == [
            (response, None),
            (response, None),
            (task, "SendMessage"),
            (task, "CancelTask"),
        ]


def test_the_record_survives_the_daemon(tmp_path: Path) -> None:
    with daemon(tmp_path / "state") as running:
        running.submit(["true"], run_id="first")
        running.kill()
    with daemon(tmp_path / "state") as running:
        assert [one["run_id"] for one in records(running)] == ["first"]


def test_pages_and_filters_over_http(running: Daemon) -> None:
    for number in range(5):
        running.submit(["true"], run_id=f"run-{number}")
    first = running.request("GET", "/v1/audit?limit=3").body
    second = running.request("GET", f"/v1/audit?limit=3&cursor={first['cursor']}").body
    assert [one["run_id"] for one in (*first["records"], *second["records"])] == [f"run-{n}" for n in (4, 3, 2, 1, 0)]
    assert second["cursor"] is None
    assert [one["run_id"] for one in records(running, "&run_id=run-2")] == ["run-2"]
    assert records(running, "&until=2020-01-01T00:00:00Z") == []
    for query in ("cursor=x", "since=x", "limit=0", "unknown=1"):
        assert running.request("GET", f"/v1/audit?{query}").status == 422, query


def test_the_command_shows_it(running: Daemon) -> None:
    running.submit(["true"], run_id="mine")
    running.request("POST", "/v1/runs/absent/cancel", {})
    words = [sys.executable, "-m", "holdfast.cli.main", "audit", "--state-dir", str(running.state_dir)]
    shown = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    assert shown[0].split() == ["TIME", "WHO", "FROM", "STATUS", "ACTION", "ABOUT"]
    assert "POST /v1/runs/absent/cancel" in shown[1]
    assert "run-not-found" in shown[1]
    assert f"pid {os.getpid()}" in shown[2]
    found = subprocess.run([*words, "--json", "--run", "mine"], capture_output=True, check=True).stdout
    assert [one["run_id"] for one in json.loads(found)] == ["mine"]
