"""Commands under ptrace: a stop is not an end, and an end that a tracer hides is an end.

The control of each is tests/children/traced.c itself under a plain wait, as a parent without the guard's care sees it.
"""

from __future__ import annotations

import os
import signal
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

import holdfast
from holdfast.guard import packets
from tests.support.driven import Driven
from tests.support.evidence import BUSY_S, Stopwatch, assert_all_gone, kinds, one, outcome_of
from tests.support.processes import state_of, wait_exited

if TYPE_CHECKING:
    from tests.support.children import Children

pytestmark = pytest.mark.guard

_FORBIDDEN = 97  # the child's code when ptrace is refused


def run_traced(child: Children, how: str, **options: Any) -> holdfast.Result:
    """Run the child and return the result; skip where ptrace is forbidden."""
    result: holdfast.Result = holdfast.run(child("traced", how), timeout=60, grace=0.5, **options)
    if result.exit_code == _FORBIDDEN:
        pytest.skip("allowed: ptrace is forbidden here")
    return result


@pytest.mark.parametrize("how", ["execs", "signalled"])
def test_a_command_that_asks_to_be_traced_goes_on(child: Children, how: str) -> None:
    result = run_traced(child, how)
    assert (*outcome_of(result), result.exit_code) == ("failed", "exit", 7)


def test_its_own_trap_still_ends_it(child: Children) -> None:
    result = run_traced(child, "trapped")
    assert (*outcome_of(result), result.signal) == ("failed", "signal", signal.SIGTRAP)


def test_control_a_plain_parent_sees_a_stop(child: Children) -> None:
    with subprocess.Popen(child("traced", "signalled")) as process:
        _, status = os.waitpid(process.pid, 0)
        if os.WIFEXITED(status):
            pytest.skip("allowed: ptrace is forbidden here")
        assert os.WIFSTOPPED(status)
        process.kill()


def test_an_orphan_that_asks_to_be_traced_goes_on(child: Children, contained: str) -> None:
    with Stopwatch() as watch:
        result = run_traced(child, "orphan", stragglers="wait")
    assert (*outcome_of(result), result.exit_code) == ("failed", "exit", 7)
    assert_all_gone(result.report)
    assert watch.seconds < BUSY_S, "it stood still until the deadline"
    assert "signalled" not in kinds(result.facts)
    assert result.report["containment"] == contained


def test_an_exit_that_a_tracer_hides_is_the_outcome(child: Children, contained: str) -> None:
    with Stopwatch() as watch:
        result = run_traced(child, "by-child")
    assert (*outcome_of(result), result.exit_code) == ("failed", "exit", 7)
    assert_all_gone(result.report)
    assert watch.seconds < BUSY_S
    assert kinds(result.facts).count("exited") == 1
    assert one(result.facts, "stragglers").detail["count"] == 1  # the tracer
    assert result.report["usage"]["max_rss_bytes"] > 0, "the zombie was reaped when its tracer was gone"
    assert result.report["containment"] == contained


def test_the_exit_is_told_while_the_tracer_lives(child: Children) -> None:
    with Driven(child("traced", "by-child"), timeout=30, grace=0.5, stragglers="wait") as run:
        if run.until("exited").detail["wait_status"] == _FORBIDDEN << 8:
            pytest.skip("allowed: ptrace is forbidden here")
        run.take_turns()
        assert state_of(run.command_pid) == "Z", "its tracer has not waited for it, and so the guard could not"
        assert run.ask(lambda ticket: packets.stop(ticket, "user", "enough", now=False)) == 0
        result = run.settle()
    assert (*outcome_of(result), result.exit_code) == ("failed", "exit", 7)
    assert_all_gone(result.report)


def test_control_a_plain_wait_sees_no_end(child: Children) -> None:
    with subprocess.Popen(child("traced", "by-child"), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert wait_exited(process.pid)
        if not line:
            pytest.skip("allowed: ptrace is forbidden here")
        assert process.poll() is None
        os.kill(int(line.split(b"tracer=")[1]), signal.SIGKILL)
        assert process.wait(60) == 7
