"""A guard that did not run across the deadline: the kernel kept the order, or the record says that it is unknown."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from tests.support.driven import Driven
from tests.support.evidence import all_of, assert_all_gone, kinds, outcome_of
from tests.support.processes import state_of
from tests.support.shimmed import guard_that_stops_before_its_timers

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.guard

TIMEOUT_S = 0.6


def until_past() -> None:
    """Wait until the deadline has certainly passed."""
    end = time.monotonic() + TIMEOUT_S + 0.2
    while time.monotonic() < end:
        os.sched_yield()


def let_go(gate: Path) -> None:
    gate.write_text("go\n")


def gated(gate: Path, line: str = "exit 0") -> list[str]:
    os.mkfifo(gate)
    return ["sh", "-c", f"echo ready; read line <{gate}; {line}"]


def until_dead(run: Driven, pid: int) -> None:
    run.wait_for(lambda: state_of(pid) == "Z", "zombie")


def test_an_exit_after_the_deadline_is_late_though_the_guard_slept(tmp_path: Path) -> None:
    """Before there was a witness this had succeeded, long after its deadline."""
    with Driven(gated(tmp_path / "gate"), timeout=TIMEOUT_S) as run:
        run.until_ready()
        run.stop_guard()
        until_past()
        let_go(tmp_path / "gate")
        until_dead(run, run.command_pid)
        run.continue_guard()
        result = run.settle()
    assert outcome_of(result) == ("timed_out", "deadline")
    assert result.exit_code == 0
    assert "order_unknown" not in kinds(result.facts)
    assert_all_gone(result.report)


def test_an_exit_before_the_deadline_is_on_time_though_the_guard_slept(tmp_path: Path) -> None:
    with Driven(gated(tmp_path / "gate"), timeout=TIMEOUT_S) as run:
        run.until_ready()
        run.stop_guard()
        let_go(tmp_path / "gate")
        until_dead(run, run.command_pid)
        until_past()
        run.continue_guard()
        result = run.settle()
    assert outcome_of(result) == ("succeeded", "exit")
    assert not all_of(result.facts, "deadline")


@pytest.mark.parametrize("late", [False, True])
def test_a_guard_that_is_stopped_between_its_signals_and_its_timers(
    late: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It slept up to the deadline, has seen no signal, and stood still: then it finds the dead command."""
    monkeypatch.setenv("HOLDFAST_GUARD", str(guard_that_stops_before_its_timers(tmp_path)))
    with Driven(["sh", "-c", f"echo ready; exec sleep {100 if late else TIMEOUT_S / 2}"], timeout=TIMEOUT_S) as run:
        guard = run.live.guard_pid
        run.wait_for(lambda: state_of(guard) == "T" or all_of(run.facts, "exited") != [], "stopped guard")
        if late:
            os.kill(run.command_pid, signal.SIGKILL)
            until_dead(run, run.command_pid)
        run.continue_guard()
        result = run.settle()
    assert outcome_of(result) == (("timed_out", "deadline") if late else ("succeeded", "exit"))
    assert "order_unknown" not in kinds(result.facts)


@pytest.mark.parametrize("late", [False, True])
def test_an_order_that_nobody_saw_is_called_unknown(late: bool, tmp_path: Path) -> None:
    """An orphan that dies first hides the command's exit: the kernel keeps one SIGCHLD of children."""
    gate, orphan = tmp_path / "gate", tmp_path / "orphan"
    os.mkfifo(orphan)
    line = f"(sh -c 'read line <{orphan}' & echo $! >{tmp_path}/pid); echo ready; read line <{gate}; exit 0"
    os.mkfifo(gate)
    with Driven(["sh", "-c", line], timeout=TIMEOUT_S) as run:
        run.until_ready()
        run.stop_guard()
        pid = int((tmp_path / "pid").read_text())
        let_go(orphan)
        until_dead(run, pid)
        if late:
            until_past()
        let_go(gate)
        until_dead(run, run.command_pid)
        until_past()
        run.continue_guard()
        result = run.settle()
    assert outcome_of(result) == ("timed_out", "deadline")
    assert kinds(result.facts).index("order_unknown") < kinds(result.facts).index("deadline")
    assert result.exit_code == 0
    assert_all_gone(result.report)
