"""`run --detach --ready`, `--ready-timeout`, `wait --ready` and `submit --ready`."""

from __future__ import annotations

import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

from ...support.daemons import daemon
from ...support.listening import free_port, listens
from ...support.readiness import read_ready
from ..console import holdfast, read_until, start
from ..kept_runs import as_json, one_line

if TYPE_CHECKING:
    from pathlib import Path

    from ..kept_runs import Runs


def test_it_waits_until_the_run_listens(runs: Runs) -> None:
    port = free_port()
    run_id = runs.start(*listens("daemon", port), options=("--ready", f"port:{port}", "--ready-timeout", "30s"))
    assert runs.report(run_id)["ports"] == [port]  # it was ready when `run` returned
    done = holdfast("wait", "--ready", run_id)
    assert (done.returncode, done.stdout.decode()) == (0, f"{run_id}  ready\n")
    assert [run["ready"] for run in as_json(holdfast("wait", "--ready", "--json", run_id))] == [True]


@pytest.mark.parametrize(("ends", "code"), [("exit 3", 3), ("exit 0", 1), ("kill -9 $$", 137)])
@pytest.mark.usefixtures("runs")
def test_a_run_that_ends_before_it_is_ready_is_told_at_once_with_its_last_words(ends: str, code: int) -> None:
    says = f"seq 1000; echo 'no such \033module' >&2; {ends}"
    done = holdfast("run", "--detach", "--ready", "port:1", "--ready-timeout", "10m", "--", "sh", "-c", says)
    lines = done.stderr.decode().splitlines()
    assert done.returncode == code
    assert lines[0].startswith("holdfast: the run ended before it was ready, ")
    assert lines[-1] == r"holdfast:   no such \x1bmodule"
    assert len(lines) == 11
    assert holdfast("wait", "--ready", done.stdout.decode().strip()).returncode == code


def test_the_time_to_wait_is_over_and_the_run_goes_on(runs: Runs) -> None:
    with subprocess.Popen(listens(), stdout=subprocess.PIPE) as stranger:
        assert stranger.stdout is not None
        port = read_ready(stranger.stdout.fileno())["port"]
        run_id = runs.sleeper("--ready", f"port:{port}")
        done = holdfast("wait", "--ready", "--timeout", "100ms", run_id)
        stranger.kill()
    assert (done.returncode, done.stdout) == (124, b"")
    assert f"port {port} belongs to process {stranger.pid} (python" in done.stderr.decode()
    assert runs.report(run_id)["state"] == "running"


def test_a_start_that_is_not_ready_in_time_is_ended(runs: Runs) -> None:
    says = ["sh", "-c", "echo ready; exec sleep 600"]
    done = holdfast("run", "--detach", "--ready", "log:never", "--ready-timeout", "200ms", "--", *says)
    run_id = done.stdout.decode().strip()
    assert (done.returncode, runs.report(run_id)["cause"], runs.report(run_id)["tree"]) == (124, "user", "gone")
    assert "not ready within 200ms: no line of its output matches 'never'" in runs.report(run_id)["reason"]


def test_an_interrupt_ends_the_waiting_and_not_the_run(runs: Runs) -> None:
    with start(*("run", "--detach", "--ready", "log:never", "--ready-timeout", "10m", "--", "sleep", "600")) as waiting:
        assert waiting.stdout is not None
        run_id = read_until(waiting.stdout.fileno(), b"\n").decode().strip()
        runs.ids.append(run_id)
        waiting.send_signal(signal.SIGINT)  # before it waits, the signal is held back, and not lost
    assert (waiting.returncode, runs.report(run_id)["state"]) == (130, "running")


def test_bad_input(runs: Runs) -> None:
    run_id = runs.sleeper()
    assert "has no condition" in one_line(holdfast("wait", "--ready", run_id))
    assert "--until" in one_line(holdfast("wait", "--ready", "--session", "s"))
    assert "invalid regular expression" in one_line(holdfast("run", "--detach", "--ready", "log:(", "--", "true"))
    assert "needs a condition" in one_line(holdfast("run", "--detach", "--ready-timeout", "1s", "--", "true"))
    assert "--detach" in one_line(holdfast("run", "--ready", "port:1", "--ready-timeout", "1s", "--", "true"))


@pytest.mark.usefixtures("runs")
def test_a_run_in_the_foreground_can_be_waited_for_by_others() -> None:
    command = ("run", "--id", "front", "--ready", "log:^ready port", "--", *listens())
    with start(*command) as front:
        assert front.stdout is not None
        read_ready(front.stdout.fileno())
        assert holdfast("wait", "--ready", "front").returncode == 0
        front.send_signal(signal.SIGTERM)
        front.wait()


def test_a_queued_run(tmp_path: Path) -> None:
    with daemon(tmp_path / "state", "--max-runs", "1") as running:
        where = ("--state-dir", str(tmp_path / "state"))
        first = running.submit(["sleep", "600"])["run_id"]
        done = holdfast("submit", *where, "--ready", "log:^ready", "--", *listens())
        run_id = done.stdout.decode().strip()
        with start("wait", *where, "--ready", run_id) as waiting:
            running.request("POST", f"/v1/runs/{first}/cancel", {"now": True})
            assert waiting.communicate()[0].decode() == f"{run_id}  ready\n"
        spec = running.request("GET", f"/v1/runs/{run_id}/spec").body["spec"]
        assert spec["ready"] == ["log:^ready"]
        refused = holdfast("submit", *where, "--ready", "log:^x", "--ready-timeout", "100ms", "--", "sleep", "600")
        assert refused.returncode == 124  # it was never begun
        bad = running.request("POST", "/v1/runs", {"argv": ["true"], "ready": ["http://10.0.0.1/"]})
        assert (bad.status, bad.body["field"]) == (422, "ready")
