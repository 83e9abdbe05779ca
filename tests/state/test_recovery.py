"""Recovery: a run whose guard is gone gets its end, once, and only its own processes are touched."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from holdfast.guard import containment
from holdfast.guard.leftovers import TreeEnd
from holdfast.state import recovery
from holdfast.state.index.index import Index
from holdfast.state.index.prune import PruneBounds, prune
from holdfast.state.record import RunRecord
from holdfast.values.errors import JournalVersionError
from holdfast.values.identity import read_identity
from holdfast.values.run_id import new_run_id
from tests.support.durable import USAGE, DurableRun, HeldLock, facts_of_success, journal_bytes, put_run
from tests.support.evidence import kinds
from tests.support.processes import is_gone, kill_children, own_children, wait_exited

if TYPE_CHECKING:
    from holdfast.outcome import Outcome
    from holdfast.state.directory import StateDirectory
    from tests.support.children import Children

STARTED = facts_of_success(0)[:1]


def outcome_of(state: StateDirectory, run_id: str) -> Outcome:
    with RunRecord(state, run_id) as record:
        record.read()
        assert record.reader.ended
        return record.outcome


class TestOutcome:
    @pytest.mark.root
    def test_a_guard_killed_before_it_said_where_its_cgroup_is(self, state: StateDirectory) -> None:
        base = containment.probe().cgroup_base
        assert base is not None
        run_id, stranger = new_run_id(), Path(base, f"holdfast-{new_run_id()}")
        leaf = Path(base, f"holdfast-{run_id}")
        put_run(state, run_id, journal_bytes(run_id, []))
        leaf.mkdir()
        stranger.mkdir()
        with subprocess.Popen(["/bin/sleep", "60"]) as left:
            (leaf / "cgroup.procs").write_text(str(left.pid))
            recovered = recovery.finish(state, run_id)
            assert left.wait() == -signal.SIGKILL
        assert recovered is not None
        assert recovered.how == "gone"
        assert not leaf.exists()
        assert stranger.exists()
        stranger.rmdir()

    @pytest.mark.guard
    def test_a_killed_guard(self, state: StateDirectory, child: Children, contained: str) -> None:
        """The leader dies with its guard; recovery ends its children."""
        known = own_children()
        with DurableRun(state, child("daemonises")) as run:
            names = run.until_ready()
            run.kill_guard()
            recovered = recovery.finish(state, run.run_id)
            assert recovered is not None
            assert recovered.survivors == ()
            assert recovered.how == "unknown"
            outcome = outcome_of(state, run.run_id)
            assert (outcome.status, outcome.cause, outcome.state) == ("lost", "guard", "settled")
            assert outcome.exit_code is None  # nobody saw it
            if contained == "cgroup":
                assert all(is_gone(pid) or wait_exited(pid) for pid in names.values())
            assert not os.path.exists(os.path.join(run.record_path(), "guard.sock"))
            assert recovery.finish(state, run.run_id) is None
        for pid in own_children() - known:
            os.kill(pid, signal.SIGKILL)  # it cleared its environment, and there was no cgroup: nobody could know it
            os.waitpid(pid, 0)

    @pytest.mark.guard
    @pytest.mark.root
    @pytest.mark.parametrize("cleared", [False, True])
    def test_a_killed_guard_and_a_process_in_another_cgroup(
        self, state: StateDirectory, tmp_path: Path, cleared: bool
    ) -> None:
        """A login session and `systemd-run --scope` move a process out of the cgroup of its run.

        With a cleared environment nobody finds it, and so nobody may say that it is gone.
        """
        if (base := containment.probe().cgroup_base) is None:
            pytest.skip(f"needs a writable cgroup v2: {containment.probe().why_not}")
        elsewhere = Path(base) / f"elsewhere-{os.getpid()}"
        elsewhere.mkdir()
        pid_file = tmp_path / "pid"
        moves = (
            f"echo $$ >{elsewhere}/cgroup.procs; echo $$ >{pid_file}; echo ready; exec {'env -i ' * cleared}sleep 100"
        )
        known = own_children()
        try:
            with DurableRun(state, ["sh", "-c", f"setsid sh -c '{moves}' & wait"]) as run:
                run.until_ready()
                moved = int(pid_file.read_text())
                run.kill_guard()
                recovered = recovery.finish(state, run.run_id)
            assert recovered is not None
            assert recovered.how == "unknown"
            assert wait_exited(moved, 0 if cleared else 20) is not cleared
        finally:
            kill_children(known)
            elsewhere.rmdir()

    @pytest.mark.parametrize(
        ("facts", "expected"),
        [
            ([], ("lost", "guard")),
            (STARTED, ("lost", "guard")),
            ([*STARTED, ("deadline", {"limit_ns": 1})], ("timed_out", "deadline")),
            ([*STARTED, ("exited", {"wait_status": 0, **USAGE})], ("succeeded", "exit")),
            (
                [*STARTED, ("stop_asked", {"cause": "session", "signal": 0, "by_pid": 1, "by_uid": 0})],
                ("cancelled", "session"),
            ),
            ([("spawn_failed", {"step": "exec", "error": 2})], ("failed", "spawn")),
        ],
    )
    def test_what_was_decided_stays(
        self, state: StateDirectory, facts: list[tuple[str, dict[str, object]]], expected: tuple[str, str]
    ) -> None:
        put_run(state, "one", journal_bytes("one", facts))
        assert recovery.finish(state, "one") is not None
        outcome = outcome_of(state, "one")
        assert (outcome.status, outcome.cause, outcome.state) == (*expected, "settled")

    def test_another_boot(self, state: StateDirectory) -> None:
        """Fixture 29: the same PID and start time after a reboot; the boot id differs, and nothing is signalled."""
        run_id = new_run_id()  # no other run has this token: a process with it is killed
        with subprocess.Popen(["sleep", "60"], env={"HOLDFAST_RUN_ID": run_id, **os.environ}) as stranger:
            try:
                put_run(state, run_id, journal_bytes(run_id, self.started_as(stranger.pid), boot="another-boot"))
                recovered = recovery.finish(state, run_id)
                assert recovered is not None
                assert recovered.how == "gone"  # nothing outlives a reboot
                outcome = outcome_of(state, run_id)
                assert (outcome.status, outcome.cause) == ("lost", "host")
                assert outcome.ended is not None
                assert outcome.started is not None
                assert outcome.ended.at_ns >= outcome.started.at_ns
                assert stranger.poll() is None
            finally:
                stranger.kill()

    def test_a_number_that_went_to_somebody_else(self, state: StateDirectory) -> None:
        """Fixture 28: the PID on record now belongs to another process, which lives; a process with the token dies."""
        run_id = new_run_id()
        with (
            subprocess.Popen(["sleep", "60"]) as stranger,
            subprocess.Popen(["sleep", "60"], env={**os.environ, "HOLDFAST_RUN_ID": run_id}) as own,
            subprocess.Popen(["sleep", "60"], env={**os.environ, "HOLDFAST_RUN_ID": run_id + "1"}) as others,
        ):
            try:
                put_run(state, run_id, journal_bytes(run_id, self.started_as(stranger.pid)))
                recovered = recovery.finish(state, run_id)
                assert recovered is not None
                assert (recovered.how, recovered.survivors) == ("unknown", ())
                assert (stranger.poll(), others.poll()) == (None, None)
                assert own.wait() == -signal.SIGKILL  # the control: a process with the token is killed
            finally:
                for process in (stranger, own, others):
                    process.kill()

    @staticmethod
    def started_as(pid: int) -> list[tuple[str, dict[str, object]]]:
        identity = read_identity(pid)
        assert identity is not None
        return [("started", {**STARTED[0][1], "pid": pid, "start_ticks": identity.start_ticks})]

    def test_a_survivor_is_on_record_with_its_identity(
        self, state: StateDirectory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Fixture 46: the survivor stays registered; the run is kept as long as this very process lives."""
        with subprocess.Popen(["sleep", "60"]) as survivor:
            try:
                monkeypatch.setattr(recovery, "clean_up", lambda *_, **__: TreeEnd("survivors", (survivor.pid,)))
                put_run(state, "one", journal_bytes("one", STARTED))
                recovered = recovery.finish(state, "one")
                assert recovered is not None
                assert recovered.survivors == (survivor.pid,)
                tree = outcome_of(state, "one").tree
                assert tree is not None
                identity = read_identity(survivor.pid)
                assert identity is not None
                (found,) = tree.detail["survivors"]
                assert (found["pid"], found["start_ticks"]) == identity[:2]
                with Index.open(state) as index:
                    assert [run_id for run_id, _ in prune(index, PruneBounds(runs=0)).kept] == ["one"]
            finally:
                survivor.kill()


class TestOnlyOnce:
    def test_a_living_guard_is_left_alone(self, state: StateDirectory) -> None:
        path = put_run(state, "one", journal_bytes("one", STARTED))
        before = Path(path, "journal").read_bytes()
        with HeldLock(path):
            assert recovery.finish(state, "one") is None
        assert Path(path, "journal").read_bytes() == before

    def test_a_starting_one_is_left_alone(self, state: StateDirectory) -> None:
        path = put_run(state, "one", journal_bytes("one", []))
        with HeldLock(path, byte=1):
            assert recovery.finish(state, "one") is None
        assert recovery.finish(state, "one") is not None

    def test_an_ended_one_is_left_alone(self, state: StateDirectory) -> None:
        path = put_run(state, "one")
        before = Path(path, "journal").read_bytes()
        assert recovery.finish(state, "one") is None
        assert recovery.finish(state, "nobody") is None
        assert Path(path, "journal").read_bytes() == before

    def test_many_at_once_write_one_end(self, state: StateDirectory) -> None:
        names = [f"r{number}" for number in range(40)]
        for name in names:
            put_run(state, name, journal_bytes(name, STARTED))
        script = """
import sys
from holdfast.state import recovery
from holdfast.state.directory import StateDirectory
state = StateDirectory.open(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
print(sum(recovery.finish(state, name) is not None for name in state.live_ids()), flush=True)
"""
        argv = [sys.executable, "-c", script, state.path]
        others = [subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(4)]
        for other in others:
            assert other.stdout is not None
            assert other.stdout.readline() == "ready\n"
        for other in others:
            assert other.stdin is not None
            other.stdin.write("go\n")
            other.stdin.flush()
        assert sum(int(other.communicate()[0]) for other in others) == len(names)
        for name in names:
            with RunRecord(state, name) as record:
                record.read()
                assert kinds(record.reader.facts) == ["started", "tree", "lost", "end"]

    def test_one_that_died_at_any_byte_is_redone(self, state: StateDirectory) -> None:
        beginning = journal_bytes("one", STARTED)
        path = Path(put_run(state, "one", beginning), "journal")
        assert recovery.finish(state, "one") is not None
        whole = path.read_bytes()
        for length in range(len(beginning), len(whole)):
            path.write_bytes(whole[:length])
            assert recovery.finish(state, "one") is not None, length
            outcome = outcome_of(state, "one")
            assert (outcome.status, outcome.cause) == ("lost", "guard")
            with RunRecord(state, "one") as record:
                record.read()
                assert record.reader.damage is None


class TestDamage:
    def test_what_cannot_be_read_is_kept(self, state: StateDirectory) -> None:
        data = journal_bytes("one")
        broken = data.replace(b"HLDF", b"HLDG")
        path = Path(put_run(state, "one", data[:16] + broken[16:]))
        recovered = recovery.finish(state, "one")
        assert recovered is not None
        assert "byte 16" in str(recovered.damage)
        assert (path / "journal.damaged").read_bytes() == data[:16] + broken[16:]
        assert outcome_of(state, "one").status == "lost"

    def test_noise_gets_a_beginning_and_an_end(self, state: StateDirectory) -> None:
        noise = os.urandom(1000)
        path = Path(put_run(state, "one", noise))
        assert recovery.finish(state, "one") is not None
        assert (path / "journal.damaged").read_bytes() == noise
        with RunRecord(state, "one") as record:
            record.read()
            assert record.reader.header is not None
            assert record.reader.header["run_id"] == "one"
            assert (record.report()["status"], record.report()["run_id"]) == ("lost", "one")

    def test_a_foreign_version_is_not_touched(self, state: StateDirectory) -> None:
        data = journal_bytes("one").replace(b"HOLDFAST\x01", b"HOLDFAST\x63", 1)
        path = Path(put_run(state, "one", data), "journal")
        with pytest.raises(JournalVersionError, match="one"):
            recovery.finish(state, "one")
        assert path.read_bytes() == data

    def test_a_recovery_that_dies_when_the_end_is_written_leaves_no_socket(
        self, state: StateDirectory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """After the end is written, nobody looks again for the socket of the run."""
        socket = Path(put_run(state, "one", journal_bytes("one", STARTED)), "guard.sock")
        socket.touch()

        def dies(_fd: int) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(os, "fsync", dies)
        with pytest.raises(KeyboardInterrupt):
            recovery.finish(state, "one")
        assert outcome_of(state, "one").status == "lost"
        assert not socket.exists()

    @pytest.mark.root
    def test_a_full_disk_is_an_error_and_can_be_redone(self, tmp_path: Path) -> None:
        from holdfast.state.directory import StateDirectory

        mount = tmp_path / "small"
        mount.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k,mode=0700", "tmpfs", str(mount)], check=True)
        try:
            state = StateDirectory.open(str(mount / "state"))
            text = b'{"argv": ["x"]}'
            size = len(journal_bytes("one", STARTED, spec=text))
            text = b'{"argv": ["%s"]}' % (b"x" * (4096 - size - 7))  # up to the end of a page: no room behind it
            put_run(state, "one", journal_bytes("one", STARTED, spec=text))
            with (mount / "filler").open("wb", buffering=0) as file:
                try:
                    while file.write(b"x" * 4096):
                        pass
                except OSError:
                    pass
            with pytest.raises(OSError, match="No space"):
                recovery.finish(state, "one")
            (mount / "filler").unlink()
            assert recovery.finish(state, "one") is not None
            assert outcome_of(state, "one").status == "lost"
        finally:
            subprocess.run(["umount", str(mount)], check=True)
