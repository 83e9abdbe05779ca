"""Terminals: output behind the first 4 KiB, one that is opened again, and one that the command hangs up."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING

import pytest

import holdfast
from tests.support.driven import Driven, Gate
from tests.support.evidence import kinds, one, outcome_of
from tests.support.processes import has_pending, wait_exited

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.children import Children

pytestmark = pytest.mark.guard

BYTES = 12_000
SUCCEEDED = ("succeeded", "exit")


def on_terminal(result: holdfast.Result) -> bytes:
    """The output of `writes_bytes` on its terminal; checks that no byte was late or lost."""
    assert outcome_of(result) == SUCCEEDED
    drained = one(result.facts, "drained").detail
    assert (drained["late_bytes"], drained["dropped_bytes"]) == (0, 0)
    return result.stdout


def expected() -> bytes:
    return bytes(ord("a") + i % 26 for i in range(BYTES)) + b"wrote %d\r\n" % BYTES


def test_what_was_written_right_before_the_exit_is_on_time(child: Children) -> None:
    for _ in range(20):
        result = holdfast.run(child("writes_bytes", BYTES), pty=True, timeout=60)
        assert on_terminal(result) == expected()


def test_so_it_is_when_the_guard_looks_only_after_the_exit(child: Children, tmp_path: Path) -> None:
    there, gate = Gate(tmp_path / "there"), Gate(tmp_path / "gate")
    line = f'echo >{there.path}; read -r _ <{gate.path}; exec "$@"'
    with Driven(["sh", "-c", line, "sh", *child("writes_bytes", BYTES)], pty=True, timeout=60) as run:
        there.wait()
        pid = run.command_pid
        run.stop_guard()
        gate.open()
        wait_exited(pid, 1)  # or it waits for room, which some kernels give only after a read: complete all the same
        run.continue_guard()
        assert on_terminal(run.settle()) == expected()


@pytest.mark.parametrize("writes", [True, False])
def test_a_terminal_that_nobody_has_open_may_be_opened_again(writes: bool, tmp_path: Path) -> None:
    closed, gate = Gate(tmp_path / "closed"), Gate(tmp_path / "gate")
    line = f"exec 0<&- 1>&- 2>&-; echo >{closed.path}; read -r _ <{gate.path};"
    line += " echo again >/dev/tty" if writes else " exit 0"
    with Driven(["sh", "-c", line], pty=True, timeout=60) as run:
        closed.wait()
        run.take_turns()  # the guard has seen that no process has the terminal open
        gate.open()
        result = run.settle()
    assert on_terminal(result) == (b"again\r\n" if writes else b"")
    assert one(result.facts, "drained").detail["how"] == "eof"


def test_a_terminal_that_nobody_has_open_costs_nothing(tmp_path: Path) -> None:
    closed = Gate(tmp_path / "closed")
    line = f"exec 0<&- 1>&- 2>&-; echo >{closed.path}; exec sleep 60"
    with Driven(["sh", "-c", line], pty=True, timeout=1.5, grace=5) as run:
        closed.wait()
        result = run.settle()
        assert run.guard_cpu_s() < 0.4, "it does not spin on the hang-up"
    assert outcome_of(result) == ("timed_out", "deadline")


_HANGS_UP = """
import ctypes, signal, sys
signal.signal(signal.SIGHUP, signal.SIG_IGN)
if ctypes.CDLL(None).vhangup():
    sys.exit(99)
if len(sys.argv) > 1:
    open(sys.argv[1], "w").close()
    signal.sigwait([signal.SIGTERM])
sys.exit(5)
"""


@pytest.mark.root
def test_a_command_that_hangs_up_its_own_terminal_goes_on() -> None:
    result = holdfast.run([sys.executable, "-c", _HANGS_UP], pty=True, timeout=20)
    assert (*outcome_of(result), result.exit_code) == ("failed", "exit", 5)
    assert "stop_asked" not in kinds(result.facts)


@pytest.mark.root
def test_a_hang_up_that_a_person_sends_still_ends_it(tmp_path: Path) -> None:
    there = Gate(tmp_path / "there")
    with Driven([sys.executable, "-c", _HANGS_UP, str(there.path)], pty=True, timeout=20, grace=0.1) as run:
        there.wait()
        # The kernel keeps one pending SIGHUP: ours would be lost beside that of the hang-up.
        run.wait_for(lambda: not has_pending(run.live.guard_pid, signal.SIGHUP), "a guard that took the hang-up")
        signal.pidfd_send_signal(run.live.pidfd, signal.SIGHUP)
        result = run.settle()
    assert outcome_of(result) == ("cancelled", "user")
    assert one(result.facts, "stop_asked").detail["signal"] == signal.SIGHUP
