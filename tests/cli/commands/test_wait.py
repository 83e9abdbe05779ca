"""`holdfast wait`."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from ...support.evidence import BUSY_S
from ..console import holdfast, read_until, start
from ..kept_runs import as_json, one_line

if TYPE_CHECKING:
    from pathlib import Path

    from ...support.children import Children
    from ..kept_runs import Runs


@pytest.mark.parametrize(
    ("command", "options", "code"),
    [
        (["true"], (), 0),
        (["sh", "-c", "exit 7"], (), 7),
        (["sh", "-c", "kill -9 $$"], (), 137),
        (["sleep", "600"], ("--timeout", "50ms"), 124),
        (["/nonexistent"], (), 127),
        (["/etc/passwd"], (), 126),
    ],
)
def test_the_exit_code_is_that_of_run(command: list[str], options: tuple[str, ...], code: int, runs: Runs) -> None:
    run_id = runs.start(*command, options=options)
    assert holdfast("wait", run_id).returncode == code
    assert holdfast("wait", run_id).returncode == code  # and stays so


def test_it_waits_for_the_end(runs: Runs, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    run_id = runs.start("sh", "-c", f"read x <{gate}; exit 5")
    with start("wait", run_id) as waiter:
        gate.write_text("\n")
        assert waiter.wait(30) == 5
        assert waiter.stdout is not None
        assert waiter.stdout.read().decode() == f"{run_id}  failed/exit  exited with code 5\n"


@pytest.mark.parametrize("how", ["once", "loop"])
def test_a_run_without_an_owner_whose_guard_and_sentinel_are_stopped(how: str, child: Children, runs: Runs) -> None:
    short = ("--timeout", "1s", "--grace", "200ms", "--kill-wait", "1s", "--drain", "300ms")
    run_id = runs.start(*child("stops_guard", how), options=short)
    begin = time.monotonic()
    assert holdfast("wait", run_id).returncode in {124, 125}
    assert time.monotonic() - begin < 1.0 + 1.5 + 2.0 + BUSY_S
    assert runs.report(run_id)["tree"] == "gone"


def test_the_exit_of_a_run_without_an_owner_whose_guard_and_sentinel_are_stopped(child: Children, runs: Runs) -> None:
    assert holdfast("wait", runs.start(*child("stops_guard", "exits"))).returncode == 7


def test_of_many_the_worst(runs: Runs) -> None:
    fine, failed, late = (
        runs.start("true"),
        runs.start("sh", "-c", "exit 9"),
        runs.start("sleep", "600", options=("--timeout", "50ms")),
    )
    assert holdfast("wait", fine, late).returncode == 124
    done = holdfast("wait", "--json", fine, late, failed)
    assert done.returncode == 9
    assert [row["run_id"] for row in as_json(done)] == [fine, late, failed]
    assert [row["status"] for row in as_json(done)] == ["succeeded", "timed_out", "failed"]


def test_a_session_with_its_ended_runs_and_those_that_join(runs: Runs, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    os.mkfifo(first)
    os.mkfifo(second)
    runs.ended("sh", "-c", "exit 3", options=("--session", "s"))
    runs.start("sh", "-c", f"read x <{first}", options=("--session", "s"))
    runs.ended("sh", "-c", "exit 4", options=("--session", "other"))
    with start("wait", "--session", "s") as waiter:
        assert waiter.stdout is not None
        read_until(waiter.stdout.fileno(), b"failed/exit")
        joined = runs.start("sh", "-c", f"read x <{second}", options=("--session", "s"))
        first.write_text("\n")
        read_until(waiter.stdout.fileno(), b"succeeded/exit")
        second.write_text("\n")
        assert waiter.wait(30) == 3
        assert joined.encode() in waiter.stdout.read()
    assert "no run matches" in one_line(holdfast("wait", "--session", "nobody"))


def test_a_session_counts_from_since(runs: Runs) -> None:
    """A session that is used every night has bad runs of other nights."""
    runs.ended("sh", "-c", "exit 3", options=("--session", "s"))
    between = datetime.now(UTC).isoformat()
    run_id = runs.ended("true", options=("--session", "s"))
    assert holdfast("wait", "--session", "s").returncode == 3
    done = holdfast("wait", "--session", "s", "--since", between)
    assert (done.returncode, done.stdout.split()[0].decode()) == (0, run_id)
    later = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    assert "no run matches" in one_line(holdfast("wait", "--session", "s", "--since", later))
    assert "--since is for --session and --label" in one_line(holdfast("wait", "--since", "1h", run_id))
    assert "neither a duration nor a time" in one_line(holdfast("wait", "--session", "s", "--since", "soon"))


def test_until_the_verdict(runs: Runs) -> None:
    """The verdict comes at the deadline; the end comes later, because the command ignores the first signal."""
    run_id = runs.start("sleep", "600", options=("--timeout", "100ms", "--ladder", "CONT:60s,KILL"))
    assert holdfast("wait", "--until", "verdict", run_id).returncode == 124
    assert runs.report(run_id)["state"] == "stopping"
    assert "--until 'soon' is unknown" in one_line(holdfast("wait", "--until", "soon", run_id))


def test_its_own_timeout_is_125_and_says_so(runs: Runs) -> None:
    run_id = runs.sleeper()
    line = one_line(holdfast("wait", "--timeout", "50ms", run_id))
    assert f"the time to wait is over: 1 of 1 not there yet: run {run_id}" in line
    assert runs.report(run_id)["state"] == "running"


def test_one_that_is_unknown_does_not_keep_from_waiting_for_the_others(runs: Runs) -> None:
    run_id = runs.start("sh", "-c", "exit 3")
    done = holdfast("wait", "nobody", run_id)
    assert done.returncode == 125
    assert b"there is no run 'nobody'" in done.stderr
    assert run_id.encode() in done.stdout


def test_a_guard_that_dies_meanwhile(runs: Runs) -> None:
    run_id = runs.sleeper()
    with start("wait", run_id) as waiter:
        runs.kill_guard(run_id)
        assert waiter.wait(30) == 125
    assert runs.report(run_id)["status"] == "lost"


def test_a_wrong_command_line(runs: Runs) -> None:
    run_id = runs.ended("true")
    assert "no run was given" in one_line(holdfast("wait"))
    assert "runs and --session or --label were both given" in one_line(holdfast("wait", run_id, "--session", "s"))
    assert "--timeout" in one_line(holdfast("wait", run_id, "--timeout", "-1"))
