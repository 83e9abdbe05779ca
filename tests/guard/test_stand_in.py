"""The stand-in of a sentinel that was killed: the guard that is killed later leaves a whole record and no process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from holdfast.state.directory import StateDirectory

from ..support.driven import BOUND_S, Driven
from ..support.evidence import kinds, one, outcome_of
from ..support.processes import describe, is_writer, kill_both, own_children, state_of, wait_exited

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..support.children import Children

pytestmark = pytest.mark.guard


def stand_in_of(run: Driven) -> int:
    """The stand-in: pytest is a subreaper, so guard, writer and stand-in become its children."""
    guard, run_id = run.live.guard_pid, run.live.spec.run_id

    def look() -> list[int]:
        others = own_children() - {guard, run.live.sentinel_pid}
        mine = [pid for pid in others if run_id in describe(pid) and state_of(pid) not in ("Z", None)]
        return [pid for pid in mine if not is_writer(pid)]  # the dead sentinel's writer lives a moment longer

    wait_until(lambda: bool(look()))
    return look()[0]


def wait_until(condition: Callable[[], bool]) -> None:
    """Look until it holds: the guard tells nobody of its stand-in, and its owner has no sentinel to wait for."""
    end = time.monotonic() + BOUND_S
    while not condition():
        assert time.monotonic() < end
        os.sched_yield()


def lose_sentinel(run: Driven) -> int:
    """Kill the sentinel; returns the guard, once it has a stand-in."""
    guard = run.live.guard_pid
    os.kill(run.live.sentinel_pid, signal.SIGKILL)
    stand_in_of(run)
    return guard


@pytest.mark.parametrize("kept", [False, True])
def test_a_guard_that_is_killed_after_its_sentinel(
    child: Children, contained: str, tmp_path: os.PathLike[str], kept: bool
) -> None:
    state = StateDirectory.open(os.fspath(tmp_path)) if kept else None
    with Driven(["sh", "-c", '"$@" & echo out; wait', "sh", *child("ignores_term")], state=state) as run:
        pid = run.until_ready()["pid"]
        guard = lose_sentinel(run)
        os.kill(guard, signal.SIGKILL)
        wait_until(lambda: "end" in kinds(run.facts))
        result = run.live.result()
        assert wait_exited(pid)
    assert kinds(result.facts)[:2] == ["started", "sentinel_lost"]
    assert outcome_of(result) == ("lost", "guard")
    assert one(result.facts, "guard_lost").detail["why"] == "unseen"
    assert (result.report["tree"], result.report["containment"]) == ("unknown", contained)
    assert b"out\n" in result.stdout


def test_control_without_a_stand_in_the_grandchild_lives_on(child: Children) -> None:
    with Driven(["sh", "-c", '"$@" & echo out; wait', "sh", *child("ignores_term")]) as run:
        pid = run.until_ready()["pid"]
        guard = lose_sentinel(run)
        kill_both(stand_in_of(run), guard)
        assert not wait_exited(pid, 0)
        assert "end" not in kinds(run.facts)
        os.kill(pid, signal.SIGKILL)


def test_a_stand_in_that_is_killed_is_replaced() -> None:
    with Driven(["sh", "-c", "echo ready; exec sleep 1000"]) as run:
        run.until_ready()
        guard = lose_sentinel(run)
        first = stand_in_of(run)
        os.kill(first, signal.SIGKILL)
        assert wait_exited(first)
        second = stand_in_of(run)
        assert second != first
        os.kill(guard, signal.SIGKILL)
        wait_until(lambda: "end" in kinds(run.facts))
        assert wait_exited(second)


def test_stand_ins_that_are_killed_again_and_again_fill_neither_record_nor_descriptors() -> None:
    with Driven(["sh", "-c", "echo ready; exec sleep 1000"]) as run:
        run.until_ready()
        guard = lose_sentinel(run)
        open_before = len(os.listdir(f"/proc/{guard}/fd"))
        for _ in range(20):
            stand_in = stand_in_of(run)
            os.kill(stand_in, signal.SIGKILL)
            assert wait_exited(stand_in)
        stand_in_of(run)
        assert len(os.listdir(f"/proc/{guard}/fd")) <= open_before + 1
        assert kinds(run.facts).count("sentinel_lost") == 1


def test_a_stopped_guard_is_continued_by_the_stand_in() -> None:
    with Driven(["sh", "-c", "echo ready; exec sleep 1000"]) as run:
        run.until_ready()
        guard = lose_sentinel(run)
        os.kill(guard, signal.SIGSTOP)
        wait_until(lambda: state_of(guard) == "T")
        wait_until(lambda: state_of(guard) == "S")


def test_a_run_that_ends_takes_its_stand_in_with_it(child: Children) -> None:
    with Driven(child("ignores_term"), timeout=2, grace=0.1) as run:
        run.until_ready()
        guard = lose_sentinel(run)
        stand_in = stand_in_of(run)
        assert wait_exited(guard)
        assert wait_exited(stand_in)
        result = run.live.result() if run.facts else None
    assert result is not None
    assert (*outcome_of(result), result.report["tree"]) == ("timed_out", "deadline", "gone")


OWNER = """
import os, signal, sys
from holdfast.runs.ephemeral import start_ephemeral
from holdfast.values.spec import make_spec
live = start_ephemeral(make_spec(sys.argv[1:], grace=0.1))
guard = live.guard_pid
os.kill(live.sentinel_pid, signal.SIGKILL)
print(guard, flush=True)
sys.stdin.read()
"""


def test_an_owner_that_is_killed_after_the_sentinel(child: Children) -> None:
    argv = [sys.executable, "-c", OWNER, *child("ignores_term")]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        guard = int(owner.stdout.readline())
        owner.kill()
        assert wait_exited(guard)
