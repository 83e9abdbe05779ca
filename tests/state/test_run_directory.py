"""Run directories: complete or absent, and a true answer to whether the guard lives."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from holdfast.state import removal, run_directory
from holdfast.state.directory import StateDirectory
from holdfast.values.errors import RunExistsError, StateError
from tests.support.durable import DurableRun, HeldLock, journal_bytes, put_run


def prepare(state: StateDirectory, run_id: str) -> run_directory.PreparedDirectory:
    return run_directory.prepare(state, run_id, journal_bytes(run_id, []))


def state_of(path: str, *, has_facts: bool = False) -> str:
    fd = run_directory.open_journal(path)
    try:
        return run_directory.guard_state(fd, has_facts=has_facts)
    finally:
        os.close(fd)


def everything(state: StateDirectory) -> list[str]:
    return sorted(os.listdir(state.runs_path)) + state.live_ids()


class TestMaking:
    def test_holds_what_was_asked_for(self, state: StateDirectory) -> None:
        beginning = journal_bytes("one", [])
        prepared = run_directory.prepare(state, "one", beginning)
        assert sorted(os.listdir(prepared.path)) == ["guard.sock", "journal"]
        assert Path(prepared.path, "journal").read_bytes() == beginning
        assert os.stat(prepared.path).st_mode & 0o777 == 0o700
        assert os.stat(prepared.path + "/journal").st_mode & 0o777 == 0o600
        assert everything(state) == ["one", "one"]
        prepared.close()
        run_directory.discard(state, "one")
        assert everything(state) == []

    def test_a_taken_id(self, state: StateDirectory) -> None:
        prepared = prepare(state, "one")
        with pytest.raises(RunExistsError, match="one") as raised:
            prepare(state, "one")
        assert raised.value.remedy
        assert everything(state) == ["one", "one"]
        assert state_of(prepared.path) == "starting"  # untouched
        prepared.close()

    def test_one_that_somebody_else_is_making(self, state: StateDirectory) -> None:
        hidden = Path(state.hidden_path("one", "new"))
        hidden.mkdir()
        (hidden / "journal").write_bytes(b"theirs")
        with pytest.raises(RunExistsError):
            prepare(state, "one")
        assert (hidden / "journal").read_bytes() == b"theirs"

    def test_of_many_at_once_one_wins(self, state: StateDirectory) -> None:
        won: list[run_directory.PreparedDirectory] = []
        refused: list[RunExistsError] = []
        barrier = threading.Barrier(8)

        def make() -> None:
            barrier.wait()
            try:
                won.append(prepare(state, "one"))
            except RunExistsError as error:
                refused.append(error)

        threads = [threading.Thread(target=make) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (len(won), len(refused)) == (1, 7)
        assert everything(state) == ["one", "one"]
        assert state_of(won[0].path) == "starting"
        won[0].close()

    @pytest.mark.parametrize("step", ["mkdir", "pwrite", "rename"])
    def test_a_failure_leaves_nothing(self, state: StateDirectory, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
        def fails(*_: object, **__: object) -> int:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as full:
            full.setattr(os, step, fails)
            with pytest.raises(StateError, match="disk is full") as raised:
                prepare(state, "one")
        assert raised.value.run_id == "one"
        assert everything(state) == []
        prepare(state, "one").close()

    def test_half_a_beginning_is_none(self, state: StateDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
        pwrite = os.pwrite
        with monkeypatch.context() as full:
            full.setattr(os, "pwrite", lambda fd, data, offset: pwrite(fd, data[:10], offset))
            with pytest.raises(StateError, match="full"):
                prepare(state, "one")
        assert everything(state) == []

    @pytest.mark.parametrize("step", ["mkdir", "open", "pwrite", "mark_live", "rename"])
    def test_a_maker_that_dies_leaves_no_half_run(self, state: StateDirectory, step: str) -> None:
        script = """
import os, sys
from holdfast.state import run_directory
from holdfast.state.directory import StateDirectory
state = StateDirectory.open(sys.argv[1])
owner = StateDirectory if sys.argv[2] == "mark_live" else os
real = getattr(owner, sys.argv[2])
def dies(*arguments, **named):
    result = real(*arguments, **named)
    if os.listdir(state.runs_path):  # something is made
        os.kill(os.getpid(), 9)
    return result
setattr(owner, sys.argv[2], dies)
run_directory.prepare(state, "one", bytes.fromhex(sys.argv[3]))
"""
        argv = [sys.executable, "-c", script, state.path, step, journal_bytes("one", []).hex()]
        assert subprocess.run(argv, check=False).returncode == -9
        if step == "rename":
            assert state_of(state.run_path("one")) == "gone"  # complete, and never started
            assert Path(state.run_path("one"), "journal").stat().st_size > 100
        else:
            assert not state.has("one")
            assert removal.find_abandoned(state, older_than_s=-1) == [state.hidden_path("one", "new")]
            assert removal.find_abandoned(state) == []

    def test_a_deep_state_directory(self, tmp_path: Path) -> None:
        deep = tmp_path.joinpath(*["d" * 60] * 6)  # a socket's address has 108 bytes
        state = StateDirectory.open(str(deep))
        prepared = prepare(state, "one")
        connection = run_directory.connect(prepared.path)
        connection.close()
        prepared.close()
        with pytest.raises(ConnectionRefusedError):
            run_directory.connect(prepared.path)


class TestAlive:
    def test_from_the_launcher_to_nobody(self, state: StateDirectory) -> None:
        prepared = prepare(state, "one")
        assert state_of(prepared.path) == "starting"
        assert state_of(prepared.path, has_facts=True) == "gone"  # a guard was here: only its own lock counts
        prepared.close()
        assert state_of(prepared.path) == "gone"

    def test_the_guards_lock(self, state: StateDirectory) -> None:
        path = put_run(state, "one")
        with HeldLock(path):
            assert state_of(path) == state_of(path, has_facts=True) == "alive"
        assert state_of(path) == "gone"

    def test_taking_over_is_for_one(self, state: StateDirectory) -> None:
        path = put_run(state, "one")
        first, second = run_directory.open_journal(path, write=True), run_directory.open_journal(path, write=True)
        assert run_directory.take_over(first)
        assert not run_directory.take_over(second)
        assert run_directory.take_over(first)
        os.close(first)
        assert run_directory.take_over(second)
        os.close(second)
        with HeldLock(path):
            third = run_directory.open_journal(path, write=True)
            assert not run_directory.take_over(third)
            os.close(third)

    def test_looking_does_not_disturb(self, state: StateDirectory) -> None:
        prepared = prepare(state, "one")
        for _ in range(3):
            assert state_of(prepared.path) == "starting"  # opened and closed: a lock of another kind would be gone
        prepared.close()

    @pytest.mark.guard
    def test_a_real_guard(self, state: StateDirectory) -> None:
        with DurableRun(state, ["sh", "-c", "echo ready; exec sleep 60"]) as run:
            run.until_ready()
            assert state_of(run.record_path(), has_facts=True) == "alive"
            connection = run_directory.connect(run.record_path())
            connection.close()
            run.stop_guard()
            assert state_of(run.record_path(), has_facts=True) == "alive"  # stopped is not dead
            run.kill_guard()
            assert state_of(run.record_path(), has_facts=True) == "gone"


class TestRemoving:
    def test_counts_what_it_frees(self, state: StateDirectory) -> None:
        path = put_run(state, "one")
        size = run_directory.disk_bytes(path)
        assert size >= 4096
        assert run_directory.remove(path) == size
        assert run_directory.remove(path) == 0

    def test_also_what_is_not_ours(self, state: StateDirectory, tmp_path: Path) -> None:
        path = Path(put_run(state, "one"))
        (path / "inner").mkdir()
        (path / "inner" / "file").write_text("x")
        outside = tmp_path / "outside"
        outside.mkdir()
        (outside / "file").write_text("stays")
        (path / "link").symlink_to(outside)
        run_directory.remove(str(path))
        assert not path.exists()
        assert (outside / "file").read_text() == "stays"
