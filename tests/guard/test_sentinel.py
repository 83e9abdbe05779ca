"""The sentinel: a guard that is killed, stopped or stopped over and over, and a sentinel that is killed or stopped."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from holdfast.guard import containment

from ..support.driven import Driven
from ..support.evidence import BUSY_S, kinds, one, outcome_of
from ..support.processes import is_gone, kill_both, state_of, wait_exited
from ..support.shimmed import guard_that_dies_with_a_new_leaf, guard_whose_child_misses_it, mutated_guard

if TYPE_CHECKING:
    from ..support.children import Children

pytestmark = pytest.mark.guard

# A process that forked twice, has a session of its own and no environment: nothing but its parents tells whose it is.
HIDDEN = "env -i setsid sleep 1000 </dev/null >/dev/null 2>&1 & echo ready hidden=$!; wait"


def test_a_killed_guard_leaves_nothing_and_that_is_proved(contained: str) -> None:
    with Driven(["sh", "-c", HIDDEN]) as run:
        hidden = run.until_ready()["hidden"]
        os.kill(run.live.guard_pid, signal.SIGKILL)
        result = run.settle()
        assert wait_exited(hidden, 0)
    assert outcome_of(result) == ("lost", "guard")
    assert (result.report["tree"], result.report["containment"]) == ("gone", contained)
    assert one(result.facts, "guard_lost").detail["why"] == "died"


def test_control_without_a_sentinel_the_hidden_process_lives_on() -> None:
    with Driven(["sh", "-c", HIDDEN]) as run:
        hidden = run.until_ready()["hidden"]
        kill_both(run.live.sentinel_pid, run.live.guard_pid)
        assert not wait_exited(hidden, 0)
        os.kill(hidden, signal.SIGKILL)


def test_output_in_the_pipes_is_kept_when_the_guard_dies() -> None:
    with Driven(["sh", "-c", "echo before; kill -KILL $PPID; sleep 1000"]) as run:
        result = run.settle()
    assert (result.stdout, result.report["tree"]) == (b"before\n", "gone")


def test_a_guard_that_is_stopped_goes_on_at_once(child: Children) -> None:
    with Driven(child("ignores_term"), timeout=1.5, grace=0.1) as run:
        run.until_ready()
        os.kill(run.live.guard_pid, signal.SIGSTOP)
        result = run.settle()
    assert outcome_of(result) == ("timed_out", "deadline")
    assert "guard_lost" not in kinds(result.facts)


def test_an_exit_is_seen_although_the_guard_was_stopped(child: Children) -> None:
    with Driven(child("ignores_term")) as run:
        stop_guard_and_end(run)
        assert outcome_of(run.settle()) == ("failed", "signal")


def test_control_without_the_sentinels_signal_the_guard_stays_stopped(
    child: Children, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = "    return ++watching->unforgiven <= STOPS_MAX;"
    guard = mutated_guard(tmp_path, "sentinel.c", f"    kill(watching->guard, SIGCONT);\n{counts}", counts)
    monkeypatch.setenv("HOLDFAST_GUARD", str(guard))
    with Driven(child("ignores_term")) as run:
        stop_guard_and_end(run)
        assert not wait_exited(run.live.guard_pid, 0.3)
        kill_both(run.live.sentinel_pid, run.live.guard_pid)


def stop_guard_and_end(run: Driven) -> None:
    """Stop the guard, and then kill the command."""
    pid = run.until_ready()["pid"]
    os.kill(run.live.guard_pid, signal.SIGSTOP)
    os.kill(pid, signal.SIGKILL)


def test_a_guard_that_is_stopped_over_and_over_is_replaced() -> None:
    begin = time.monotonic()
    with Driven(["sh", "-c", "while kill -STOP $PPID; do :; done"], timeout=5, grace=1, kill_wait=1) as run:
        result = run.settle()
    assert time.monotonic() - begin < 5 + 1 + 1 + 2 + 2 + BUSY_S
    assert one(result.facts, "guard_lost").detail["why"] in ("stopped", "stuck")
    assert result.report["tree"] == "gone"


def test_a_guard_whose_sentinel_was_killed_goes_on(child: Children) -> None:
    with Driven(child("ignores_term"), timeout=1.5, grace=0.1) as run:
        pid, guard = run.until_ready()["pid"], run.live.guard_pid
        os.kill(run.live.sentinel_pid, signal.SIGKILL)
        assert wait_exited(guard)
        result = run.live.result() if run.facts else None
    assert result is not None
    assert outcome_of(result) == ("timed_out", "deadline")
    assert "sentinel_lost" in kinds(result.facts)
    assert result.report["tree"] == "gone"
    assert is_gone(pid)


def test_whoever_reaps_a_killed_sentinel_continues_its_guard() -> None:
    """The run may be over by then, so that nobody waits for it any more, and the guard would stay stopped for ever."""
    with Driven(["sh", "-c", "read -r _; exit 7"], stdin="pipe") as run:
        guard = run.until("started").detail["guard_pid"]
        run.stop_guard()
        os.kill(run.live.sentinel_pid, signal.SIGKILL)
        assert wait_exited(run.live.sentinel_pid)
        assert state_of(guard) == "T", "nobody else continues it"
        assert run.live.reap()
        run.live.close_input()
        assert wait_exited(guard, 60)
        assert one(run.facts, "exited").detail["wait_status"] == 7 << 8


def test_a_sentinel_that_is_stopped_is_continued() -> None:
    with Driven(["sh", "-c", "echo ready; exec sleep 1000"]) as run:
        run.until_ready()
        os.kill(run.live.sentinel_pid, signal.SIGSTOP)
        run.wait_for(lambda: state_of(run.live.sentinel_pid) == "T", "stopped sentinel")
        run.wait_for(lambda: state_of(run.live.sentinel_pid) == "S", "continued sentinel")


def test_a_signal_to_the_sentinel_is_a_request_with_its_sender() -> None:
    with Driven(["sh", "-c", "echo ready; exec sleep 1000"]) as run:
        run.until_ready()
        os.kill(run.live.sentinel_pid, signal.SIGTERM)
        result = run.settle()
    asked = one(result.facts, "stop_asked").detail
    assert (asked["cause"], asked["signal"], asked["by_pid"]) == ("user", signal.SIGTERM, os.getpid())


@pytest.mark.root  # an ordinary user has no leaf here
def test_a_guard_that_dies_with_its_leaf_just_made_leaves_no_leaf(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_GUARD", str(guard_that_dies_with_a_new_leaf(tmp_path)))
    with Driven(["true"]) as run:
        leaf = Path(containment.probe().cgroup_base or "", f"holdfast-{run.live.spec.run_id}")
        result = run.settle()
        assert not leaf.exists()
    assert outcome_of(result) == ("lost", "guard")
    assert "started" not in kinds(result.facts)


def test_a_command_that_never_ran_because_its_guard_died_has_no_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_GUARD", str(guard_whose_child_misses_it(tmp_path)))
    with Driven(["true"]) as run:
        result = run.settle()
    assert result.exit_code is None
    assert outcome_of(result) in (("failed", "signal"), ("failed", "spawn"))  # after its start is on record, or before
