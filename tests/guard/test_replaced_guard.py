"""Guards that the sentinel replaces: one that is stopped slowly but for ever, and one that a tracer holds."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from holdfast.guard import packets
from tests.support.cgroups import use_no_cgroup

from ..support.driven import Driven
from ..support.evidence import BUSY_S, Stopwatch, kinds, one, outcome_of
from ..support.freezer import Freezer, why_no_freezer
from ..support.processes import is_gone, state_of, wait_exited
from ..support.shimmed import guard_with_slow_proc

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ..support.children import Children

pytestmark = pytest.mark.guard

STOPS_SLOWLY = """
import os, signal, time
for _ in range({times}):
    os.kill(os.getppid(), signal.SIGSTOP)
    time.sleep({pause})
"""


def test_a_guard_that_is_stopped_slowly_is_replaced_after_so_many_tries() -> None:
    with Driven([sys.executable, "-c", STOPS_SLOWLY.format(times=2000, pause=0.02)], kill_wait=2) as run:
        result = run.settle()
    lost = one(result.facts, "guard_lost").detail
    assert (lost["why"], lost["stops"] > 100) == ("stopped", True)
    assert (*outcome_of(result), result.report["tree"]) == ("lost", "guard", "gone")


def test_control_a_guard_that_is_stopped_a_few_times_is_kept() -> None:
    with Driven([sys.executable, "-c", STOPS_SLOWLY.format(times=50, pause=0.02)]) as run:
        result = run.settle()
    assert outcome_of(result) == ("succeeded", "exit")


@contextmanager
def held(child: Children, pid: int) -> Iterator[None]:
    """Hold a process with ptrace: SIGCONT does not let it go on."""
    with subprocess.Popen(child("holds", pid), stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        try:
            assert holder.stdout.readline().startswith(b"ready")
            yield
        finally:
            holder.kill()


@pytest.mark.root
def test_a_guard_that_a_tracer_holds_is_replaced_when_its_deadline_is_past(child: Children, contained: str) -> None:
    with Driven(child("ignores_term"), timeout=2, grace=0.1, kill_wait=1) as run, Stopwatch() as watch:
        pid, guard = run.until_ready()["pid"], run.live.guard_pid
        with held(child, guard):
            run.wait_for(lambda: "guard_lost" in kinds(run.facts), "guard_lost")
            assert wait_exited(guard)
            run.until("end")
        result = run.settle()
    assert watch.seconds < 2 + 0.1 + 1 + 2 + 2 + BUSY_S  # the rule
    assert one(result.facts, "guard_lost").detail["why"] == "stuck"
    assert (*outcome_of(result), result.report["containment"]) == ("timed_out", "deadline", contained)
    assert result.report["tree"] in ("gone", "unknown")  # the tracer keeps the dead guard from being reaped
    assert is_gone(pid)


@pytest.mark.root
def test_the_group_of_a_command_is_stopped_at_once_although_its_guard_cannot_die(
    child: Children, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as the killed guard is not dead, the command is no child of the sentinel.

    Each look at a process takes a second, as for a sentinel that the tree starves: a walk comes to the last process of
    this one after minutes.
    """
    if why_not := why_no_freezer():
        pytest.skip(why_not)
    use_no_cgroup(monkeypatch)
    monkeypatch.setenv("HOLDFAST_GUARD", str(guard_with_slow_proc(tmp_path, 999)))
    with Freezer() as frozen, Driven(child("grows_tree", 100, "stubborn"), timeout=5, grace=0.1, kill_wait=1) as run:
        deepest, guard = run.until_ready()["pid"], run.live.guard_pid
        frozen.freeze(guard)
        run.wait_for(lambda: state_of(deepest) == "T", "a stopped process")
        assert not wait_exited(guard, 0)
        frozen.thaw()
        assert wait_exited(guard)


@pytest.mark.root
def test_control_a_guard_that_a_tracer_holds_does_not_go_on(child: Children) -> None:
    """Nothing is due, so nothing is late. SIGCONT and a ping do not wake it: it is the watchdog that ends the above."""
    with Driven(child("ignores_term")) as run:
        run.until_ready()
        guard = run.live.guard_pid
        with held(child, guard):
            for number in (signal.SIGCONT, signal.SIGURG):
                os.kill(guard, number)
            assert not wait_exited(guard, 2)
            assert state_of(guard) == "t"
        assert run.ask(packets.heartbeat) == 0
