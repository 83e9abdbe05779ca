"""Budgets of a whole session: guards add up what its runs use, and the run that uses most ends."""

from __future__ import annotations

import os
import shlex
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import pytest

from holdfast.guard import packets
from holdfast.runs.durable import launch_durable
from holdfast.state import session_budget
from holdfast.state.byte_lock import lock
from holdfast.state.directory import StateDirectory
from holdfast.state.session_budget import SessionBudget, forget_table, set_budget, usage_of
from holdfast.values.errors import StateError
from holdfast.values.spec import make_spec

from ..cli.console import HOLDFAST
from ..support.durable import BOUND_S, DurableRun

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from holdfast.state.record import RunRecord

pytestmark = pytest.mark.guard
SESSION = "team"


@pytest.fixture
def state(tmp_path: Path) -> Iterator[StateDirectory]:
    directory = StateDirectory.open(str(tmp_path / "state"))
    yield directory
    forget_table(directory, SESSION)
    assert not os.path.exists(table_of(directory))


def table_of(state: StateDirectory) -> str:
    return session_budget._table_path(state, SESSION)  # noqa: SLF001


def crowd(count: int) -> list[str]:
    """A command of this many processes."""
    return ["sh", "-c", f"for i in $(seq {count - 1}); do sleep 600 & done; echo ready; wait"]


@contextmanager
def started(
    state: StateDirectory, *argvs: list[str], session: str = SESSION, ready: bool = True
) -> Iterator[list[DurableRun]]:
    """Runs of one session that have said that they are `ready`; on leaving they are ended."""
    with ExitStack() as stack:
        runs = [stack.enter_context(DurableRun(state, argv, session=session)) for argv in argvs]
        for run in runs if ready else ():
            run.until_ready()
        yield runs
        for run in runs:
            if not ended(run):
                run.handle.control.send(packets.stop(1, "user", "", now=True))
            run.until_ended()


def ended(run: DurableRun) -> bool:
    with run.record() as record:
        return record.reader.ended


def record_of(run: DurableRun) -> RunRecord:
    with run.record() as record:
        return record


def looks(state: StateDirectory) -> dict[int, int]:
    """When each guard of the session has looked last."""
    with session_budget._Table(table_of(state)) as table:  # noqa: SLF001
        return {place: entry[2] for place, entry in table.taken()}


def until_looked_again(state: StateDirectory) -> None:
    """Wait until each guard of the session has looked twice, so that all know what all use."""
    for _ in range(2):
        before, end = looks(state), time.monotonic() + BOUND_S
        while any(looks(state).get(place, at + 1) == at for place, at in before.items()):
            assert time.monotonic() < end, "a guard does not look"
            os.sched_yield()


def test_the_run_that_uses_most_processes_ends_and_the_others_go_on(state: StateDirectory) -> None:
    set_budget(state, SESSION, SessionBudget(pids=40))
    with started(state, crowd(5), crowd(10)) as others:
        until_looked_again(state)
        assert usage_of(state, SESSION)[::2] == (2, 15)
        with started(state, crowd(60), ready=False) as (largest,):  # it may end before it has said that it is ready
            largest.until_ended()
            report = record_of(largest).report()
            assert (report["status"], report["cause"], report["limit"]) == ("failed", "limit", "processes")
            limit = next(fact for fact in report["evidence"] if fact["fact"] == "limit")
            assert (limit["what"], limit["limit"]) == ("session_processes", 40)
            assert 40 < limit["seen"] <= 76
        until_looked_again(state)
        assert not any(map(ended, others))


def test_control_without_a_budget_nothing_ends(state: StateDirectory) -> None:
    with started(state, crowd(30), crowd(30)) as runs:
        assert not os.path.exists(table_of(state))
        assert not any(map(ended, runs))


def test_memory(state: StateDirectory) -> None:
    uses = "x = b'x' * (%d << 20); print('ready', flush=True); import signal; signal.pause()"
    set_budget(state, SESSION, SessionBudget(memory_bytes=120 << 20))
    small_argv, large_argv = (["python3", "-S", "-c", uses % size] for size in (40, 100))
    with started(state, small_argv) as (small,), started(state, large_argv, ready=False) as (large,):
        large.until_ended()
        report = record_of(large).report()
        assert (report["cause"], report["limit"]) == ("limit", "memory")
        assert "the session used more than its 120M of memory" in report["reason"]
        until_looked_again(state)
        assert not ended(small)


def test_only_one_run_ends(state: StateDirectory) -> None:
    """Guards decide one after the other, under a lock: nobody ends while another process holds it."""
    set_budget(state, SESSION, SessionBudget(pids=35))
    with session_budget._Table(make_table(state)) as held:  # noqa: SLF001
        assert lock(held.fd, 0)
        with started(state, *[crowd(10)] * 4) as runs:
            until_looked_again(state)
            assert not any(map(ended, runs))
            release(held.fd)
            end = time.monotonic() + BOUND_S
            while not any(map(ended, runs)):
                assert time.monotonic() < end
                os.sched_yield()
            until_looked_again(state)
            assert [ended(run) for run in runs].count(True) == 1
            assert usage_of(state, SESSION)[::2] == (3, 30)


def make_table(state: StateDirectory) -> str:
    path = table_of(state)
    session_budget._make_directory(os.path.dirname(path))  # noqa: SLF001
    return path


def release(fd: int) -> None:
    import fcntl
    import struct

    fcntl.fcntl(fd, 37, struct.pack("hhqqi4x", fcntl.F_UNLCK, os.SEEK_SET, 0, 1, 0))


def test_a_dead_guards_entry_does_not_count(state: StateDirectory) -> None:
    set_budget(state, SESSION, SessionBudget(pids=50))
    with started(state, crowd(20)) as (living,):
        with DurableRun(state, crowd(25), session=SESSION) as dead:
            dead.until_ready()
            until_looked_again(state)
            dead.kill_guard()
        set_budget(state, SESSION, SessionBudget(pids=30))
        until_looked_again(state)
        assert usage_of(state, SESSION)[::2] == (1, 20)
        assert not ended(living)


def test_a_guard_that_is_stopped_does_not_hold_up_the_others(state: StateDirectory) -> None:
    """The largest run cannot be ended by its guard, which does not look: the next one ends."""
    set_budget(state, SESSION, SessionBudget(pids=100))
    with DurableRun(state, crowd(30), session=SESSION) as largest, started(state, crowd(10)) as (next_one,):
        largest.until_ready()
        until_looked_again(state)
        largest.stop_guard()
        set_budget(state, SESSION, SessionBudget(pids=35))
        next_one.until_ended()
        assert record_of(next_one).outcome.cause == "limit"
        assert not ended(largest)
        largest.kill_guard()


def test_a_new_budget_holds_for_live_runs_and_no_budget_ends_it(state: StateDirectory) -> None:
    set_budget(state, SESSION, SessionBudget(pids=100))
    with started(state, crowd(10), crowd(20)) as (small, large):
        set_budget(state, SESSION, SessionBudget(pids=25))
        large.until_ended()
        assert record_of(large).outcome.cause == "limit"
        set_budget(state, SESSION, None)
        assert not ended(small)


def test_a_nested_run_of_the_same_session_is_counted_once(state: StateDirectory) -> None:
    set_budget(state, SESSION, SessionBudget(pids=100))
    words = ["run", "--state-dir", state.path, "--session", SESSION, "--", *crowd(20)]
    nested = " ".join(map(shlex.quote, [*HOLDFAST, *words]))
    with started(state, ["sh", "-c", f"{nested}; true"]):
        until_looked_again(state)
        usage = usage_of(state, SESSION)
        assert usage.runs == 1
        assert 20 < usage.processes < 40


def test_another_session_and_a_run_that_ends_early_are_not_counted(state: StateDirectory) -> None:
    set_budget(state, SESSION, SessionBudget(pids=15))
    with started(state, crowd(10)) as (run,), started(state, crowd(10), session="other") as (stranger,):
        until_looked_again(state)
        assert not ended(run)
        assert not ended(stranger)
        assert usage_of(state, SESSION).runs == 1


def test_a_table_that_is_full_refuses_the_start(state: StateDirectory) -> None:
    set_budget(state, SESSION, SessionBudget(pids=15))
    path = make_table(state)
    with ExitStack() as stack:
        for _ in range(255):
            assert stack.enter_context(session_budget._Table(path)).take() is not None  # noqa: SLF001
        with pytest.raises(StateError, match="255 runs share this budget"):
            launch_durable(state, make_spec(["true"], session=SESSION))
    assert list(state.all_ids()) == []
