"""The place of a queued run: its position, its priority, and what it waits for; with a daemon, and without one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ...cli.console import holdfast
from ...support.daemons import Gate, daemon

if TYPE_CHECKING:
    from pathlib import Path


def test_position_priority_and_obstacle(tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    with daemon(tmp_path / "state", "--max-runs", "1", "--on-shutdown", "cancel") as running:
        first = running.submit(gate.waits())["run_id"]
        running.until_output(first)
        low = running.submit(["true"], priority=-1)["run_id"]
        usual = running.submit(["true"])["run_id"]
        high = running.submit(["true"], priority=5)["run_id"]
        found = {run_id: running.report(run_id)["queue"] for run_id in (high, usual, low)}
        slot = "a free slot: 1 of 1 are taken"
        assert list(found.values()) == [
            {"position": 1, "priority": 5, "waits_for": slot},
            {"position": 2, "priority": 0, "waits_for": slot},
            {"position": 3, "priority": -1, "waits_for": slot},
        ]
        listed = running.request("GET", "/v1/runs?state=queued").body["runs"]
        assert {run["run_id"]: run["queue"] for run in listed} == found
        assert running.report(first)["queue"] is None, "a run that has begun is not queued"
        running.cancel(high)
        assert running.report(usual)["queue"]["position"] == 1
        state = ("--state-dir", str(tmp_path / "state"))
        shown = holdfast("show", *state, low).stdout.decode()
        assert f"queue        position 2, priority -1; waits for {slot}\n" in shown
        assert f"waits for {slot}\n" in holdfast("why", *state, low).stdout.decode()
        assert "queued #2" in holdfast("ps", *state).stdout.decode()
        gate.open()
        assert running.wait(low)["status"] == "succeeded"


def test_a_full_key_is_named(tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    with daemon(tmp_path / "state", "--concurrency", "gpu=1", "--on-shutdown", "cancel") as running:
        running.until_output(running.submit(gate.waits(), concurrency_key="gpu")["run_id"])
        waiting = running.submit(["true"], concurrency_key="gpu")
        assert waiting["queue"]["waits_for"] == "a free slot of gpu: 1 of 1 are taken"
        gate.open()
        running.wait(waiting["run_id"])


def test_without_the_daemon_the_queue_is_known(tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    path = tmp_path / "state"
    state = ("--state-dir", str(path))
    with daemon(path, "--max-runs", "1") as running:
        first = running.submit(gate.waits())["run_id"]
        running.until_output(first)
        low = running.submit(["true"], name="low", session="s", priority=-1)["run_id"]
        high = running.submit(["true"], name="high")["run_id"]
        running.kill()
        done = holdfast("ps", *state, "--json")
        reports = {one["run_id"]: one for one in json.loads(done.stdout)}
        assert set(reports) == {first, low, high}
        told = "the daemon is not running: 2 queued runs wait for it (holdfast serve)\n"
        assert done.stderr.decode().endswith(told)
        assert done.stderr.count(b"\n") == 1
        waits_for = "the daemon, which is not running"
        assert reports[low]["queue"] == {"position": 2, "priority": -1, "waits_for": waits_for}
        assert reports[high]["queue"] == {"position": 1, "priority": 0, "waits_for": waits_for}
        assert [one["run_id"] for one in json.loads(holdfast("ps", *state, "--session", "s", "--json").stdout)] == [low]
        assert f"position 2, priority -1; waits for {waits_for}" in holdfast("show", *state, "low").stdout.decode()
    with daemon(path, "--max-runs", "1", "--on-shutdown", "cancel") as running:
        gate.open()
        assert [running.wait(run_id)["status"] for run_id in (first, low, high)] == ["succeeded"] * 3
