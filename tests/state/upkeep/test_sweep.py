"""The sweep: its work in one pass, its limits, and that one broken run does not affect the others."""

from __future__ import annotations

import logging
import os
import time
from typing import TYPE_CHECKING

import anyio
import pytest

from holdfast.state import run_directory
from holdfast.state.index.index import Index
from holdfast.state.record import RunRecord
from holdfast.state.upkeep import orphans
from holdfast.state.upkeep.sweep import Sweeper
from holdfast.values.errors import StateError
from holdfast.values.run_id import new_run_id
from tests.support.durable import DurableRun, HeldLock, facts_of_success, journal_bytes, put_run, run_to_end
from tests.support.processes import wait_exited

from ..marked import LEAVES_ONE, Marked

if TYPE_CHECKING:
    from holdfast.state.directory import StateDirectory

pytestmark = pytest.mark.usefixtures("own_orphans_only")


@pytest.mark.guard
def test_a_lost_run_gets_its_end_and_nothing_of_it_is_left(
    state: StateDirectory, contained: str, caplog: pytest.LogCaptureFixture
) -> None:
    sweeper = Sweeper(state)
    with DurableRun(state, LEAVES_ONE) as run:
        pid = run.until_ready()["pid"]
        assert sweeper.sweep() == ((), (), (), (), ()), "it is alive"
        assert not wait_exited(pid, 0)
        run.kill_guard()
        with caplog.at_level(logging.WARNING, "holdfast"):
            swept = sweeper.sweep()
        assert swept.finished == (run.run_id,)
        assert wait_exited(pid, 0)
        assert [record.name for record in caplog.records] == ["holdfast"]
        assert run.run_id in caplog.text
        assert "its guard was lost" in caplog.text
        assert not os.path.exists(os.path.join(run.record_path(), run_directory.SOCKET))
        with Index.open(state) as index:
            entry = index.get(run.run_id)
        assert entry is not None
        assert (entry.report["status"], entry.report["cause"]) == ("lost", "guard")
        assert state.live_ids() == []
        assert sweeper.sweep() == ((), (), (), (), ())
    assert contained


@pytest.mark.guard
def test_a_run_that_ended_is_taken_into_the_index(state: StateDirectory) -> None:
    run_id = run_to_end(state)
    assert state.live_ids() == [run_id]
    assert Sweeper(state).sweep().problems == ()
    assert state.live_ids() == []


def test_one_broken_run_does_not_stop_the_rest(
    state: StateDirectory, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [f"run-{number}" for number in range(4)]
    unfinished = facts_of_success(0)[:1]
    put_run(state, ids[0], b"\xff" * 100)
    put_run(state, ids[1], journal_bytes(ids[1], unfinished))
    put_run(state, ids[2], journal_bytes(ids[2], unfinished))
    os.mkdir(state.run_path(ids[3]))
    state.mark_live(ids[3])
    refused = os.path.join(state.run_path(ids[1]), run_directory.JOURNAL)
    real = run_directory.open_journal

    def open_journal(path: str, *, write: bool = False) -> int:
        if write and os.path.join(path, run_directory.JOURNAL) == refused:
            raise OSError(30, "Read-only file system")
        return real(path, write=write)

    monkeypatch.setattr(run_directory, "open_journal", open_journal)
    with caplog.at_level(logging.WARNING, "holdfast"):
        swept = Sweeper(state).sweep()
    assert swept.finished == (ids[0], ids[2])
    assert any(ids[1] in problem and "Read-only" in problem for problem in swept.problems)
    assert all(run_id in caplog.text for run_id in ids[:3])
    with RunRecord(state, ids[2]) as record:
        assert record.read().outcome.status == "lost"


def test_the_same_trouble_is_told_once(state: StateDirectory, caplog: pytest.LogCaptureFixture, marked: Marked) -> None:
    """A second time only if the trouble comes back."""
    run_id = new_run_id()
    marked(run_id)
    sweeper = Sweeper(state)
    with caplog.at_level(logging.WARNING, "holdfast"):
        assert [len(sweeper.sweep().problems) for _ in range(3)] == [1, 1, 1]
        assert caplog.text.count(run_id) == 1
        marked.end()
        assert sweeper.sweep().problems == ()
        marked(run_id)
        assert len(sweeper.sweep().problems) == 1
        assert caplog.text.count(run_id) == 2


def test_orphans_of_our_runs_are_ended_and_others_only_found(state: StateDirectory, marked: Marked) -> None:
    ours, theirs = "ours", new_run_id()
    put_run(state, ours)
    our_pid, their_pid = marked(ours), marked(theirs)
    swept = Sweeper(state).sweep()
    assert [(reaped.orphan.pid, reaped.how) for reaped in swept.reaped] == [(our_pid, "gone")]
    assert [orphan.pid for orphan in swept.orphans] == [their_pid]
    assert wait_exited(our_pid, 0)
    assert not wait_exited(their_pid, 0)
    assert all(run_id in "".join(swept.problems) for run_id in (ours, theirs))


def test_stale_sockets_go_and_those_of_guards_stay(state: StateDirectory) -> None:
    for run_id in ("ended", "guarded"):
        path = put_run(state, run_id)
        os.mknod(os.path.join(path, run_directory.SOCKET))
    with HeldLock(state.run_path("guarded")):
        swept = Sweeper(state).sweep()
    assert swept.removed == (os.path.join(state.run_path("ended"), run_directory.SOCKET),)
    assert os.path.exists(os.path.join(state.run_path("guarded"), run_directory.SOCKET))


def test_half_written_directories_go_when_they_are_old_and_nobodys(state: StateDirectory) -> None:
    an_hour_ago = time.time() - 3600
    for run_id in ("old", "young", "busy"):
        path = state.hidden_path(run_id, "new")
        os.mkdir(path)
        with open(os.path.join(path, run_directory.JOURNAL), "wb"):
            pass
        state.mark_live(run_id)
        if run_id != "young":
            os.utime(path, (an_hour_ago, an_hour_ago))
    with HeldLock(state.hidden_path("busy", "new"), byte=1):
        swept = Sweeper(state).sweep()
    assert swept.removed == (state.hidden_path("old", "new"),)
    assert sorted(os.listdir(state.runs_path)) == [".new-busy", ".new-young"]
    assert state.live_ids() == ["busy", "young"], "the mark goes with it"


def test_a_directory_that_is_gone_is_a_warning(state: StateDirectory, caplog: pytest.LogCaptureFixture) -> None:
    os.rename(state.live_path, f"{state.live_path}-away")
    with caplog.at_level(logging.WARNING, "holdfast"):
        swept = Sweeper(state).sweep()
    assert any("list the live runs" in problem for problem in swept.problems)
    assert "live" in caplog.text


@pytest.mark.anyio
async def test_it_repeats_until_it_is_cancelled(state: StateDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass that fails completely does not end the sweep either."""
    passes = anyio.Event()
    count = 0

    def find(_state: StateDirectory | None) -> list[orphans.Orphan]:
        nonlocal count
        count += 1
        if count == 1:
            raise StateError("the first pass goes wrong")
        if count == 2:
            raise RuntimeError("and so does the second")
        if count == 4:
            anyio.from_thread.run_sync(passes.set)
        return []

    monkeypatch.setattr(orphans, "find", find)
    async with anyio.create_task_group() as group:
        group.start_soon(Sweeper(state).run, 0.001)
        with anyio.fail_after(30):
            await passes.wait()
        group.cancel_scope.cancel()
    assert count >= 4


@pytest.mark.guard
@pytest.mark.anyio
async def test_a_supervisors_loop_is_not_held_up(state: StateDirectory) -> None:
    with DurableRun(state, LEAVES_ONE) as run:
        pid = run.until_ready()["pid"]
        run.kill_guard()
        async with anyio.create_task_group() as group:
            group.start_soon(Sweeper(state).run, 0.01)
            with anyio.fail_after(30):
                assert await anyio.to_thread.run_sync(wait_exited, pid)
            group.cancel_scope.cancel()
