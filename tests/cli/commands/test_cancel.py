"""`holdfast cancel`, `extend` and `signal`: asking live runs for something."""

from __future__ import annotations

import os
import shlex
import signal
from typing import TYPE_CHECKING

import pytest

from ...support.processes import is_gone, state_of
from ..console import HOLDFAST, holdfast
from ..kept_runs import as_json, one_line

if TYPE_CHECKING:
    from ..kept_runs import Runs


def test_it_says_what_was_confirmed(runs: Runs) -> None:
    run_id = runs.sleeper()
    pid = runs.report(run_id)["pid"]
    done = holdfast("cancel", run_id, "--reason", "enough")
    assert (done.returncode, done.stdout.decode(), done.stderr) == (0, f"{run_id}  gone  cancelled/user\n", b"")
    assert is_gone(pid)
    report = runs.report(run_id)
    assert (report["state"], report["tree"]) == ("settled", "gone")
    assert "enough" in report["reason"]
    assert holdfast("wait", "--quiet", run_id).returncode == 143


def test_a_run_that_is_over_already(runs: Runs) -> None:
    run_id = runs.ended("true")
    done = holdfast("cancel", run_id)
    assert (done.returncode, done.stdout.decode()) == (0, f"{run_id}  gone  succeeded/exit before it was asked\n")


def test_now_skips_the_grace(runs: Runs) -> None:
    run_id = runs.start("sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1; done", options=("--grace", "10m"))
    runs.until(run_id, b"ready")
    (result,) = as_json(holdfast("cancel", "--json", "--now", run_id))
    assert (result["tree"], result["asked"], result["status"]) == ("gone", True, "cancelled")
    assert runs.report(run_id)["escalated"]


def test_many_by_session_and_label(runs: Runs) -> None:
    first = runs.sleeper("--session", "s", "--label", "a=1")
    second = runs.sleeper("--session", "s")
    other = runs.sleeper("--label", "a=1")
    results = as_json(holdfast("cancel", "--json", "--session", "s", "--label", "a=1"))
    assert [row["run_id"] for row in results] == [first]
    results = as_json(holdfast("cancel", "--json", "--session", "s"))
    assert [row["run_id"] for row in results] == [second]
    assert runs.report(other)["state"] == "running"
    assert holdfast("cancel", "--label", "a=1").returncode == 0
    done = holdfast("cancel", "--label", "a=1")
    assert (done.returncode, done.stdout) == (0, b"")
    assert b"no live run matches: there is nothing to cancel" in done.stderr
    assert as_json(holdfast("cancel", "--json", "--label", "a=1")) == []


def test_several_runs_of_which_one_is_unknown(runs: Runs) -> None:
    first, second = runs.sleeper(), runs.sleeper()
    done = holdfast("cancel", first, "nobody", second)
    assert done.returncode == 125
    assert b"there is no run 'nobody'" in done.stderr
    assert [line.split()[0] for line in done.stdout.decode().splitlines()] == [first, second]
    assert all(runs.report(run_id)["status"] == "cancelled" for run_id in (first, second))


def test_only_asking(runs: Runs) -> None:
    run_id = runs.start("sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1; done", options=("--grace", "10m"))
    runs.until(run_id, b"ready")
    done = holdfast("cancel", "--no-wait", run_id)
    assert (done.returncode, done.stdout.decode()) == (0, f"{run_id}  asked\n")
    assert runs.report(run_id)["state"] == "stopping"


def test_a_run_whose_guard_died_is_cleaned_up(runs: Runs) -> None:
    run_id = runs.sleeper()
    pid = runs.report(run_id)["pid"]
    runs.kill_guard(run_id)
    done = holdfast("cancel", run_id)
    unproved = "unknown: nobody saw its processes end"
    assert (done.returncode, done.stdout.decode()) == (1, f"{run_id}  {unproved}  lost/guard before it was asked\n")
    assert state_of(pid) in (None, "Z")  # reparented to us, dead, and not reaped yet


def test_cancelling_an_outer_run_gives_the_inner_one_the_cause_parent(runs: Runs) -> None:
    inner = " ".join([*HOLDFAST, "run", "--id", "inner", "--", "sh", "-c", "'echo in; exec sleep 600'"])
    outer = runs.start("sh", "-c", inner, options=("--id", "outer"))
    runs.until(outer, b"in")
    assert holdfast("cancel", outer).returncode == 0
    report = runs.report("inner")
    assert (report["status"], report["cause"]) == ("cancelled", "parent")
    assert (report["state"], report["tree"]) == ("settled", "gone")


def test_a_signal_to_an_inner_run_alone_is_no_end_of_the_outer_one(runs: Runs) -> None:
    inner = " ".join([*HOLDFAST, "run", "--id", "inner", "--", "sh", "-c", "'echo in; exec sleep 600'"])
    outer = runs.start("sh", "-c", f"{inner} & echo pid=$!; wait $!; echo over; exec sleep 600")
    runs.until(outer, b"in\n")
    pid = int(holdfast("logs", outer).stdout.split(b"pid=")[1].split()[0])
    os.kill(pid, signal.SIGTERM)
    runs.until(outer, b"over")
    assert runs.report("inner")["cause"] == "user"
    assert runs.report(outer)["state"] == "running"


def test_extend(runs: Runs) -> None:
    run_id = runs.sleeper("--timeout", "10m", "--max-timeout", "20m")
    done = holdfast("extend", run_id, "5m")
    assert (done.returncode, done.stdout.decode()) == (0, f"{run_id}  its deadline is now 15m after its start\n")
    assert "that goes past the longest timeout the run may have" in one_line(holdfast("extend", run_id, "1h"))
    assert "DURATION" in one_line(holdfast("extend", run_id, "soon"))
    assert "extend needs a run and a duration" in one_line(holdfast("extend", run_id))
    assert "the run has no deadline" in one_line(holdfast("extend", runs.sleeper(), "5m"))
    over = runs.ended("true", options=("--timeout", "10m"))
    assert f"it is too late: the run has its verdict (run {over})" in one_line(holdfast("extend", over, "5m"))


@pytest.mark.parametrize("how", ["exec {extend}", "{extend}", "setsid -f sh -c {quoted}"])
def test_a_command_cannot_move_its_own_deadline(runs: Runs, how: str) -> None:
    """Neither the command nor a process that it has daemonised; from outside it works."""
    extend = " ".join([*HOLDFAST, "extend", '"$HOLDFAST_RUN_ID"', "1h"])
    said = f"{extend} 2>&1; echo over; sleep 600"
    line = how.format(extend=f"sh -c {shlex.quote(said)}", quoted=shlex.quote(said)) + "; sleep 600"
    run_id = runs.start("sh", "-c", line, options=("--timeout", "10m"))
    runs.until(run_id, b"over")
    assert b"a command may not move its own deadline" in holdfast("logs", run_id).stdout
    done = holdfast("extend", run_id, "5m")
    assert "15m after its start" in done.stdout.decode()


def test_a_command_with_a_ceiling_may_move_its_own_deadline(runs: Runs) -> None:
    extend = " ".join([*HOLDFAST, "extend", '"$HOLDFAST_RUN_ID"', "5m"])
    limits = ("--timeout", "10m", "--max-timeout", "20m")
    run_id = runs.start("sh", "-c", f"{extend} 2>&1; echo over; sleep 600", options=limits)
    runs.until(run_id, b"over")
    assert b"15m after its start" in holdfast("logs", run_id).stdout


def test_signal(runs: Runs) -> None:
    run_id = runs.start("sh", "-c", "trap 'echo got it; exit 3' USR1; echo ready; while :; do sleep 0.01; done")
    runs.until(run_id, b"ready")
    assert holdfast("signal", run_id, "USR1").returncode == 0
    assert holdfast("wait", "--quiet", run_id).returncode == 3
    assert holdfast("logs", run_id).stdout == b"ready\ngot it\n"
    assert "the run is over" in one_line(holdfast("signal", run_id, "USR1"))
    assert "'NOPE' is no signal" in one_line(holdfast("signal", run_id, "NOPE"))


def test_a_wrong_command_line(runs: Runs) -> None:
    run_id = runs.ended("true")
    assert "no run was given" in one_line(holdfast("cancel"))
    assert "runs and --session or --label were both given" in one_line(holdfast("cancel", run_id, "--session", "s"))
