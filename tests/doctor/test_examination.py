"""The doctor: its findings on the host, in the state directory and among the processes, and its repairs."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from holdfast import doctor
from holdfast.doctor import examination, host_health, repair
from holdfast.doctor.finding import OK, PROBLEM, WARNING
from holdfast.guard import containment, packets
from holdfast.state import owner_lock, run_directory
from holdfast.state.directory import StateDirectory
from holdfast.state.index.index import Index
from holdfast.state.recovery import finish
from holdfast.values import environment
from holdfast.values.identity import read_identity
from holdfast.values.run_id import new_run_id
from tests.support.durable import DurableRun, HeldLock, facts_of_success, journal_bytes, put_run, run_to_end
from tests.support.freezer import Freezer, why_no_freezer
from tests.support.processes import state_of, stop_both, wait_exited

from ..state.marked import LEAVES_ONE, Marked

if TYPE_CHECKING:
    from holdfast.doctor.finding import Diagnosis, DoctorFinding, RepairResult
    from tests.support.children import Children

# Orphans belong to the whole host: tests that end all orphans and tests that leave one take turns.
pytestmark = [pytest.mark.xdist_group("orphans"), pytest.mark.usefixtures("own_orphans_only", "clean_environment")]


def examine(state: StateDirectory, *, age_s: float = 60.0) -> Diagnosis:
    return examination.examine(state.path, trial=False, age_s=age_s)


def bad(diagnosis: Diagnosis) -> list[DoctorFinding]:
    return [finding for finding in diagnosis.findings if finding.needs_action]


def only(diagnosis: Diagnosis) -> DoctorFinding:
    (finding,) = bad(diagnosis)
    return finding


def reap(state: StateDirectory, *, age_s: float = 60.0) -> list[RepairResult]:
    return repair.carry_out(state, examine(state, age_s=age_s).repairs)


def about(diagnosis: Diagnosis, run_id: str) -> list[DoctorFinding]:
    return [finding for finding in diagnosis.findings if finding.run_id == run_id]


class TestHost:
    @pytest.mark.guard
    def test_a_healthy_host_says_what_it_has(self, contained: str) -> None:
        found = {finding.topic: finding for finding in host_health.examine()}
        assert {"platform", "containment", "limits", "environment", "guard"} == found.keys()
        assert not any(finding.needs_action for finding in found.values())
        assert "pidfd" in found["platform"].what
        assert f"contained by {contained}" in found["guard"].what

    def test_why_containment_is_not_better(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(containment.FORCE_VARIABLE, "subreaper")
        containment.forget()
        found = [finding for finding in host_health.examine(trial=False) if finding.topic == "containment"]
        monkeypatch.undo()
        containment.forget()
        assert found[0].level == WARNING
        assert "subreaper" in found[0].what
        assert "HOLDFAST_CONTAINMENT=subreaper is set" in found[0].what
        assert not found[0].needs_action

    def test_few_descriptors_are_a_warning(self) -> None:
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (200, before[1]))
        try:
            found = [finding for finding in host_health.examine(trial=False) if finding.needs_action]
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
        assert [(finding.level, finding.topic) for finding in found] == [(WARNING, "limits")]
        assert "200 file descriptors" in found[0].what
        assert "ulimit -n" in (found[0].remedy or "")

    def test_the_environment_is_checked_by_the_one_list(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CLAUDECODE", "1")
        monkeypatch.setenv("CLAUDE_CODE_OAUTH_TOKEN", "secret")
        found = [finding for finding in host_health.examine(trial=False) if finding.topic == "environment"]
        assert [finding.level for finding in found] == [WARNING]
        assert "CLAUDECODE is set" in found[0].what
        assert "secret" not in found[0].what
        assert not found[0].needs_action, "no run inherits it"

    @pytest.mark.parametrize("broken", ["missing", "not executable", "does nothing"])
    def test_a_guard_that_does_not_run_is_a_problem(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
    ) -> None:
        path = tmp_path / "guard"
        if broken != "missing":
            path.write_text("#!/bin/sh\nexit 0\n")
            path.chmod(0o755 if broken == "does nothing" else 0o644)
        monkeypatch.setenv(environment.GUARD, str(path))
        (found,) = [finding for finding in host_health.examine() if finding.needs_action]
        assert (found.level, found.topic) == (PROBLEM, "guard")
        assert str(path) in found.what
        assert found.remedy

    def test_what_a_kernel_lacks_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(host_health.CAPABILITIES, "pidfd", lambda: False)
        monkeypatch.setitem(host_health.CONVENIENCES, "close_range", lambda: False)
        found = [finding for finding in host_health.examine(trial=False) if finding.topic == "platform"]
        assert [(finding.level, finding.needs_action) for finding in found] == [(PROBLEM, True), (WARNING, False)]
        assert "lacks pidfd" in found[0].what
        assert "close_range" in found[1].what


class TestDirectory:
    def test_a_fresh_one_is_healthy(self, state: StateDirectory) -> None:
        diagnosis = examine(state)
        assert diagnosis.healthy
        assert diagnosis.repairs == ()

    def test_one_that_nobody_made_yet_is_healthy_unless_it_was_named(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = str(tmp_path / "not-there")
        monkeypatch.setenv(environment.STATE_DIR, path)
        assert examination.examine(trial=False).healthy
        assert not os.path.exists(path), "looking makes nothing"
        named = only(examination.examine(path, trial=False))
        assert (named.level, named.topic) == (PROBLEM, "state")

    @pytest.mark.parametrize(
        ("break_it", "words"),
        [
            (lambda state: Path(state.path, "format").write_text("99\n"), "format 99"),
            (lambda state: Path(state.path, "format").unlink(), "is no state directory"),
            (lambda state: os.chmod(state.path, 0o770), "others may write"),
            (lambda state: os.chmod(state.path, 0o755), "others may look into"),
            (lambda state: os.rmdir(state.sessions_path), "sessions is missing"),
            (lambda state: os.rmdir(state.live_path), "live is missing"),
            (lambda state: os.rmdir(state.runs_path), "runs is missing"),
        ],
    )
    def test_what_is_wrong_with_it(self, state: StateDirectory, break_it: object, words: str) -> None:
        assert callable(break_it)
        break_it(state)
        found = bad(examine(state))
        assert any(words in finding.what for finding in found), found
        assert all(finding.remedy for finding in found)

    @pytest.mark.root
    def test_a_full_disk(self, tmp_path: Path) -> None:
        place = tmp_path / "disk"
        place.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=0700", "tmpfs", place], check=True)
        try:
            state = StateDirectory.open(str(place / "state"))
            found = only(examine(state))
        finally:
            subprocess.run(["umount", place], check=True)
        assert (found.level, found.topic) == (WARNING, "state")
        assert "0 MiB free" in found.what
        assert "prune" in (found.remedy or "")

    def test_the_owner_lock(self, state: StateDirectory) -> None:
        with owner_lock.take(state, "a daemon"):
            (found,) = [finding for finding in examine(state).findings if finding.topic == "owner"]
            assert (found.level, found.pids) == (OK, (os.getpid(),))
            assert "alive: a daemon" in found.what
            note = Path(state.path, owner_lock.NAME).read_bytes()
        Path(state.path, owner_lock.NAME).write_bytes(note)
        found = only(examine(state))
        assert (found.level, found.topic) == (WARNING, "owner")
        assert [done.confirmed for done in reap(state)] == [True]
        assert examine(state).healthy
        Path(state.path, owner_lock.NAME).write_bytes(b'{"format": 2}')
        found = only(examine(state))
        assert (found.level, found.topic) == (PROBLEM, "owner")
        assert reap(state) == []

    @pytest.mark.parametrize("content", [b"", b"1234"])
    def test_a_damaged_owner_lock_is_moved_aside(self, state: StateDirectory, content: bytes) -> None:
        Path(state.path, owner_lock.NAME).write_bytes(content)
        found = only(examine(state))
        assert (found.level, found.topic) == (WARNING, "owner")
        assert [(done.confirmed, done.what) for done in reap(state)] == [(True, "it is missing now")]
        assert Path(state.path, owner_lock.DAMAGED_NAME).read_bytes() == content
        assert examine(state).healthy


class TestIndex:
    def test_a_sound_one(self, state: StateDirectory) -> None:
        put_run(state, "a")
        with Index.open(state) as index:
            index.refresh()
        diagnosis = examine(state)
        assert diagnosis.healthy
        assert any("sound, 1 ended run" in finding.what for finding in diagnosis.findings)

    def test_a_damaged_one_is_found_and_made_again(self, state: StateDirectory) -> None:
        put_run(state, "a")
        with Index.open(state) as index:
            index.refresh()
        path = Path(state.index_path)
        path.write_bytes(b"nonsense" * 1000)
        before = path.read_bytes()
        found = only(examine(state))
        assert (found.level, found.topic) == (PROBLEM, "index")
        assert path.read_bytes() == before, "looking repairs nothing"
        assert [done.confirmed for done in reap(state)] == [True]
        assert examine(state).healthy
        with Index.open(state) as index:
            assert index.get("a") is not None

    def test_one_that_is_out_of_step(self, state: StateDirectory) -> None:
        put_run(state, "a")
        put_run(state, "b")
        with Index.open(state) as index:
            index.refresh()
        shutil.rmtree(state.run_path("a"))
        put_run(state, "c", live=False)
        found = only(examine(state))
        assert (found.level, found.topic) == (WARNING, "index")
        assert "lacks 1 ended runs, and has 1 that are gone" in found.what
        reap(state)
        assert examine(state).healthy


class TestRuns:
    @pytest.mark.guard
    def test_a_live_run_is_shown_with_its_processes(self, state: StateDirectory) -> None:
        with DurableRun(state, LEAVES_ONE) as run:
            ready = run.until_ready()
            diagnosis = examine(state)
            (found,) = about(diagnosis, run.run_id)
            assert diagnosis.healthy
            assert run.guard_pid
        assert found.what == f"running; guard {run.guard_pid} alive, command {ready['leader']} alive"
        assert found.pids == (run.guard_pid, ready["leader"])

    @pytest.mark.guard
    def test_a_guard_that_stands_still_is_a_problem(self, state: StateDirectory) -> None:
        with DurableRun(state, LEAVES_ONE) as run:
            run.until_ready()
            sentinel, guard = run.handle.sentinel_pid, run.guard_pid
            stop_both(sentinel, guard)
            (found,) = about(examine(state), run.run_id)
            os.kill(sentinel, signal.SIGCONT)  # it continues the guard
            while state_of(guard) == "T":
                os.sched_yield()
            (after,) = about(examine(state), run.run_id)
        assert (found.level, found.remedy) == (PROBLEM, f"kill -CONT {sentinel} {guard}")
        assert "its guard is stopped, and its clocks with it" in found.what
        assert after.level == OK

    @pytest.mark.guard
    def test_a_lost_run_is_found_shown_and_reaped(self, state: StateDirectory, contained: str) -> None:
        with DurableRun(state, LEAVES_ONE) as run:
            ready = run.until_ready()
            assert run.guard_pid
            run.kill_guard()
            assert wait_exited(ready["leader"])
            diagnosis = examine(state)
            found = only(diagnosis)
            assert (found.level, found.topic, found.run_id) == (PROBLEM, "run", run.run_id)
            assert f"guard {run.guard_pid} gone, command {ready['leader']} gone" in found.what
            assert f"left of it: process {ready['pid']}" in found.what
            assert found.pids == (ready["pid"],)
            assert "--reap" in (found.remedy or "")
            with run.record() as record:
                assert not record.reader.ended, "looking finishes nothing"
            assert not wait_exited(ready["pid"], 0)
            (done,) = repair.carry_out(state, diagnosis.repairs)
            assert (done.confirmed, done.repair.kind) == (True, "finish")
            assert wait_exited(ready["pid"], 0)
            assert examine(state).healthy
            assert state.live_ids() == []
        assert contained

    def test_a_run_of_another_boot_has_no_live_process(self, state: StateDirectory, marked: Marked) -> None:
        """Fixture 29: PID and start time of the command belong to another process, and the boot is another."""
        stranger = read_identity(marked(None))
        assert stranger is not None
        started = {"pid": stranger.pid, "guard_pid": stranger.pid, "start_ticks": stranger.start_ticks}
        facts = [("started", {**started, "containment": "subreaper"})]
        put_run(state, "before", journal_bytes("before", facts, boot="0" * 36))
        put_run(state, "now", journal_bytes("now", facts))  # the control
        found = {finding.run_id: finding for finding in bad(examine(state))}
        assert f"command {stranger.pid} gone" in found["before"].what
        assert found["before"].pids == ()
        assert f"command {stranger.pid} alive" in found["now"].what
        reap(state)
        assert not wait_exited(stranger.pid, 0), "it carries no mark: only a number was the same"
        assert examine(state).healthy

    def test_runs_that_cannot_be_read_are_findings_of_their_own(self, state: StateDirectory) -> None:
        put_run(state, "damaged", b"\xff" * 64)
        put_run(state, "fine")
        os.mkdir(state.run_path("empty"))
        state.mark_live("empty")
        state.mark_live("removed")
        found = {finding.run_id: finding for finding in bad(examine(state))}
        assert found.keys() == {"damaged", "empty", "removed"}
        assert "no journal" in found["empty"].what
        reap(state)
        assert {finding.run_id for finding in bad(examine(state))} <= {"empty"}

    @pytest.mark.guard
    def test_what_was_left_on_purpose_is_shown_and_stays(self, state: StateDirectory) -> None:
        argv = ["sh", "-c", "sleep 600 >/dev/null 2>&1 &"]
        with DurableRun(state, argv, stragglers="leave") as run:
            run.until_ended()
            with run.record() as record:
                (pid,) = record.report()["survivors"]
            with Index.open(state) as index:
                index.refresh()
            diagnosis = examine(state)
            (found,) = about(diagnosis, run.run_id)
            assert (found.level, found.pids) == (OK, (pid,))
            assert diagnosis.healthy
            assert reap(state) == []
            assert not wait_exited(pid, 0)
            os.kill(pid, signal.SIGKILL)
            assert wait_exited(pid)
            assert about(examine(state), run.run_id) == []

    @pytest.mark.guard
    @pytest.mark.root
    @pytest.mark.parametrize("how", ["recorded by its guard", "recorded by recovery"])
    def test_46_a_survivor_stays_on_the_list_until_it_is_gone(
        self, state: StateDirectory, child: Children, how: str
    ) -> None:
        if why_not := why_no_freezer():
            pytest.skip(why_not)
        with (
            Freezer() as freezer,
            DurableRun(state, child("ignores_term"), grace=0.1, kill_wait=0.3, drain=0.3) as run,
        ):
            pid = run.until_ready()["pid"]
            freezer.freeze(pid)
            if how == "recorded by its guard":
                run.handle.control.send(packets.stop(1, "user", "", now=False))
                run.until_ended()
            else:
                run.kill_guard()
                finish(state, run.run_id)
            for _ in range(2):  # out of its journal, then out of the index
                (found,) = [each for each in bad(examine(state)) if pid in each.pids]
                assert (found.level, found.run_id) == (PROBLEM, run.run_id)
                assert "survived" in found.what
                with Index.open(state) as index:
                    index.refresh()
            assert state.live_ids() == []
            freezer.thaw()
            assert wait_exited(pid)
            assert not any(pid in finding.pids for finding in examine(state).findings)
            repair.carry_out(state, examine(state, age_s=-60).repairs)  # the cgroup that the survivor kept
            assert examine(state, age_s=-60).healthy


class TestProcesses:
    def test_an_orphan_that_no_registry_knows(self, state: StateDirectory, marked: Marked) -> None:
        run_id = new_run_id()
        pid, stranger = marked(run_id), marked(None)
        diagnosis = examine(state)
        found = only(diagnosis)
        assert (found.level, found.topic, found.run_id, found.pids) == (PROBLEM, "orphan", run_id, (pid,))
        assert not wait_exited(pid, 0), "looking kills nobody"
        (done,) = repair.carry_out(state, diagnosis.repairs)
        assert (done.confirmed, done.what) == (True, "confirmed gone")
        assert wait_exited(pid, 0)
        assert not wait_exited(stranger, 0)
        assert examine(state).healthy

    def test_one_that_could_not_be_ended_is_not_confirmed(
        self, state: StateDirectory, marked: Marked, caplog: pytest.LogCaptureFixture
    ) -> None:
        run_id = new_run_id()
        marked(run_id)
        diagnosis = examine(state)
        marked.as_guard(run_id)  # a new guard keeps it, between the two
        (done,) = repair.carry_out(state, diagnosis.repairs)
        assert not done.confirmed
        assert "guard" in done.what
        assert run_id in caplog.text

    def test_without_a_state_directory_they_are_found_all_the_same(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, marked: Marked
    ) -> None:
        monkeypatch.setenv(environment.STATE_DIR, str(tmp_path / "not-there"))
        pid = marked(new_run_id())
        diagnosis = doctor.examine(trial=False)
        assert only(diagnosis).pids == (pid,)
        assert [done.confirmed for done in doctor.carry_out(doctor.open_for_repair(), diagnosis.repairs)] == [True]


class TestLeftovers:
    def test_stale_sockets_and_half_written_directories(self, state: StateDirectory) -> None:
        ended = put_run(state, "ended")
        guarded = put_run(state, "guarded")
        for path in (ended, guarded):
            os.mknod(os.path.join(path, run_directory.SOCKET))
        half = state.hidden_path("half", "new")
        os.mkdir(half)
        an_hour_ago = time.time() - 3600
        os.utime(half, (an_hour_ago, an_hour_ago))
        with HeldLock(guarded):
            found = bad(examine(state))
            assert {finding.topic for finding in found} == {"leftover"}
            assert len(found) == 2
            assert all(done.confirmed for done in reap(state))
        assert not os.path.exists(half)
        assert os.listdir(ended) == [run_directory.JOURNAL]
        assert sorted(os.listdir(guarded)) == [run_directory.SOCKET, run_directory.JOURNAL]

    @pytest.mark.root
    def test_empty_cgroups(self, state: StateDirectory, marked: Marked) -> None:
        if (base := containment.probe().cgroup_base) is None:
            pytest.skip(f"needs a writable cgroup v2: {containment.probe().why_not}")
        nobodys, guarded = new_run_id(), new_run_id()
        for run_id in (nobodys, guarded):
            os.mkdir(f"{base}/holdfast-{run_id}")
        marked.as_guard(guarded)
        try:
            assert examine(state).healthy, "a run may be starting"
            assert only(examine(state, age_s=-60)).run_id == nobodys
            assert [done.confirmed for done in reap(state, age_s=-60)] == [True]
            assert not os.path.exists(f"{base}/holdfast-{nobodys}")
        finally:
            os.rmdir(f"{base}/holdfast-{guarded}")

    def test_a_half_written_directory_whose_maker_goes_on_is_left(self, state: StateDirectory) -> None:
        half = state.hidden_path("half", "new")
        os.mkdir(half)
        Path(half, run_directory.JOURNAL).touch()
        diagnosis = examine(state, age_s=-60)
        assert len(diagnosis.repairs) == 1
        with HeldLock(half, byte=1):
            (done,) = repair.carry_out(state, diagnosis.repairs)
        assert not done.confirmed
        assert os.path.exists(half)


def test_facts_of_success_are_no_findings(state: StateDirectory) -> None:
    put_run(state, "a", journal_bytes("a", facts_of_success(0)))
    assert examine(state).healthy


@pytest.mark.guard
def test_a_run_that_ended_well_is_no_finding(state: StateDirectory) -> None:
    run_id = run_to_end(state)
    assert about(examine(state), run_id) == []
