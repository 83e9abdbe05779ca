"""The queue of a real daemon: order, limits, timeouts, keys, sessions, and restarts."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import stat
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from tests.support.daemons import Daemon, Gate, daemon

if TYPE_CHECKING:
    from pathlib import Path


def cli(state: Path, *words: str) -> Any:
    command = [sys.executable, "-m", "holdfast.cli.main", *words, "--json", "--state-dir", str(state)]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def rows(state: Path, table: str) -> list[Any]:
    connection = sqlite3.connect(state / "daemon.sqlite")
    try:
        return connection.execute(f"SELECT * FROM {table}").fetchall()
    finally:
        connection.close()


def blocked(running: Daemon, gate: Gate) -> str:
    """A run that occupies a place until the gate is opened."""
    run_id: str = running.submit(gate.waits())["run_id"]
    running.until_output(run_id)
    return run_id


def test_priorities_limits_and_keys_decide_the_order(tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    said = tmp_path / "order"
    with daemon(tmp_path / "s", "--max-runs", "1", "--queue-limit", "4") as running:
        first = blocked(running, gate)
        order = [("low", -1), ("plain", 0), ("second", 0), ("high", 9)]
        for name, priority in order:
            report = running.submit(["sh", "-c", f"echo {name} >> {said}"], name=name, priority=priority)
            assert (report["state"], report["queued_at"] is not None, report["started_at"]) == ("queued", True, None)
        full = running.request("POST", "/v1/runs", {"argv": ["true"]})
        assert (full.status, full.body["type"].rpartition(":")[2]) == (429, "queue-full"), full
        listed = running.request("GET", "/v1/runs?state=queued").body["runs"]
        assert [run["name"] for run in listed] == ["high", "second", "plain", "low"]  # newest first
        assert running.request("GET", "/v1/health").body["runs"]["queued"] == 4
        gate.open()
        for run in listed:
            assert running.wait(run["run_id"])["status"] == "succeeded"
        assert running.wait(first)["queued_at"] is not None
    assert said.read_text().split() == ["high", "plain", "second", "low"]


def test_a_key_has_its_own_limit(tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    with daemon(tmp_path / "s", "--concurrency", "gpu=1") as running:
        holder = running.submit(gate.waits(), concurrency_key="gpu")["run_id"]
        running.until_output(holder)
        second = running.submit(["true"], concurrency_key="gpu")["run_id"]
        other = running.submit(["true"])["run_id"]
        assert running.wait(other)["status"] == "succeeded"
        assert running.report(second)["state"] == "queued"
        gate.open()
        assert running.wait(second)["status"] == "succeeded"


def test_a_run_that_waits_too_long_is_timed_out_and_never_runs(tmp_path: Path) -> None:
    gate, mark = Gate(tmp_path / "gate"), tmp_path / "ran"
    with daemon(tmp_path / "s", "--max-runs", "1") as running:
        blocked(running, gate)
        events = running.events()
        run_id = running.submit(["touch", str(mark)], queue_timeout_s=0.2)["run_id"]
        report = running.wait(run_id)
        assert (report["status"], report["cause"], report["state"]) == ("timed_out", "queue", "settled")
        assert (report["tree"], report["started_at"], report["output"]["complete"]) == ("gone", None, True)
        assert events.until("run.verdict", run_id)["report"]["cause"] == "queue"
        assert events.until("run.settled", run_id)["report"]["cause"] == "queue"
        events.close()
        gate.open()
    shown = cli(tmp_path / "s", "show", run_id)
    assert (shown["status"], shown["cause"], shown["queued_at"]) == ("timed_out", "queue", report["queued_at"])
    assert not mark.exists()


def test_a_run_that_is_cancelled_in_the_queue_never_runs(tmp_path: Path) -> None:
    gate, mark = Gate(tmp_path / "gate"), tmp_path / "ran"
    with daemon(tmp_path / "s", "--max-runs", "1") as running:
        blocked(running, gate)
        run_id = running.submit(["touch", str(mark)])["run_id"]
        assert running.cancel(run_id, reason="not needed")["cause"] == "user"
        assert running.cancel(run_id, reason="again")["reason"] == "cancelled before it started: not needed"
        gate.open()
        assert running.wait(running.submit(["true"])["run_id"])["status"] == "succeeded"
    assert not mark.exists()


def test_the_same_key_gives_the_same_run_and_another_spec_is_refused(tmp_path: Path) -> None:
    count = tmp_path / "count"
    command = ["sh", "-c", f"echo x >> {count}"]
    with daemon(tmp_path / "s") as running:
        first = running.request("POST", "/v1/runs", {"argv": command}, {"Idempotency-Key": "k"})
        again = running.request("POST", "/v1/runs", {"argv": command}, {"Idempotency-Key": "k"})
        assert (first.status, again.status) == (201, 200)
        assert first.body["run_id"] == again.body["run_id"]
        other = running.request("POST", "/v1/runs", {"argv": ["false"]}, {"Idempotency-Key": "k"})
        assert other.status == 409, other
        running.wait(first.body["run_id"])
        running.kill()
    with daemon(tmp_path / "s") as running:  # remembered by the next daemon, too
        assert running.submit(command, key="k")["run_id"] == first.body["run_id"]
        assert running.request("POST", "/v1/runs", {"argv": ["false"]}, {"Idempotency-Key": "k"}).status == 409
    assert count.read_text() == "x\n"


def test_a_closed_session_takes_no_more_and_ends_what_is_queued_and_live(tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    with daemon(tmp_path / "s", "--concurrency", "session:x=1") as running:
        live = running.submit(gate.waits(), session="x", grace_s=1)["run_id"]
        running.until_output(live)
        queued = running.submit(["true"], session="x")["run_id"]
        other = running.submit(["true"], session="y")["run_id"]
        closed = running.request("DELETE", "/v1/sessions/x").body
        assert sorted(closed["confirmed"]) == sorted([live, queued]), closed
        for run_id in (live, queued):
            report = running.wait(run_id)
            assert (report["status"], report["cause"]) == ("cancelled", "session")
        assert running.report(queued)["started_at"] is None
        refused = running.request("POST", "/v1/runs", {"argv": ["true"], "session": "x"})
        assert refused.status == 409, refused
        assert running.wait(other)["status"] == "succeeded"
        found = {session["name"]: session for session in running.request("GET", "/v1/sessions").body["sessions"]}
        assert (found["x"]["closed"], found["x"]["ended"], found["y"]["closed"]) == (True, 2, False)


def test_queued_runs_survive_a_restart_and_secrets_leave_the_file_at_the_start(tmp_path: Path) -> None:
    gate, state = Gate(tmp_path / "gate"), tmp_path / "s"
    with daemon(state, "--max-runs", "1", "--drain", "0") as running:
        blocked(running, gate)
        run_id = running.submit(["sh", "-c", "echo $SECRET"], env={"SECRET": "hush-4711"})["run_id"]
        assert stat.S_IMODE(os.stat(state / "daemon.sqlite").st_mode) == 0o600
        assert len(rows(state, "queue")) == 1
        running.signal()
        assert running.exit_code() == 0
    with daemon(state) as running:
        assert running.wait(run_id)["status"] == "succeeded"
        assert running.until_output(run_id, b"hush-4711")
        running.signal(signal.SIGTERM)
        assert running.exit_code() == 0
        assert rows(state, "queue") == rows(state, "active") == []
    assert b"hush-4711" not in (state / "runs" / run_id / "journal").read_bytes().replace(b"hush-4711\n", b"")


def test_what_is_too_old_after_a_restart_is_cancelled_and_never_replayed(tmp_path: Path) -> None:
    gate, mark, state = Gate(tmp_path / "gate"), tmp_path / "ran", tmp_path / "s"
    with daemon(state, "--max-runs", "1") as running:
        blocked(running, gate)
        old = running.submit(["touch", str(mark)])["run_id"]
        young = running.submit(["true"])["run_id"]
        running.kill()
    with sqlite3.connect(state / "daemon.sqlite") as connection:  # 16 days ago
        connection.execute("UPDATE queue SET queued_ns = queued_ns - ? WHERE run_id = ?", (16 * 86_400 * 10**9, old))
    connection.close()
    with daemon(state, "--max-age", "1d") as running:
        running.until_line(f"too old to be started.*{old}")
        report = running.wait(old)
        assert (report["status"], report["cause"], report["started_at"]) == ("cancelled", "shutdown", None)
        assert "not started any more" in report["reason"]
        gate.open()
        assert running.wait(young)["status"] == "succeeded"
    assert not mark.exists()
    assert cli(state, "show", old)["status"] == "cancelled"
