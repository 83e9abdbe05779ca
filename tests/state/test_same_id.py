"""Two state directories with a run of the same id: what ends one of them leaves the other alone."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from holdfast.state import recovery
from holdfast.state.directory import StateDirectory
from holdfast.values.run_id import new_run_id
from tests.guard.test_stand_in import lose_sentinel, wait_until
from tests.support.driven import Driven
from tests.support.durable import DurableRun, prepared
from tests.support.evidence import kinds
from tests.support.processes import wait_exited

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.children import Children

pytestmark = pytest.mark.guard

LEAVES = ["sh", "-c", '"$@" & wait', "sh"]  # the command of these runs is the parent of a process that goes on


@pytest.fixture
def run_id() -> str:
    """A chosen id: no other test has it."""
    return f"chosen-{new_run_id()}"


@pytest.fixture
def other(tmp_path: Path, run_id: str, child: Children, contained: str) -> Callable[[], DurableRun]:
    """Start a run of another state directory."""
    del contained
    elsewhere = StateDirectory.open(os.fspath(tmp_path / "other"))
    return lambda: DurableRun(elsewhere, child("ignores_term"), run_id=run_id)


def goes_on(run: DurableRun, pid: int) -> bool:
    """Whether the run is as it was. Its guard sees a process that dies, and records it."""
    if wait_exited(pid, 0):
        return False
    with run.record() as record:
        return kinds(record.reader.facts) == ["started"]


def test_recovery(state: StateDirectory, run_id: str, child: Children, other: Callable[[], DurableRun]) -> None:
    with other() as stranger, DurableRun(state, [*LEAVES, *child("ignores_term")], run_id=run_id) as run:
        pid, own = stranger.until_ready()["pid"], run.until_ready()["pid"]
        run.kill_guard()
        recovered = recovery.finish(state, run_id)
        assert recovered is not None
        assert (recovered.how, recovered.survivors) == ("unknown", ())
        assert wait_exited(own), "the control: its own process is found"
        assert goes_on(stranger, pid)


def test_recovery_of_a_run_that_never_started(
    state: StateDirectory, run_id: str, other: Callable[[], DurableRun]
) -> None:
    """It may have a cgroup that is not on record. The cgroup with its name is the other's."""
    with other() as stranger:
        pid = stranger.until_ready()["pid"]
        prepared(state, run_id)
        assert recovery.finish(state, run_id) is not None
        assert goes_on(stranger, pid)


def test_killing_a_guard(state: StateDirectory, run_id: str, child: Children, other: Callable[[], DurableRun]) -> None:
    """An owner looks for a stand-in by the run id, too."""
    with other() as stranger, Driven(child("ignores_term"), state=state, run_id=run_id) as run:
        pid, own = stranger.until_ready()["pid"], run.until_ready()["pid"]
        run.live.kill_guard()
        run.live.clean_up()
        assert wait_exited(own), "the control: its own process is found"
        assert goes_on(stranger, pid)


def test_a_stand_in(state: StateDirectory, run_id: str, child: Children, other: Callable[[], DurableRun]) -> None:
    with Driven([*LEAVES, *child("ignores_term")], state=state, run_id=run_id) as run:
        own = run.until_ready()["pid"]
        guard = lose_sentinel(run)
        with other() as stranger:  # not before this: `lose_sentinel` looks for processes by the run id
            pid = stranger.until_ready()["pid"]
            os.kill(guard, signal.SIGKILL)
            wait_until(lambda: "end" in kinds(run.facts))
            assert wait_exited(own), "the control: its own process is found"
            assert goes_on(stranger, pid)
