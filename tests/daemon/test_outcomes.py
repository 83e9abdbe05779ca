"""One outcome everywhere: a run whose deadline passed stays `timed_out`, although its command exits 0 later."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from itertools import permutations
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.daemons import BOUND_S, Gate, daemon
from tests.support.evidence import BUSY_S

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.children import Children
    from tests.support.daemons import Daemon
    from tests.support.hooks import Hook

TIMED_OUT = ("timed_out", "deadline")


def cli(state: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "holdfast.cli.main", *words, "--state-dir", str(state)]
    return subprocess.run(command, capture_output=True, timeout=BOUND_S, check=False)


def seen(report: dict[str, Any]) -> tuple[str, str]:
    return report["status"], report["cause"]


def ask(running: Daemon, state: Path, run_id: str, how: str) -> tuple[str, str]:
    match how:
        case "wait":
            return seen(running.wait(run_id, "verdict"))
        case "status":
            return seen(running.report(run_id))
        case "list":
            (found,) = (run for run in running.request("GET", "/v1/runs").body["runs"] if run["run_id"] == run_id)
            return seen(found)
        case "show":
            return seen(json.loads(cli(state, "show", "--json", run_id).stdout))
        case "cli wait":
            assert cli(state, "wait", run_id).returncode == 124
            return TIMED_OUT
        case _:
            raise AssertionError(how)


def test_a_timeout_stays_one_on_every_surface_in_whatever_order_they_are_asked(tmp_path: Path, hook: Hook) -> None:
    state, gate = tmp_path / "s", Gate(tmp_path / "gate")
    # At SIGTERM the command waits at the gate, so that there is time to ask before it exits 0.
    late = [
        "sh",
        "-c",
        "trap 'read -r _ < \"$0\"; echo late; exit 0' TERM; echo ready; while :; do sleep 1; done",
        str(gate.path),
    ]
    orders = list(permutations(["wait", "status", "list", "show"]))
    with daemon(state) as running:
        events = running.events()
        run_id = running.submit(late, timeout_s=1.5, grace_s=60, on_verdict={"url": hook.url})["run_id"]
        # At the verdict, while the command is still unwinding: no answer waits for the end.
        verdict = events.until("run.verdict", run_id)["report"]
        assert (*seen(verdict), verdict["state"], verdict["exit_code"]) == (*TIMED_OUT, "stopping", None)
        delivered = hook.next()
        assert (delivered["type"], *seen(delivered["data"]["report"])) == ("run.verdict", *TIMED_OUT)
        for how in orders[0]:
            assert ask(running, state, run_id, how) == TIMED_OUT
        assert cli(state, "wait", "--until", "verdict", run_id).returncode == 124
        gate.open()
        settled = events.until("run.settled", run_id)["report"]
        assert (*seen(settled), settled["exit_code"], settled["state"]) == (*TIMED_OUT, 0, "settled")
        events.close()
        for order in orders[1:6]:
            for how in order:
                assert ask(running, state, run_id, how) == TIMED_OUT, order
        assert ask(running, state, run_id, "cli wait") == TIMED_OUT
        assert running.cancel(run_id)["status"] == "timed_out"  # too late to change anything
        running.kill()
    assert ask(running, state, run_id, "show") == TIMED_OUT  # without a daemon
    with daemon(state) as running:
        for how in orders[-1]:
            assert ask(running, state, run_id, how) == TIMED_OUT
        replayed = running.events(after=0)
        assert seen(replayed.until("run.verdict", run_id)["report"]) == TIMED_OUT
        assert seen(replayed.until("run.settled", run_id)["report"]) == TIMED_OUT
        replayed.close()
        facts = [fact["fact"] for fact in running.request("GET", f"/v1/runs/{run_id}/evidence").body["evidence"]]
        assert facts.index("deadline") < facts.index("exited")
    assert hook.taken.empty()  # delivered once


@pytest.mark.parametrize("how", ["once", "loop"])
def test_a_command_that_stops_guard_and_sentinel_is_ended_in_time(tmp_path: Path, child: Children, how: str) -> None:
    short: dict[str, Any] = {"timeout_s": 1.0, "grace_s": 0.2, "kill_wait_s": 1.0, "drain_s": 0.3}
    with daemon(tmp_path / "s") as running:
        begin = time.monotonic()
        report = running.wait(running.submit(child("stops_guard", how), **short)["run_id"])
        assert time.monotonic() - begin < 1.0 + 1.5 + 2.0 + BUSY_S
    assert (report["status"], report["cause"]) in {("timed_out", "deadline"), ("lost", "guard")}
    assert report["tree"] == "gone"
