"""The start of a daemon, one case at a time: made by hand, or left by a daemon that was killed there."""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from typing import TYPE_CHECKING

from holdfast.state.directory import StateDirectory
from tests.support.daemons import Daemon, Gate, daemon, start
from tests.support.durable import DurableRun, prepared
from tests.support.processes import holding_stopped, sentinel_of, stop_both

if TYPE_CHECKING:
    from pathlib import Path


def queued_and_killed(path: Path, mark: Path) -> str:
    """The id of a run that was queued when its daemon was killed; `path` is then a state directory."""
    gate = Gate(path.parent / "gate")
    with daemon(path, "--max-runs", "1") as running:
        running.until_output(running.submit(gate.waits())["run_id"])
        run_id: str = running.submit(["sh", "-c", f"echo x >> {mark}"])["run_id"]
        running.kill()
    gate.open()
    return run_id


def live_without_a_row(path: Path, gate: Gate) -> str:
    """The id of a run that waits at the gate, then exits with 3; its daemon was killed, and its rows are gone."""
    with daemon(path) as running:
        run_id: str = running.submit(gate.waits("exit 3"))["run_id"]
        running.until_output(run_id)
        running.kill()
    for name in ("daemon.sqlite", "daemon.sqlite-wal", "daemon.sqlite-shm"):
        (path / name).unlink(missing_ok=True)
    return run_id


def test_a_run_that_was_about_to_start_starts_once(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    run_id = queued_and_killed(tmp_path / "s", mark)
    prepared(StateDirectory.open(str(tmp_path / "s")), run_id)
    with daemon(tmp_path / "s") as running:
        assert running.wait(run_id)["status"] == "succeeded"
    assert mark.read_text() == "x\n"


def test_a_run_whose_directory_was_being_made_starts_once(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    run_id = queued_and_killed(tmp_path / "s", mark)
    half_made = tmp_path / "s" / "runs" / f".new-{run_id}"
    half_made.mkdir()
    (half_made / "journal").write_bytes(b"")
    with daemon(tmp_path / "s") as running:
        assert running.wait(run_id)["status"] == "succeeded"
    assert mark.read_text() == "x\n"
    assert not half_made.exists()


def test_a_run_that_was_started_does_not_start_again_although_its_row_is_there(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    run_id = queued_and_killed(tmp_path / "s", mark)
    state = StateDirectory.open(str(tmp_path / "s"))
    with DurableRun(state, ["sh", "-c", "exit 4"], run_id=run_id) as run:
        run.until_ended()
    with daemon(tmp_path / "s") as running:
        report = running.wait(run_id)
        assert (report["exit_code"], running.report(run_id)["exit_code"]) == (4, 4)
    assert not mark.exists()


def test_broken_runs_and_rows_stop_nothing_else(tmp_path: Path) -> None:
    state_path, mark = tmp_path / "s", tmp_path / "ran"
    good = queued_and_killed(state_path, mark)
    state = StateDirectory.open(str(state_path))
    os.makedirs(state.run_path("broken"))
    (state_path / "runs" / "broken" / "journal").write_bytes(b"no journal at all")
    state.mark_live("broken")
    with sqlite3.connect(state_path / "daemon.sqlite") as connection:
        connection.execute(
            "INSERT INTO queue (run_id, queued_ns, submission) VALUES ('bad-row', ?, x'7b')", (time.time_ns(),)
        )
        connection.execute("INSERT INTO active VALUES ('gone', 1, NULL), ('broken', 1, NULL)")
    connection.close()
    with daemon(state_path, "--max-runs", "1") as running:
        assert running.wait(good)["status"] == "succeeded"
        report = running.wait("bad-row")
        assert (report["status"], report["cause"]) == ("cancelled", "shutdown")
        running.until_line(r"its entry in the queue cannot be used.*bad-row")
        running.until_line(r"cannot be followed again.*gone")
        states = {run["run_id"]: run["state"] for run in running.request("GET", "/v1/runs").body["runs"]}
        assert "running" not in states.values()
        assert running.request("GET", "/v1/health").body["runs"]["running"] == 0


def test_a_guard_that_does_not_answer_holds_up_the_start_for_the_budget_only(tmp_path: Path) -> None:
    gates = [Gate(tmp_path / f"gate{number}") for number in range(2)]
    with daemon(tmp_path / "s") as running:
        stuck, fine = (running.submit(gate.waits(f"exit {code}"))["run_id"] for code, gate in enumerate(gates, 3))
        for run_id in (stuck, fine):
            running.until_output(run_id)
        guard = _guard(running, stuck)
        running.kill()
    sentinel = sentinel_of(guard)
    stop_both(sentinel, guard)
    try:
        begin = time.monotonic()
        with daemon(tmp_path / "s", "--recovery", "500ms") as running:
            assert time.monotonic() - begin < 30
            gates[1].open()
            assert running.wait(fine)["exit_code"] == 4
            os.kill(sentinel, signal.SIGCONT)
            gates[0].open()
            assert running.wait(stuck)["exit_code"] == 3
    finally:
        os.kill(sentinel, signal.SIGCONT) if os.path.exists(f"/proc/{guard}") else None


def test_a_damaged_file_is_moved_aside_and_live_runs_are_found_all_the_same(tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    run_id = live_without_a_row(tmp_path / "s", gate)
    (tmp_path / "s" / "daemon.sqlite").write_bytes(b"no database" * 100)
    with daemon(tmp_path / "s", "--max-runs", "1") as running:
        running.until_line("daemon.sqlite is damaged.*daemon.sqlite.damaged-1")
        second = running.submit(["true"])["run_id"]
        assert running.report(second)["state"] == "queued"  # the found run occupies its place
        gate.open()
        assert running.wait(run_id)["exit_code"] == 3
        assert running.wait(second)["exit_code"] == 0


def _guard(running: Daemon, run_id: str) -> int:
    evidence = running.report(run_id)["evidence"]
    return int(next(fact["guard_pid"] for fact in evidence if fact["fact"] == "started"))


def test_whoever_is_stopped_with_the_index_hides_no_live_run(tmp_path: Path) -> None:
    """The rows are lost, so only the directories know the run; and another run has ended, for the index to take."""
    gate = Gate(tmp_path / "gate")
    run_id = live_without_a_row(tmp_path / "s", gate)
    with DurableRun(StateDirectory.open(str(tmp_path / "s")), ["true"], run_id="over") as over:
        over.until_ended()
    with holding_stopped(str(tmp_path / "s" / "index.lock")) as holder, daemon(tmp_path / "s") as running:
        running.until_line(rf"the index was not brought up to date.*process {holder} holds")
        assert running.request("GET", "/v1/health").body["runs"]["running"] == 1
        gate.open()
        assert running.wait(run_id)["exit_code"] == 3


def test_a_run_that_somebody_else_started_is_seen_followed_and_ended_but_not_drained(tmp_path: Path) -> None:
    state = StateDirectory.open(str(tmp_path / "s"))
    argv = ["sh", "-c", "echo ready; exec sleep 600"]
    with daemon(tmp_path / "s") as running, DurableRun(state, argv, name="theirs") as run:
        run.until_ready()
        assert running.report(run.run_id)["state"] == "running"
        assert [found["name"] for found in running.request("GET", "/v1/runs").body["runs"]] == ["theirs"]
        assert running.until_output(run.run_id) == b"ready\n"
        running.signal()
        assert running.exit_code() == 0
        assert running.lines[-2:] == ["draining 0 runs", "bye"]
        with daemon(tmp_path / "s") as second:
            assert second.cancel(run.run_id, reason="over")["cause"] == "user"
            assert second.wait(run.run_id)["state"] == "settled"


def test_a_signal_while_it_recovers_cuts_that_short(tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    with daemon(tmp_path / "s") as running:
        run_id = running.submit(gate.waits("exit 3"))["run_id"]
        running.until_output(run_id)
        guard = _guard(running, run_id)
        running.kill()
    sentinel = sentinel_of(guard)
    stop_both(sentinel, guard)
    try:
        second = start(tmp_path / "s", "--recovery", "60s", "--on-shutdown", "handoff")
        try:
            second.until_line("^recovering")
            second.signal()
            assert second.exit_code() == 0
        finally:
            second.end()
    finally:
        os.kill(sentinel, signal.SIGCONT)
    with daemon(tmp_path / "s") as running:
        gate.open()
        assert running.wait(run_id)["exit_code"] == 3


def test_old_runs_are_removed(tmp_path: Path) -> None:
    with daemon(tmp_path / "s") as running:
        ids = []
        for _ in range(3):
            ids.append(running.submit(["true"])["run_id"])
            running.wait(ids[-1])
    with daemon(tmp_path / "s", "--retention-count", "1") as running:
        running.until_line("^removed 2 old runs$")
        assert [run["run_id"] for run in running.request("GET", "/v1/runs").body["runs"]] == ids[-1:]
        assert running.request("GET", f"/v1/runs/{ids[0]}").status == 404
