"""The budget of CPU time: user and system time of the whole tree, with and without a cgroup."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

import holdfast
from tests.cli.console import holdfast as command
from tests.support.driven import Driven, Gate
from tests.support.evidence import assert_all_gone, kinds, one, outcome_of

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.guard

PYTHON = sys.executable
# Each spends so much CPU time, and a bound of real time on a machine that is busy with other things.
SPENDS = """
import os, sys, time
def spend(seconds):
    end = time.monotonic() + 60
    while sum(os.times()[:2]) < seconds and time.monotonic() < end:
        pass
"""
ONE = SPENDS + "spend(float(sys.argv[1]))"
CHILDREN = (
    SPENDS
    + """
for _ in range(int(sys.argv[2])):
    if os.fork() == 0:
        spend(float(sys.argv[1]))
        os._exit(0)
    if len(sys.argv) == 3:
        os.wait()
if len(sys.argv) > 3:  # nobody reaps them
    sys.stdin.read()
"""
)


@pytest.mark.usefixtures("contained")
def test_a_command_that_spends_more() -> None:
    result = holdfast.run([PYTHON, "-c", ONE, "50"], cpu_time=0.3, timeout=60)
    assert outcome_of(result) == ("failed", "limit")
    assert result.report["limit"] == "cpu"
    assert result.report["reason"].startswith("cpu time limit of 300ms reached")
    limit = one(result.facts, "limit").detail
    assert limit["limit"] == 300_000_000 < limit["seen"]
    usage = result.report["usage"]
    assert usage["cpu_user_s"] + usage["cpu_system_s"] >= 0.3
    assert_all_gone(result.report)


@pytest.mark.usefixtures("contained")
@pytest.mark.parametrize(("budget", "outcome"), [(0.4, ("failed", "limit")), (30, ("succeeded", "exit"))])
def test_the_whole_tree_counts(budget: float, outcome: tuple[str, str]) -> None:
    """Four children, one after the other, of which none alone spends the budget; their parent has reaped them."""
    result = holdfast.run([PYTHON, "-c", CHILDREN, "0.2", "4"], cpu_time=budget, timeout=60)
    assert outcome_of(result) == outcome


@pytest.mark.usefixtures("contained")
def test_the_dead_that_nobody_reaps_count() -> None:
    with Driven([PYTHON, "-c", CHILDREN, "0.2", "4", "unreaped"], stdin="pipe", cpu_time=0.5, timeout=60) as run:
        assert outcome_of(run.settle()) == ("failed", "limit")


@pytest.mark.usefixtures("contained")
def test_control_time_that_passes_is_not_spent() -> None:
    assert outcome_of(holdfast.run(["sleep", "0.6"], cpu_time=0.3, timeout=60)) == ("succeeded", "exit")


@pytest.mark.usefixtures("contained")
@pytest.mark.parametrize(("budget", "outcome"), [(0.2, ("failed", "limit")), (30, ("succeeded", "exit"))])
def test_a_budget_that_is_spent_before_the_exit_comes_before_it(
    budget: float, outcome: tuple[str, str], tmp_path: Path
) -> None:
    """The guard does not run while the command spends it and ends."""
    there, gate = Gate(tmp_path / "there"), Gate(tmp_path / "gate")
    line = f"echo >{there.path}; read -r _ <{gate.path}; exec {PYTHON} -c '{ONE}' 0.4"
    with Driven(["sh", "-c", line], cpu_time=budget, timeout=60) as run:
        run.exit_unseen(there, gate)
        result = run.settle()
    assert outcome_of(result) == outcome
    if outcome[1] == "limit":
        assert kinds(result.facts).index("limit") < kinds(result.facts).index("exited")


def test_the_command_line(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    state = ("--state-dir", str(tmp_path / "state"))
    done = command(
        "run", *state, "--id", "spender", "--cpu-time", "300ms", "--report", str(report), "--", PYTHON, "-c", ONE, "50"
    )
    assert done.returncode == 137
    assert b"cpu time limit of 300ms reached" in done.stderr
    assert json.loads(report.read_text())["limit"] == "cpu"
    assert b"went over its limit of 300ms of cpu time: it had used" in command("why", *state, "spender").stdout


def test_no_time_at_all_is_refused() -> None:
    with pytest.raises(holdfast.SpecError, match="cpu_time is zero"):
        holdfast.run(["true"], cpu_time=0)
