"""A writer that is stopped when sentinel and guard die: it holds their lock, and must not keep the run from its end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from holdfast.guard.processes import guard_of
from holdfast.runs.durable import recover
from holdfast.state.directory import StateDirectory

from ..support.driven import Driven
from ..support.evidence import kinds
from ..support.processes import children_of, state_of, stop_both, wait_exited
from ..support.shimmed import mutated_guard

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.guard

BOUND_S = 60.0
COMMAND = ["sh", "-c", "echo ready; exec sleep 1000"]


class WithStoppedWriter(Driven):
    """A kept run without a deadline, whose writer is stopped."""

    def __init__(self, place: Path) -> None:
        self.state = StateDirectory.open(os.fspath(place / "state"))
        super().__init__(COMMAND, state=self.state)
        self.until_ready()
        self.guard = self.until("started").detail["guard_pid"]
        (self.writer,) = set(children_of(self.live.sentinel_pid)) - {self.guard}
        os.kill(self.writer, signal.SIGSTOP)
        end = time.monotonic() + BOUND_S
        while state_of(self.writer) != "T":
            assert time.monotonic() < end
            os.sched_yield()

    def lose_both(self) -> None:
        """Kill sentinel and guard at once; returns when both are dead."""
        both = self.live.sentinel_pid, self.guard
        stop_both(*both)  # neither sees the other die
        for pid in both:
            os.kill(pid, signal.SIGKILL)
        assert all(wait_exited(pid, BOUND_S) for pid in both)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[WithStoppedWriter]:
    with WithStoppedWriter(tmp_path) as run:
        yield run


SIGNAL_AND_NAME = """#define SIGNAL_ORPHANED SIGCONT /* and so the death of its parent continues a writer that \
somebody has stopped */
#define WRITER_NAME "holdfast-write"
"""


@pytest.fixture(scope="module")
def late_guard(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A guard whose writer the kernel does not continue, as if it were stopped after the death of the other two.

    The writer has not got its name, either, as if it were stopped in its first moment.
    """
    changed = SIGNAL_AND_NAME.replace("SIGCONT", "SIGHUP").replace("holdfast-write", "holdfast-guard")
    return mutated_guard(tmp_path_factory.mktemp("late"), "writer.c", SIGNAL_AND_NAME.rstrip(), changed.rstrip())


@pytest.fixture
def stays_stopped(late_guard: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WithStoppedWriter]:
    monkeypatch.setenv("HOLDFAST_GUARD", os.fspath(late_guard))
    with WithStoppedWriter(tmp_path) as run:
        yield run
        if state_of(run.writer) == "T":
            os.kill(run.writer, signal.SIGKILL)


def test_the_death_of_its_parent_continues_a_writer(run: WithStoppedWriter) -> None:
    run.lose_both()
    assert wait_exited(run.writer, BOUND_S)
    run.live.clean_up()
    assert kinds(run.facts)[-3:] == ["tree", "lost", "end"]


def test_control_a_writer_without_that_signal_stays_stopped(stays_stopped: WithStoppedWriter) -> None:
    stays_stopped.lose_both()
    assert state_of(stays_stopped.writer) == "T"


def test_a_writer_in_its_first_moment_is_not_taken_for_the_guard(stays_stopped: WithStoppedWriter) -> None:
    assert guard_of(stays_stopped.live.sentinel_pid) == stays_stopped.guard


def test_whoever_finishes_the_run_continues_its_writer(stays_stopped: WithStoppedWriter) -> None:
    stays_stopped.lose_both()
    assert recover(stays_stopped.state, stays_stopped.live.spec.run_id)
    assert wait_exited(stays_stopped.writer, BOUND_S)


def test_whoever_waits_for_the_run_continues_its_writer(stays_stopped: WithStoppedWriter) -> None:
    """The run has no deadline, and so no bound after which anybody would look for a lost guard."""
    stays_stopped.lose_both()
    holdfast = Path(sys.executable).with_name("holdfast")
    words = ["wait", "--quiet", "--state-dir", stays_stopped.state.path, stays_stopped.live.spec.run_id]
    assert subprocess.run([holdfast, *words], timeout=BOUND_S, check=False).returncode == 125
    assert wait_exited(stays_stopped.writer, BOUND_S)
