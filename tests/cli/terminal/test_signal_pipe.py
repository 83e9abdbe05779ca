"""Signals of the command line: a SIGCONT that comes before the process has stopped must not get lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from ...support.processes import wait_exited

_PROGRAM = """
import os, signal, sys
from holdfast.cli.terminal.signal_pipe import SignalPipe

interrupts = SignalPipe()
send = lambda number: os.kill(os.getpid(), number)
send(signal.SIGTSTP)
if sys.argv[1] == "both":
    send(signal.SIGCONT)
taken = interrupts.take()
if sys.argv[1] == "between":
    send(signal.SIGCONT)
if signal.SIGTSTP in taken:
    interrupts.suspend(group=False)
print([*taken], [*interrupts.take()], flush=True)
"""
TSTP, CONT = int(signal.SIGTSTP), int(signal.SIGCONT)


def start(when: str) -> subprocess.Popen[bytes]:
    # A group of its own, but our session: the kernel does not stop an orphaned group.
    return subprocess.Popen([sys.executable, "-c", _PROGRAM, when], stdout=subprocess.PIPE, process_group=0)


@pytest.mark.parametrize(
    ("when", "seen"),
    [("both", f"[{CONT}] []"), ("between", f"[{TSTP}] [{CONT}]")],
    ids=["before-it-was-read", "before-it-was-obeyed"],
)
def test_a_stop_that_was_taken_back_is_not_obeyed(when: str, seen: str) -> None:
    with start(when) as process:
        assert process.stdout is not None
        assert wait_exited(process.pid), "stopped for good"
        assert process.stdout.read().decode().strip() == seen


def test_control_a_stop_that_stands_is_obeyed() -> None:
    with start("never") as process:
        stop = os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        assert stop is not None
        assert stop.si_code == os.CLD_STOPPED
        process.send_signal(signal.SIGCONT)
        assert process.stdout is not None
        assert process.stdout.read().decode().strip() == f"[{TSTP}] [{CONT}]"
