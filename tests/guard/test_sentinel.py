"""The sentinel: a guard that is killed, stopped or stopped over and over, and a sentinel that is killed or stopped."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from ..support.driven import Driven
from ..support.evidence import kinds, one, outcome_of
from ..support.processes import is_gone, kill_both, state_of, wait_exited

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
    with Driven(child("ignores_term"), timeout=0.5, grace=0.1) as run:
        run.until_ready()
        os.kill(run.live.guard_pid, signal.SIGSTOP)
        result = run.settle()
    assert outcome_of(result) == ("timed_out", "deadline")
    assert "guard_lost" not in kinds(result.facts)


def test_a_guard_that_is_stopped_over_and_over_is_replaced() -> None:
    begin = time.monotonic()
    with Driven(["sh", "-c", "while kill -STOP $PPID; do :; done"], timeout=5, grace=1, kill_wait=1) as run:
        result = run.settle()
    assert time.monotonic() - begin < 5 + 1 + 1 + 2 + 2
    assert one(result.facts, "guard_lost").detail["why"] in ("stopped", "stuck")
    assert result.report["tree"] == "gone"


def test_a_guard_whose_sentinel_was_killed_goes_on(child: Children) -> None:
    with Driven(child("ignores_term"), timeout=0.5, grace=0.1) as run:
        pid, guard = run.until_ready()["pid"], run.live.guard_pid
        os.kill(run.live.sentinel_pid, signal.SIGKILL)
        assert wait_exited(guard)
        result = run.live.result() if run.facts else None
    assert result is not None
    assert outcome_of(result) == ("timed_out", "deadline")
    assert "sentinel_lost" in kinds(result.facts)
    assert result.report["tree"] == "gone"
    assert is_gone(pid)


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
