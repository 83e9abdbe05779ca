"""Listeners of a real daemon: event streams with output, webhooks over crashes, metrics."""

from __future__ import annotations

import base64
import json
import signal
import stat
from http.client import HTTPResponse
from typing import TYPE_CHECKING, Any

from tests.support.daemons import BOUND_S, EventStream, Gate, UnixConnection, daemon
from tests.support.processes import wait_exited

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.daemons import Daemon
    from tests.support.hooks import Hook


def listen(running: Daemon, query: str) -> EventStream:
    connection = UnixConnection(running.socket)
    connection.request("GET", f"/v1/events{query}")
    response: HTTPResponse = connection.getresponse()
    assert response.status == 200
    response.readline()
    return EventStream(connection, response)


def delivery(running: Daemon, run_id: str) -> dict[str, Any]:
    (found,) = running.request("GET", f"/v1/runs/{run_id}/deliveries").body["deliveries"]
    return dict(found)


def test_output_comes_before_the_verdict_and_late_output_only_to_those_who_ask(tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    argv = ["sh", "-c", "trap 'read -r _ < \"$0\"; echo late; exit 0' TERM; echo ready; while :; do sleep 1; done"]
    with daemon(tmp_path / "s") as running:
        plain, full = listen(running, "?output=1"), listen(running, "?output=1&late=1")
        run_id = running.submit([*argv, str(gate.path)], grace_s=60)["run_id"]
        assert base64.b64decode(plain.until("run.output", run_id)["data"]) == b"ready\n"
        running.cancel(run_id)
        plain.until("run.verdict", run_id)
        gate.open()
        late = full.until("run.output", run_id)
        while not late["late"] or late["stream"] == "stderr":  # where the shell reports the end of its sleep
            late = full.until("run.output", run_id)
        assert (late["offset"], late["length"], base64.b64decode(late["data"])) == (6, 5, b"late\n")
        kinds = []
        while (found := plain.next()) is not None:
            kinds.append(found[0])
            if found[0] == "run.settled":
                break
        assert kinds == ["run.settled"]
        for stream in (plain, full):
            stream.close()


def test_a_webhook_for_a_verdict_that_no_daemon_saw(tmp_path: Path, hook: Hook) -> None:
    gate = Gate(tmp_path / "gate")
    with daemon(tmp_path / "s") as running:
        run_id = running.submit(gate.waits("exit 9"), on_verdict={"url": hook.url})["run_id"]
        running.until_output(run_id)
        assert delivery(running, run_id)["state"] == "waiting"
        pid = running.report(run_id)["pid"]
        running.kill()
    gate.open()
    wait_exited(pid)
    with daemon(tmp_path / "s") as running:
        name, body = hook.taken.get(timeout=BOUND_S)
        assert (name, body["data"]["run_id"]) == (f"{run_id}.verdict", run_id)
        assert (body["data"]["report"]["status"], body["data"]["report"]["exit_code"]) == ("failed", 9)
        running.signal(signal.SIGTERM)
        assert running.exit_code() == 0
    with daemon(tmp_path / "s") as running:
        told = delivery(running, run_id)
        assert (told["state"], told["tries"]) == ("delivered", 1)
    assert hook.taken.empty()
    assert stat.S_IMODE((tmp_path / "s" / "webhook-secret").stat().st_mode) == 0o600


def test_a_webhook_that_failed_is_tried_again_by_the_next_daemon(tmp_path: Path, hook: Hook) -> None:
    hook.answer = 503
    with daemon(tmp_path / "s") as running:
        run_id = running.submit(["true"], on_verdict={"url": hook.url})["run_id"]
        first = hook.taken.get(timeout=BOUND_S)
        hook.answer = 204
        running.kill()
    with daemon(tmp_path / "s") as running:
        assert hook.taken.get(timeout=BOUND_S) == first  # the same id, the same body
        assert running.report(run_id)["status"] == "succeeded"
        shown = json.dumps([running.lines, delivery(running, run_id)])
        assert "secret" not in shown.replace("webhook-secret", "")


def test_metrics_of_a_real_daemon(tmp_path: Path) -> None:
    with daemon(tmp_path / "s") as running:
        events = running.events()
        for argv in (["true"], ["false"], ["true"]):
            events.until("run.settled", running.submit(argv)["run_id"])
        connection = UnixConnection(running.socket)
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        connection.close()
        events.close()
        assert 'holdfast_verdicts_total{cause="exit",status="succeeded"} 2.0' in text
        assert 'holdfast_verdicts_total{cause="exit",status="failed"} 1.0' in text
        assert "holdfast_event_subscribers 1.0" in text
        assert 'holdfast_runs{state="queued"} 0.0' in text
        assert "holdfast_verdict_delay_seconds_count 3.0" in text


def test_a_verdict_of_the_shutdown_is_delivered_before_the_daemon_leaves(tmp_path: Path, hook: Hook) -> None:
    gate = Gate(tmp_path / "gate")
    with daemon(tmp_path / "s", "--on-shutdown", "cancel") as running:
        run_id = running.submit(gate.waits(), on_verdict={"url": hook.url})["run_id"]
        running.until_output(run_id)
        running.signal(signal.SIGTERM)
        assert running.exit_code() == 0
    name, body = hook.taken.get_nowait()
    report = body["data"]["report"]
    assert (name, report["status"], report["cause"]) == (f"{run_id}.verdict", "cancelled", "shutdown")


def test_what_cannot_be_asked_for_is_a_problem_that_names_it(tmp_path: Path) -> None:
    with daemon(tmp_path / "s") as running:
        for query, field in (("?after=x", "after"), ("?types=run.exploded", "types"), ("?tpyes=", "tpyes")):
            answer = running.request("GET", f"/v1/events{query}")
            assert (answer.status, answer.body["field"]) == (422, field)
            assert answer.headers["content-type"] == "application/problem+json"
        assert running.request("POST", "/v1/events").status == 405
        assert running.request("GET", "/v1/runs/nobody/deliveries").status == 404
