"""Pruning: which runs are removed, which never are, and that a crash at any step leaves nothing unknown."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.state import removal, run_directory
from holdfast.state.index.index import Index
from holdfast.state.index.prune import PruneBounds, plan, prune
from holdfast.values.errors import SpecError
from holdfast.values.identity import read_identity
from tests.support.durable import USAGE, DurableRun, HeldLock, facts_of_success, journal_bytes, put_run

if TYPE_CHECKING:
    from holdfast.state.directory import StateDirectory

DAY_NS = 86_400 * 10**9


def fill(state: StateDirectory, index: Index, count: int = 10) -> list[str]:
    """Make ended runs r00, r01, ...; each is a day younger than the one before; the last one is of today."""
    names = [f"r{number:02}" for number in range(count)]
    now = time.time_ns()
    for number, name in enumerate(names):
        put_run(state, name, journal_bytes(name, begun_ns=now - (count - 1 - number) * DAY_NS))
    index.refresh()
    return names


def left(state: StateDirectory, index: Index) -> list[str]:
    """The remaining runs; index, directories and marks agree."""
    names = sorted(entry.run_id for entry in index.list(limit=1000).entries)
    assert sorted(os.listdir(state.runs_path)) == names
    assert state.live_ids() == []
    return names


class TestBounds:
    def test_age(self, state: StateDirectory, index: Index) -> None:
        names = fill(state, index)
        pruned = prune(index, PruneBounds(age_s=3.5 * 86_400))
        assert list(pruned.removed) == names[:6]
        assert left(state, index) == names[6:]
        assert pruned.freed_bytes > 0
        assert pruned.kept == ()

    def test_count(self, state: StateDirectory, index: Index) -> None:
        names = fill(state, index)
        assert list(prune(index, PruneBounds(runs=3)).removed) == names[:7]
        assert left(state, index) == names[7:]
        assert prune(index, PruneBounds(runs=3)).removed == ()

    def test_size(self, state: StateDirectory, index: Index) -> None:
        names = fill(state, index)
        each = run_directory.disk_bytes(state.run_path("r00"))
        assert list(prune(index, PruneBounds(size_bytes=each * 4)).removed) == names[:6]
        assert sum(run_directory.disk_bytes(state.run_path(name)) for name in left(state, index)) <= each * 4

    def test_any_bound_is_enough(self, state: StateDirectory, index: Index) -> None:
        names = fill(state, index)
        why = {candidate.run_id: candidate.why for candidate in plan(index, PruneBounds(age_s=7.5 * 86_400, runs=5))}
        assert why == {"r00": "age", "r01": "age", "r02": "count", "r03": "count", "r04": "count"}
        assert left(state, index) == names  # a plan changes nothing
        assert len(prune(index, PruneBounds(runs=0)).removed) == 10
        assert left(state, index) == []

    def test_bad_bounds(self, index: Index) -> None:
        with pytest.raises(SpecError, match="what to prune"):
            plan(index, PruneBounds())
        with pytest.raises(SpecError, match="negative"):
            plan(index, PruneBounds(runs=-1))


class TestNeverALiveOne:
    @pytest.mark.guard
    def test_a_running_one(self, state: StateDirectory, index: Index) -> None:
        with DurableRun(state, ["sh", "-c", "echo ready; exec sleep 60"]) as run:
            run.until_ready()
            assert prune(index, PruneBounds(runs=0)).removed == ()
            with run.record() as record:
                assert record.guard == "alive"
            run.kill_guard()
            assert prune(index, PruneBounds(runs=0)).removed == (run.run_id,)

    def test_one_that_the_index_takes_for_ended(self, state: StateDirectory, index: Index) -> None:
        fill(state, index, 1)
        journal = Path(state.run_path("r00"), "journal")
        journal.write_bytes(journal_bytes("r00", facts_of_success(0)[:1]))
        with HeldLock(state.run_path("r00")):
            pruned = prune(index, PruneBounds(runs=0))
            assert (pruned.removed, pruned.kept) == ((), (("r00", "its guard is alive"),))
            assert state.has("r00")

    def test_one_with_a_survivor_that_is_alive(self, state: StateDirectory, index: Index) -> None:
        """Fixture 46: a process that survived SIGKILL stays registered as long as it lives."""
        with subprocess.Popen(["sleep", "60"]) as survivor:
            try:
                identity = read_identity(survivor.pid)
                assert identity is not None
                self.put(state, "alive", survivor.pid, identity.start_ticks)
                self.put(state, "reused", survivor.pid, identity.start_ticks + 1)
                pruned = prune(index, PruneBounds(runs=0))
                assert pruned.removed == ("reused",)
                assert [run_id for run_id, _ in pruned.kept] == ["alive"]
                assert str(survivor.pid) in pruned.kept[0][1]
                assert state.has("alive")
            finally:
                survivor.kill()
        assert prune(index, PruneBounds(runs=0)).removed == ("alive",)

    @staticmethod
    def put(state: StateDirectory, run_id: str, pid: int, start_ticks: int) -> None:
        survivor = {"pid": pid, "start_ticks": start_ticks, "state": "D", "wait_channel": None, "error": 0}
        tree: dict[str, Any] = {"how": "survivors", "count": 1, "survivors": (survivor,)}
        facts = [*facts_of_success(0)[:2], ("tree", tree), ("end", USAGE)]
        put_run(state, run_id, journal_bytes(run_id, facts))


class TestCrashes:
    SCRIPT = """
import os, sys
from holdfast.state.index import index as index_module, prune as module
from holdfast.state.directory import StateDirectory
state = StateDirectory.open(sys.argv[1])
step = sys.argv[2]
def die(*_): os.kill(os.getpid(), 9)
def dies_at(name, owner, attribute, after):
    if name != step:
        return
    real = getattr(owner, attribute)
    def dies(*arguments):
        if after:
            real(*arguments)
        die()
    setattr(owner, attribute, dies)
dies_at("marked", StateDirectory, "mark_live", True)
dies_at("hidden", os, "rename", True)
dies_at("half removed", os, "unlink", True)
dies_at("removed", os, "rmdir", True)
dies_at("before the row", index_module.Index, "forget", False)
dies_at("after the row", index_module.Index, "forget", True)
dies_at("unmarked", StateDirectory, "unmark_live", True)
index = index_module.Index.open(state)
module.prune(index, module.PruneBounds(runs=1))
"""

    @pytest.mark.parametrize(
        "step", ["marked", "hidden", "half removed", "removed", "before the row", "after the row", "unmarked"]
    )
    def test_the_next_refresh_completes_it(self, state: StateDirectory, index: Index, step: str) -> None:
        names = fill(state, index, 4)
        done = subprocess.run([sys.executable, "-c", self.SCRIPT, state.path, step], check=False)
        assert done.returncode == -9
        assert index.refresh() == []
        rest = left(state, index)
        assert set(rest) <= set(names)
        assert len(rest) in ((4, 3) if step == "marked" else (3, 2, 1))
        index.rebuild()
        assert left(state, index) == rest
        prune(index, PruneBounds(runs=1))
        assert left(state, index) == names[-1:]


class TestAround:
    def test_a_new_run_of_the_same_id_keeps_its_mark(
        self, state: StateDirectory, index: Index, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fill(state, index, 1)
        forget = Index.forget

        def forget_and_start(self: Index, run_ids: list[str]) -> None:
            forget(self, run_ids)
            put_run(state, "r00", journal_bytes("r00", facts_of_success(0)[:1]))

        with monkeypatch.context() as racing:
            racing.setattr(Index, "forget", forget_and_start)
            prune(index, PruneBounds(runs=0))
        assert state.live_ids() == ["r00"]

    def test_one_that_is_removed_while_another_reads_it(
        self, state: StateDirectory, index: Index, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fill(state, index, 2)
        state.mark_live("r00")
        write = Index._write  # noqa: SLF001

        def prune_first(self: Index, ended: list[Any], gone: list[str]) -> None:
            racing.setattr(Index, "_write", write)
            with Index.open(state) as other:
                removal.begin(state, "r00")
                other.forget(["r00"])
                removal.finish(state, "r00")
            write(self, ended, gone)

        with monkeypatch.context() as racing:
            racing.setattr(Index, "_write", prune_first)
            index.refresh()
        assert left(state, index) == ["r01"]

    def test_broken_runs_can_go(self, state: StateDirectory, index: Index) -> None:
        put_run(state, "noise", os.urandom(99))
        os.mkdir(state.run_path("hollow"))
        Path(state.run_path("hollow"), "inner").mkdir()
        state.mark_live("hollow")
        assert set(prune(index, PruneBounds(runs=0)).removed) == {"noise", "hollow"}
        assert left(state, index) == []

    def test_a_directory_that_is_gone_already(self, state: StateDirectory, index: Index) -> None:
        fill(state, index, 2)
        run_directory.remove(state.run_path("r00"))
        assert prune(index, PruneBounds(runs=1)).removed == ("r00",)
        assert left(state, index) == ["r01"]

    def test_one_that_cannot_be_removed_is_kept(
        self, state: StateDirectory, index: Index, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fill(state, index, 3)
        rename = os.rename

        def refuses(source: str, target: str) -> None:
            if source.endswith("r00"):
                raise PermissionError(13, "Permission denied")
            rename(source, target)

        with monkeypatch.context() as broken:
            broken.setattr(os, "rename", refuses)
            pruned = prune(index, PruneBounds(runs=1))
        assert pruned.removed == ("r01",)
        assert pruned.kept == (("r00", "it cannot be removed: Permission denied"),)
        index.refresh()
        assert left(state, index) == ["r00", "r02"]

    def test_what_was_never_finished_goes_when_its_maker_is_dead(self, state: StateDirectory, index: Index) -> None:
        for name in ("dead", "making", "young"):
            os.mkdir(state.hidden_path(name, "new"))
            Path(state.hidden_path(name, "new"), "journal").write_bytes(b"")
        for name in ("dead", "making"):
            os.utime(state.hidden_path(name, "new"), (1, 1))
        with HeldLock(state.hidden_path("making", "new"), byte=1):
            prune(index, PruneBounds(runs=0))
            assert sorted(os.listdir(state.runs_path)) == [".new-making", ".new-young"]
