"""Killing sentinel and guard: no process of theirs is left that goes on with the run."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from holdfast.state.directory import StateDirectory
from holdfast.values.fast_imports import signal as signals

from ..support.driven import BOUND_S, Driven
from ..support.evidence import kinds, outcome_of
from ..support.processes import describe, is_writer, own_children, state_of, wait_exited

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.guard


class DrainingRun(Driven):
    """A run that is over but for its output: we hold its pipe open, and it may wait a minute for that."""

    def __init__(self, place: Path) -> None:
        state = StateDirectory.open(os.fspath(place))
        super().__init__(["sh", "-c", "echo ready; exec sleep 1000"], state=state, drain=60, drain_idle=60, grace=0.1)
        self.until_ready()
        self._holder = os.open(f"/proc/{self.command_pid}/fd/1", os.O_WRONLY)
        self.live.ask_stop(now=True)
        self.until("tree")

    def let_go(self) -> None:
        """Close the pipe: now the run may end by itself."""
        os.close(self._holder)

    def others(self) -> list[int]:
        """The living processes of this run besides sentinel and guard: a stand-in. Pytest is a subreaper."""
        known = {self.live.guard_pid, self.live.sentinel_pid}
        mine = [pid for pid in own_children() - known if self.live.spec.run_id in describe(pid)]
        return [pid for pid in mine if state_of(pid) not in ("Z", None) and not is_writer(pid)]


@pytest.fixture
def draining(tmp_path: Path) -> Iterator[DrainingRun]:
    with DrainingRun(tmp_path) as run:
        yield run
        run.let_go()


def until(condition: Callable[[], object]) -> None:
    """Look until it holds: no event tells of a stand-in."""
    end = time.monotonic() + BOUND_S
    while not condition():
        assert time.monotonic() < end
        os.sched_yield()


def test_a_guard_that_could_see_its_sentinel_die(draining: DrainingRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the two kills the guard has all the time that it needs for a stand-in: it stands still."""
    send, guard = signals.pidfd_send_signal, draining.live.guard_pid

    def send_slowly(target: int, number: int) -> None:
        send(target, number)
        if number == signal.SIGKILL and target == draining.live.pidfd:
            until(lambda: state_of(guard) == "T" or draining.others())

    with monkeypatch.context() as slow:
        slow.setattr(signals, "pidfd_send_signal", send_slowly)
        draining.live.kill_guard()
    assert draining.others() == []
    draining.live.clean_up()
    assert outcome_of(draining.live.result()) == ("cancelled", "user")
    assert kinds(draining.facts)[-2:] == ["lost", "end"]


def test_a_stand_in_that_is_there_already(draining: DrainingRun) -> None:
    os.kill(draining.live.sentinel_pid, signal.SIGKILL)
    until(draining.others)
    draining.live.kill_guard()
    assert draining.others() == []
    draining.live.clean_up()
    assert kinds(draining.facts)[-2:] == ["lost", "end"]


def test_a_stand_in_that_could_see_the_guard_die(draining: DrainingRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the guard's death the stand-in has all the time that it needs to take the run over: it is dead before."""
    send, guard = signals.pidfd_send_signal, draining.live.guard_pid
    os.kill(draining.live.sentinel_pid, signal.SIGKILL)
    until(draining.others)

    def send_slowly(target: int, number: int) -> None:
        send(target, number)
        if number == signal.SIGKILL and state_of(guard) != "T":
            until(lambda: not draining.others() or "guard_lost" in kinds(draining.facts))

    with monkeypatch.context() as slow:
        slow.setattr(signals, "pidfd_send_signal", send_slowly)
        draining.live.kill_guard()
    assert draining.others() == []
    assert "guard_lost" not in kinds(draining.facts)
    draining.live.clean_up()


def test_control_a_stand_in_that_is_not_killed_goes_on_with_the_run(draining: DrainingRun) -> None:
    os.kill(draining.live.sentinel_pid, signal.SIGKILL)
    until(draining.others)
    (stand_in,) = draining.others()
    os.kill(draining.live.guard_pid, signal.SIGKILL)
    until(lambda: "guard_lost" in kinds(draining.facts))
    assert draining.others() == [stand_in]
    assert "end" not in kinds(draining.facts), "it waits for the rest of the output, as the guard did"
    os.kill(stand_in, signal.SIGKILL)
    assert wait_exited(stand_in)
