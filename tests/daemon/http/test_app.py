"""Every route of a real daemon over its socket: its answers, their status, and its refusals."""

from __future__ import annotations

import base64
import json
import time
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from holdfast.daemon.http.wire.types import Report
from holdfast.state.directory import StateDirectory

from ...support.daemons import Gate, daemon
from ...support.durable import journal_bytes, put_run
from ...support.web import connect, fetch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ...support.children import Children
    from ...support.daemons import Answer, Daemon

pytestmark = pytest.mark.guard
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """One daemon for all tests here: each makes runs of its own."""
    with daemon(tmp_path_factory.mktemp("http") / "state") as started:
        yield started


def post(running: Daemon, path: str, body: Any = None) -> Answer:
    return running.request("POST", path, {} if body is None else body)


def problem(answer: Answer) -> str:
    """The kind of a problem; also checks the fields that all problems have."""
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.body["status"] == answer.status
    assert answer.body["title"]
    return str(answer.body["type"].removeprefix("urn:holdfast:problem:"))


# Posting and looking.


def test_a_posted_run_is_answered_with_its_report(running: Daemon) -> None:
    answer = post(running, "/v1/runs", {"argv": ["sh", "-c", "exit 3"], "name": "three", "labels": {"a": "b"}})
    assert answer.status == 201
    run_id = answer.body["run_id"]
    assert answer.headers["location"] == f"/v1/runs/{run_id}"
    assert answer.headers["holdfast-run"] == run_id
    assert answer.body["queued_at"].endswith("Z")
    settled = running.wait(run_id)
    assert (settled["status"], settled["cause"], settled["exit_code"]) == ("failed", "exit", 3)
    assert (settled["name"], settled["labels"], settled["queued_at"]) == ("three", {"a": "b"}, answer.body["queued_at"])
    shown = running.request("GET", f"/v1/runs/{run_id}")
    assert shown.body == settled
    assert (shown.headers["holdfast-status"], shown.headers["holdfast-exit-code"]) == ("failed", "3")
    evidence = running.request("GET", f"/v1/runs/{run_id}/evidence").body
    assert evidence == {"run_id": run_id, "evidence": settled["evidence"]}


def test_a_report_has_the_fields_of_its_type_and_no_others(running: Daemon) -> None:
    report = running.wait(running.submit(["true"])["run_id"])
    assert list(report) == list(Report.__struct_fields__)
    assert "problem" not in {name for name in report if report[name] is not None}
    assert msgspec.convert(report, Report, strict=True)


def test_a_command_that_is_not_there_is_a_run_that_failed(running: Daemon) -> None:
    report = running.wait(running.submit(["/no/such/command"])["run_id"])
    assert (report["status"], report["cause"]) == ("failed", "spawn")


def test_started_is_told_of_what_is_let_go_and_the_verdict_says_that_nothing_ran(running: Daemon) -> None:
    """The start is on record before exec, so the success of exec is not known yet."""
    events = running.events()
    run_id = running.submit(["/no/such/command"])["run_id"]
    told: list[tuple[str, str | None, str | None]] = []
    while len(told) < 4:
        found = events.next()
        assert found is not None
        if found[1]["run_id"] == run_id:
            told.append((found[0], found[1]["report"]["status"], found[1]["report"]["cause"]))
    events.close()
    assert [kind for kind, _, _ in told] == ["run.queued", "run.started", "run.verdict", "run.settled"]
    assert told[2] == ("run.verdict", "failed", "spawn")


def test_the_same_key_is_the_same_run(running: Daemon) -> None:
    body = {"argv": ["echo", "once"]}
    first = running.request("POST", "/v1/runs", body, {"Idempotency-Key": "one"})
    again = running.request("POST", "/v1/runs", body, {"Idempotency-Key": "one"})
    other = running.request("POST", "/v1/runs", {"argv": ["echo", "twice"]}, {"Idempotency-Key": "one"})
    assert (first.status, again.status) == (201, 200)
    assert first.body["run_id"] == again.body["run_id"]
    assert (other.status, problem(other), other.body["run_id"]) == (409, "idempotency-conflict", first.body["run_id"])
    running.wait(first.body["run_id"])


@pytest.mark.parametrize("key", ["", "x" * 256, "caf\xe9"])
def test_a_key_that_would_not_be_found_again_is_refused(running: Daemon, key: str) -> None:
    answer = running.request("POST", "/v1/runs", {"argv": ["true"]}, {"Idempotency-Key": key})
    assert (answer.status, answer.body["field"]) == (422, "Idempotency-Key")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, None),
        ({"argv": []}, "argv"),
        ({"argv": "true"}, "argv"),
        ({"argv": [""]}, "argv"),
        ({"argv": ["a\0b"]}, "argv"),
        ({"argv": ["true"], "timeout": 3}, None),
        ({"argv": ["true"], "timeout_s": -1}, "timeout_s"),
        ({"argv": ["true"], "timeout_s": "3"}, "timeout_s"),
        ({"argv": ["true"], "timeout_s": 1e300}, "timeout"),
        ({"argv": ["true"], "env": {"A": 1}}, "env"),
        ({"argv": ["true"], "env": {"": "x"}}, "env"),
        ({"argv": ["true"], "cwd": "relative"}, "cwd"),
        ({"argv": ["true"], "stdin": "inherit"}, "stdin"),
        ({"argv": ["true"], "ladder": "TERM:x"}, "ladder"),
        ({"argv": ["true"], "session": "../up"}, "session"),
        ({"argv": ["true"], "run_id": "../up"}, "run_id"),
        ({"argv": ["true"], "labels": {"a=b": "c"}}, "labels"),
        ({"argv": ["true"], "on_verdict": {"url": "file:///etc/passwd"}}, "on_verdict"),
        ({"argv": ["true"], "priority": 10**30}, "priority"),
        ([], None),
        ("true", None),
        (None, None),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_started(running: Daemon, body: Any, field: str | None) -> None:
    before = running.request("GET", "/v1/runs?limit=1").body
    raw = fetch(running, "/v1/runs", method="POST", body=json.dumps(body).encode(), headers=JSON)
    assert raw.status == 422, raw.body
    assert str(raw.json.get("field", "")).split(".")[0] == (field or ""), raw.json
    assert raw.json["remedy"]
    assert running.request("GET", "/v1/runs?limit=1").body == before


@pytest.mark.parametrize("number", ["1.0", "1e0", "10e-1", "1"])
def test_an_integer_may_be_written_as_json_schema_allows(running: Daemon, number: str) -> None:
    body = b'{"argv": ["true"], "priority": %s, "pids": 5e1, "timeout_s": 9}' % number.encode()
    answer = fetch(running, "/v1/runs", method="POST", body=body, headers={**JSON, "Idempotency-Key": "integers"})
    assert answer.status in (200, 201), answer.body  # all of them are the same run
    running.wait(answer.json["run_id"])
    assert running.request("GET", f"/v1/runs/{answer.json['run_id']}/spec").body["spec"]["pids"] == 50


@pytest.mark.parametrize("number", ["1.5", "1e300", '"1"', "true", "[1.0]"])
def test_control_a_number_that_is_no_integer_is_refused(running: Daemon, number: str) -> None:
    body = b'{"argv": ["true"], "priority": %s}' % number.encode()
    answer = fetch(running, "/v1/runs", method="POST", body=body, headers=JSON)
    assert (answer.status, answer.json["field"]) == (422, "priority")


def test_the_document_says_that_the_programs_name_is_not_empty(running: Daemon) -> None:
    argv = running.request("GET", "/openapi.json").body["components"]["schemas"]["Submission"]["properties"]["argv"]
    assert argv["prefixItems"] == [{"type": "string", "minLength": 1}]
    assert running.request("POST", "/v1/runs", {"argv": ["", "x"]}).status == 422
    running.wait(running.submit(["true", ""])["run_id"])


@pytest.mark.parametrize(
    ("posted", "limit", "beyond"),
    [
        ({}, 1 << 30, "roll"),
        ({"max_output_bytes": 5000}, 5000, "stop"),
        ({"max_output_bytes": 5000, "on_max_output": "roll"}, 5000, "roll"),
        ({"on_max_output": "stop"}, None, "stop"),
    ],
)
def test_a_posted_run_keeps_at_most_a_gibibyte(
    running: Daemon, posted: dict[str, Any], limit: int | None, beyond: str
) -> None:
    run_id = running.submit(["seq", "1", "400"], **posted)["run_id"]
    report = running.wait(run_id)
    spec = running.request("GET", f"/v1/runs/{run_id}/spec").body["spec"]
    assert (spec.get("max_output_bytes"), spec["on_max_output"]) == (limit, beyond)
    assert report["output"]["complete"] is True


def test_a_run_id_of_ones_own_is_taken_once(running: Daemon) -> None:
    assert running.submit(["true"], run_id="mine-1")["run_id"] == "mine-1"
    again = post(running, "/v1/runs", {"argv": ["true"], "run_id": "mine-1"})
    assert (again.status, problem(again), again.body["run_id"]) == (409, "run-exists", "mine-1")
    running.wait("mine-1")


# Waiting.


def test_a_wait_answers_at_the_verdict_and_not_after_the_child(running: Daemon, child: Children) -> None:
    run_id = running.submit(child("ignores_term"), timeout_s=1, grace_s=600)["run_id"]
    began = time.monotonic()
    at_verdict = running.request("GET", f"/v1/runs/{run_id}/wait?timeout_s=60").body
    assert time.monotonic() - began < 30
    assert (at_verdict["state"], at_verdict["status"], at_verdict["cause"]) == ("stopping", "timed_out", "deadline")
    not_yet = running.request("GET", f"/v1/runs/{run_id}/wait?until=settled&timeout_s=0").body
    assert not_yet["state"] == "stopping"
    running.cancel(run_id, now=True)
    settled = running.wait(run_id)
    assert (settled["state"], settled["status"], settled["cause"]) == ("settled", "timed_out", "deadline")


def test_a_wait_whose_time_is_up_tells_how_it_is(running: Daemon, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    run_id = running.submit(gate.waits())["run_id"]
    running.until_output(run_id)
    answer = running.request("GET", f"/v1/runs/{run_id}/wait?timeout_s=0.05")
    assert (answer.status, answer.body["state"], answer.body["status"]) == (200, "running", None)
    gate.open()
    assert running.wait(run_id)["status"] == "succeeded"


def test_a_waiter_that_goes_away_leaves_nothing(running: Daemon, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    run_id = running.submit(gate.waits())["run_id"]
    connection = connect(running)
    connection.request("GET", f"/v1/runs/{run_id}/wait?timeout_s=3600")
    running.until_output(run_id)
    connection.close()
    gate.open()
    assert running.wait(run_id)["status"] == "succeeded"
    assert not [line for line in running.lines if "ASGI" in line or "failed" in line]


@pytest.mark.parametrize("query", ["until=never", "timeout_s=-1", "timeout_s=nan", "timeout_s=inf", "timeout_s=99999"])
def test_a_wait_that_makes_no_sense_is_refused(running: Daemon, query: str) -> None:
    assert running.request("GET", f"/v1/runs/{'x'}/wait?{query}").status == 422


# Asking a live run.


def test_input_as_it_is_and_in_json(running: Daemon) -> None:
    run_id = running.submit(["sh", "-c", "echo ready; exec cat"], stdin="pipe")["run_id"]
    path = f"/v1/runs/{run_id}/input"
    octets = {"Content-Type": "application/octet-stream"}
    running.until_output(run_id)
    assert fetch(running, path, method="POST", body=b"\x00raw\xff\n", headers=octets).status == 200
    assert post(running, path, {"text": "caf\u00e9\n"}).status == 200
    last = {"data": base64.b64encode(b"\xfe\n").decode(), "eof": True}
    assert post(running, path, last).status == 200
    assert running.wait(run_id)["status"] == "succeeded"
    written = fetch(running, f"/v1/runs/{run_id}/output?offset=6").body
    assert written == b"\x00raw\xff\n" + "caf\u00e9\n".encode() + b"\xfe\n"
    over = post(running, path, {"text": "more"})
    assert (over.status, problem(over)) == (409, "refused")


@pytest.mark.parametrize("sent", [{}, {"text": "x"}, {"text": ""}, {"eof": True}])
def test_a_run_without_stdin_takes_none_whatever_is_sent(running: Daemon, tmp_path: Path, sent: dict[str, Any]) -> None:
    gate = Gate(tmp_path / "gate")
    without = running.submit(gate.waits())["run_id"]
    running.until_output(without)
    refused = post(running, f"/v1/runs/{without}/input", sent)
    assert (refused.status, problem(refused), refused.body["run_id"]) == (409, "refused", without)
    gate.open()
    assert running.wait(without)["status"] == "succeeded"


def test_a_deadline_is_moved(running: Daemon, tmp_path: Path) -> None:
    gates = [Gate(tmp_path / name) for name in ("one", "other")]
    run_id = running.submit(gates[0].waits(), timeout_s=600)["run_id"]
    endless = running.submit(gates[1].waits())["run_id"]
    for one in (run_id, endless):
        running.until_output(one)
    extended = post(running, f"/v1/runs/{run_id}/extend", {"seconds": 60})
    assert extended.status == 200
    assert [fact["limit_ns"] for fact in extended.body["evidence"] if fact["fact"] == "extended"] == [660 * 10**9]
    refused = post(running, f"/v1/runs/{endless}/extend", {"seconds": 60})
    assert (refused.status, problem(refused), refused.body["run_id"]) == (409, "refused", endless)
    for gate in gates:
        gate.open()
    assert [running.wait(one)["status"] for one in (run_id, endless)] == ["succeeded"] * 2


def test_a_signal_is_sent_and_a_terminal_resized(running: Daemon, child: Children) -> None:
    run_id = running.submit(child("reports_signals"))["run_id"]
    running.until_output(run_id)
    assert post(running, f"/v1/runs/{run_id}/resize", {"rows": 5, "columns": 7}).status == 409
    assert post(running, f"/v1/runs/{run_id}/signal", {"signal": "NOSUCH"}).status == 422
    assert post(running, f"/v1/runs/{run_id}/signal", {"signal": "USR1"}).status == 200
    running.until_output(run_id, b"got 10")
    assert post(running, f"/v1/runs/{run_id}/signal", {"signal": 9, "tree": True}).status == 200
    report = running.wait(run_id)
    assert (report["status"], report["cause"], report["signal"]) == ("failed", "signal", 9)
    terminal = running.submit(["sh", "-c", "echo ready; read -r _; stty size"], pty=True, stdin="pipe")["run_id"]
    running.until_output(terminal)
    assert post(running, f"/v1/runs/{terminal}/resize", {"rows": 5, "columns": 7}).status == 200
    assert post(running, f"/v1/runs/{terminal}/input", {"text": "\n"}).status == 200
    assert running.wait(terminal)["status"] == "succeeded"
    assert b"5 7" in fetch(running, f"/v1/runs/{terminal}/output").body


def test_a_cancel_says_why_and_comes_too_late_for_a_run_that_is_over(running: Daemon, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    run_id = running.submit(gate.waits())["run_id"]
    running.until_output(run_id)
    cancelled = running.cancel(run_id, reason="not needed")
    assert (cancelled["status"], cancelled["cause"]) == ("cancelled", "user")
    settled = running.wait(run_id)
    assert "not needed" in settled["reason"]
    assert running.cancel(run_id, reason="again", now=True) == settled
    # Without a body, too: every field is optional.
    assert fetch(running, f"/v1/runs/{run_id}/cancel", method="POST").status == 200


def test_a_run_without_webhook_has_no_deliveries(running: Daemon) -> None:
    run_id = running.submit(["true"])["run_id"]
    running.wait(run_id)
    answer = running.request("GET", f"/v1/runs/{run_id}/deliveries")
    assert (answer.status, answer.body) == (200, {"run_id": run_id, "deliveries": []})


# Sessions.


def test_a_session_is_listed_and_closed(running: Daemon, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    run_id = running.submit(gate.waits(), session="a b")["run_id"]
    running.until_output(run_id)
    listed = {found["name"]: found for found in running.request("GET", "/v1/sessions").body["sessions"]}
    assert (listed["a b"]["live"], listed["a b"]["closed"]) == (1, False)
    closed = running.request("DELETE", "/v1/sessions/a%20b?reason=done&now=true")
    assert (closed.status, closed.body["confirmed"], closed.body["survivors"]) == (200, [run_id], [])
    report = running.wait(run_id)
    assert (report["status"], report["cause"]) == ("cancelled", "session")
    refused = post(running, "/v1/runs", {"argv": ["true"], "session": "a b"})
    assert (refused.status, problem(refused)) == (409, "session-closed")
    assert running.request("DELETE", "/v1/sessions/a%20b").body["confirmed"] == []
    listed = {found["name"]: found for found in running.request("GET", "/v1/sessions").body["sessions"]}
    assert (listed["a b"]["closed"], listed["a b"]["reason"]) == (True, "done")
    opened = running.request("POST", "/v1/sessions/a%20b/open")
    assert (opened.status, opened.body) == (200, {"session": "a b", "was_closed": True})
    assert running.request("POST", "/v1/sessions/a%20b/open").body["was_closed"] is False
    again = running.submit(["true"], session="a b")["run_id"]
    assert running.wait(again)["status"] == "succeeded"


@pytest.mark.parametrize("name", ["%0A", "x" * 129, "%00", ".", ".."])
def test_what_cannot_be_a_session_is_refused(running: Daemon, name: str) -> None:
    assert running.request("DELETE", f"/v1/sessions/{name}").status == 422
    assert running.request("POST", f"/v1/sessions/{name}/open").status == 422


# Lists.


def test_pages_show_each_run_once(running: Daemon) -> None:
    made = [running.submit(["true"], session="paged", labels={"n": str(number)})["run_id"] for number in range(7)]
    for run_id in made:
        running.wait(run_id)
    seen: list[str] = []
    cursor = ""
    while True:
        page = running.request("GET", f"/v1/runs?session=paged&limit=3{cursor}").body
        seen += [report["run_id"] for report in page["runs"]]
        if page["cursor"] is None:
            break
        cursor = f"&cursor={page['cursor']}"
    assert seen == made[::-1]


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("", 3),
        ("status=failed", 1),
        ("status=failed&status=cancelled", 2),
        ("cause=user", 1),
        ("cause=user&cause=exit", 3),
        ("label=kind=b", 1),
        ("label=kind=b&label=also=b", 0),
        ("name=third", 1),
        ("state=settled", 3),
        ("state=running", 0),
        ("state=running&state=settled", 3),
        ("since=2020-01-01T00:00:00Z", 3),
        ("until=2020-01-01T00:00:00Z", 0),
        ("until=9999-12-31T23:59:59Z&since=0001-01-01T00:00:00Z", 3),
        ("parent=null", 0),
    ],
)
def test_filters(running: Daemon, filtered: None, query: str, count: int) -> None:
    del filtered
    found = running.request("GET", f"/v1/runs?session=filtered&{query}")
    assert (found.status, len(found.body["runs"])) == (200, count)


@pytest.fixture(scope="module")
def filtered(running: Daemon) -> None:
    """Three runs: one that fails, one that is cancelled, one that succeeds."""
    fails = running.submit(["false"], session="filtered", labels={"kind": "a"})["run_id"]
    stopped = running.submit(["sleep", "600"], session="filtered", labels={"kind": "b"})["run_id"]
    named = running.submit(["true"], session="filtered", name="third")["run_id"]
    running.cancel(stopped, now=True)
    for run_id in (fails, stopped, named):
        running.wait(run_id)


@pytest.mark.parametrize(
    "query",
    [
        "cursor=",
        "cursor=0",
        "cursor=..%2F..%2Fetc",
        "cursor=1.",
        "cursor=-1.x",
        "cursor=99999999999999999999999.x",
        "cursor=%00",
        "cursor=1%27%20OR%201=1.x",
        "limit=0",
        "limit=1001",
        "limit=x",
        "status=running",
        "cause=bogus",
        "cause=user&cause=succeeded",
        "state=over",
        "label=without",
        "since=yesterday",
        "since=5",
        "until=0.5",
        "since=2020-01-01T00:00:00",
        "nonsense=1",
        "limit=1&limit=2",
    ],
)
def test_a_list_that_makes_no_sense_is_refused(running: Daemon, query: str) -> None:
    answer = running.request("GET", f"/v1/runs?{query}")
    assert (answer.status, problem(answer)) == (422, "invalid")


def test_a_broken_run_is_listed_with_its_problem_and_stops_nobody(running: Daemon) -> None:
    state = StateDirectory.open(str(running.state_dir))
    nonsense = b'{"argv": 5, "name": ["x"], "labels": {"a": 1}, "session": "odd"}'
    put_run(state, "odd-spec", journal_bytes("odd-spec", spec=nonsense))
    put_run(state, "odd-file", b"this is no journal")
    listed = running.request("GET", "/v1/runs?limit=1000")
    assert listed.status == 200
    problems = {report["run_id"]: report["problem"] for report in listed.body["runs"] if report["problem"]}
    assert problems.keys() >= {"odd-spec", "odd-file"}
    shown = running.request("GET", "/v1/runs/odd-spec")
    assert (shown.status, shown.body["state"]) == (200, None)
    assert "of the wrong type" in shown.body["problem"]


# Refusals for now.


def test_a_full_queue_and_a_drain_turn_runs_away_and_nothing_else(tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    with daemon(tmp_path / "state", "--max-runs", "1", "--queue-limit", "1") as running:
        first = running.submit(gate.waits())["run_id"]
        running.until_output(first)
        queued = running.submit(["true"])["run_id"]
        full = post(running, "/v1/runs", {"argv": ["true"]})
        assert (full.status, problem(full)) == (429, "queue-full")
        assert int(full.headers["retry-after"]) >= 1
        running.signal()
        running.until_line("draining")
        draining = post(running, "/v1/runs", {"argv": ["true"]})
        assert (draining.status, problem(draining)) == (503, "draining")
        assert int(draining.headers["retry-after"]) >= 1
        assert running.request("GET", "/v1/health").body["status"] == "draining"
        assert running.report(first)["state"] == "running"
        assert running.report(queued)["state"] == "queued"
        gate.open()
        assert running.exit_code() == 0


# The daemon itself.


def test_health_doctor_and_metrics(running: Daemon) -> None:
    health = running.request("GET", "/v1/health").body
    assert (health["status"], health["pid"]) == ("ok", running.process.pid)
    doctor = running.request("GET", "/v1/doctor")
    assert (doctor.status, doctor.body["daemon"]["pid"]) == (200, running.process.pid)
    assert doctor.body["findings"]
    metrics = fetch(running, "/metrics")
    assert metrics.status == 200
    assert metrics.headers["content-type"].startswith("text/plain; version=")
    assert b'holdfast_runs{state="running"}' in metrics.body


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/v1/runs", "POST, GET, HEAD"),
        ("PUT", "/v1/runs/x", "GET, HEAD"),
        ("GET", "/v1/runs/x/cancel", "POST"),
        ("POST", "/v1/health", "GET, HEAD"),
        ("TRACE", "/metrics", "GET, HEAD"),
        ("OPTIONS", "/v1/runs", "POST, GET, HEAD"),
        ("PATCH", "/v1/runs", "POST, GET, HEAD"),
        ("PATCH", "/v1/sessions/x", "DELETE"),
    ],
)
def test_another_method_is_told_which_there_are(running: Daemon, method: str, path: str, allowed: str) -> None:
    answer = running.request(method, path)
    assert (answer.status, problem(answer), answer.headers["allow"]) == (405, "method-not-allowed", allowed)
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_head_is_get_without_a_body(running: Daemon) -> None:
    got, head = fetch(running, "/v1/runs/none"), fetch(running, "/v1/runs/none", method="HEAD")
    assert (head.status, head.body) == (404, b"")
    assert head.headers["content-length"] == got.headers["content-length"]


@pytest.mark.parametrize("path", ["/", "/v1", "/v2/runs", "/v1/runs/", "/v1/runs/a/b", "/favicon.ico"])
def test_what_is_not_there(running: Daemon, path: str) -> None:
    raw = fetch(running, path)
    if path == "/" and raw.status == 200:
        return  # the dashboard
    assert (raw.status, raw.headers["content-type"]) == (404, "application/problem+json")
