"""Orphans: found by token or cgroup, distinguished from guarded processes, and ended by identity only.

Other suites may run on this machine, so every test looks for the orphans of its own runs, and ends nobody else's.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from shlex import quote
from typing import TYPE_CHECKING

import pytest

from holdfast.guard import containment, leaves
from holdfast.guard.leftovers import clean_up
from holdfast.journal.reader import JournalReader
from holdfast.runs.ephemeral import start_ephemeral
from holdfast.runs.live import LiveRun
from holdfast.state.recovery import finish
from holdfast.state.upkeep import orphans
from holdfast.state.upkeep.guard_census import live_guards, token_of
from holdfast.values.identity import ProcessIdentity, read_identity
from holdfast.values.run_id import new_run_id
from holdfast.values.spec import make_spec
from tests.support.durable import DurableRun
from tests.support.processes import wait_exited
from tests.support.readiness import is_ready, names_in
from tests.support.unprivileged import NOBODY

from ..marked import LEAVES_ONE, WAITS, Marked

if TYPE_CHECKING:
    from typing import Any

    from holdfast.state.directory import StateDirectory
    from holdfast.state.upkeep.orphans import Orphan
    from tests.support.children import Children

# Orphans belong to the whole host: tests that end all orphans and tests that leave one take turns.
pytestmark = pytest.mark.xdist_group("orphans")

_FIND = """
import json, sys
from holdfast.state.upkeep.orphans import find
print(json.dumps([orphan.pid for orphan in find(None) if orphan.run_id == sys.argv[1]]))
"""


def of_run(run_id: str, state: StateDirectory | None = None) -> list[Orphan]:
    return [orphan for orphan in orphans.find(state) if orphan.run_id == run_id]


def pids(found: list[Orphan]) -> list[int]:
    return [orphan.pid for orphan in found]


def forged(pid: int, run_id: str, **changes: Any) -> Orphan:
    """The finding of `find` for this process, with one field changed."""
    identity = read_identity(pid)
    assert identity is not None
    orphan = orphans.Orphan(identity, run_id, "sleep", "environment", False, os.geteuid())
    return orphan._replace(**changes)


class TestFinding:
    def test_a_process_with_a_token_and_no_guard(self, marked: Marked, state: StateDirectory) -> None:
        run_id = new_run_id()
        pid = marked(run_id)
        (orphan,) = of_run(run_id, state)
        assert orphan.identity == read_identity(pid)
        assert (orphan.command, orphan.evidence, orphan.known) == (f"sh -c {WAITS}", "environment", False)
        assert (orphan.uid, orphan.why_not) == (os.geteuid(), None)

    @pytest.mark.parametrize("token", ["", "../x", "UPPER", "x" * 65, "-x"])
    def test_a_variable_that_is_no_id_is_somebody_elses(self, marked: Marked, token: str) -> None:
        pid = marked(token)
        assert token_of(pid) is None
        assert pid not in pids(orphans.find(None))

    @pytest.mark.guard
    def test_a_run_that_is_in_no_state_directory_has_its_guard(self, contained: str, state: StateDirectory) -> None:
        live = start_ephemeral(make_spec(LEAVES_ONE, lifetime="owner"), wake_output=True)
        try:
            ready = _until_ready(live)
            assert live.spec.run_id in live_guards()
            assert of_run(live.spec.run_id, state) == []
            live.kill_guard()
            assert wait_exited(live.guard_pid)
            assert wait_exited(ready["leader"])
            (orphan,) = of_run(live.spec.run_id, state)  # the control: without its guard it is an orphan
            assert (orphan.pid, orphan.known) == (ready["pid"], False)
        finally:
            live.kill_guard()
            live.refresh()
            live.clean_up()
            assert of_run(live.spec.run_id, state) == []
            live.reap(wait=True)
            live.close()
        assert contained

    @pytest.mark.guard
    def test_a_run_of_this_directory(self, contained: str, state: StateDirectory) -> None:
        with DurableRun(state, LEAVES_ONE) as run:
            ready = run.until_ready()
            assert of_run(run.run_id, state) == []
            run.kill_guard()
            assert wait_exited(ready["leader"])
            (orphan,) = of_run(run.run_id, state)
            assert (orphan.pid, orphan.known) == (ready["pid"], True)
            assert orphan.evidence == "environment"
            finish(state, run.run_id)
            assert of_run(run.run_id, state) == []
        assert contained

    @pytest.mark.guard
    def test_what_a_run_left_on_purpose_is_no_orphan(self, state: StateDirectory) -> None:
        argv = ["sh", "-c", "sleep 600 >/dev/null 2>&1 &"]
        with DurableRun(state, argv, stragglers="leave") as run:
            run.until_ended()
            with run.record() as record:
                (pid,) = record.report()["survivors"]
            assert not wait_exited(pid, 0)
            assert of_run(run.run_id, state) == []
            (orphan,) = of_run(run.run_id, None)  # the control: only its record says that
            assert [reaped.how for reaped in orphans.reap([orphan])] == ["gone"]

    @pytest.mark.guard
    @pytest.mark.root
    def test_one_that_cleared_its_environment_is_found_by_its_cgroup(
        self, state: StateDirectory, child: Children
    ) -> None:
        _needs_cgroup()
        with DurableRun(state, child("daemonises", "stay")) as run:
            pid = run.until_ready()["daemon"]
            assert token_of(pid) is None
            run.kill_guard()
            (orphan,) = [orphan for orphan in of_run(run.run_id, state) if orphan.pid == pid]
            assert (orphan.evidence, orphan.known) == ("cgroup", True)
            assert [reaped.how for reaped in orphans.reap([orphan])] == ["gone"]

    @pytest.mark.root
    @pytest.mark.parametrize(("run_id", "counts"), [("web", False), (new_run_id(), True)], ids=["anybody", "ours"])
    def test_a_cgroup_of_another_name_may_be_anybodys(self, marked: Marked, run_id: str, counts: bool) -> None:
        leaf = os.path.join(_needs_cgroup(), f"holdfast-{run_id}")
        os.mkdir(leaf)
        pid = marked(None)
        _move(pid, leaf)
        found = of_run(run_id)
        marked.end()
        os.rmdir(leaf)
        assert pids(found) == ([pid] if counts else [])

    @pytest.mark.root
    def test_what_is_nested_in_a_lost_run_is_its_orphan(self, marked: Marked) -> None:
        """The inner run has a guard of its own; it must not outlive the outer run all the same."""
        outer_id, inner_id = new_run_id(), new_run_id()
        leaf = os.path.join(_needs_cgroup(), f"holdfast-{outer_id}")
        os.makedirs(f"{leaf}/holdfast-{inner_id}")
        pid, guard = marked(inner_id), marked.as_guard(inner_id)
        _move(pid, f"{leaf}/holdfast-{inner_id}")
        _move(guard, leaf)
        assert of_run(inner_id) == []
        assert sorted(pids(of_run(outer_id))) == sorted([pid, guard])
        assert clean_up(outer_id, leaf, has_run=False) == ("gone", ())
        assert wait_exited(pid, 0)
        assert wait_exited(guard, 0)
        assert not os.path.exists(leaf)

    @pytest.mark.root
    @pytest.mark.parametrize(("all_of_it", "expected"), [("export", 0), ("", 1)])
    def test_a_guard_outside_of_the_namespace_is_not_taken_for_dead(self, all_of_it: str, expected: int) -> None:
        """If PID 1 itself belongs to the run, nobody inside sees the guard. The control: otherwise one would."""
        run_id = new_run_id()
        find = f"env -u HOLDFAST_RUN_ID {sys.executable} -c {quote(_FIND)} {run_id}"
        token = f"HOLDFAST_RUN_ID={run_id}"
        inside = f"{all_of_it} {token}; sleep 600 & {find}; true" if all_of_it else f"{token} sleep 600 & {find}; true"
        script = f"exec sh -c {quote(inside)}" if not all_of_it else f"export {token}; exec sh -c {quote(inside)}"
        argv = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", script]
        done = subprocess.run(argv, capture_output=True, check=True, timeout=60)
        assert len(json.loads(done.stdout)) == expected, done


class TestReaping:
    def test_it_is_ended_and_confirmed(self, marked: Marked) -> None:
        run_id = new_run_id()
        several = [marked(run_id), marked(run_id)]
        results = orphans.reap(of_run(run_id))
        assert [(reaped.orphan.pid, reaped.how, reaped.why) for reaped in results] == [
            (pid, "gone", None) for pid in sorted(several)
        ]
        assert all(wait_exited(pid, 0) for pid in several)
        assert of_run(run_id) == []

    def test_one_that_ended_by_itself_is_gone(self, marked: Marked) -> None:
        run_id = new_run_id()
        marked(run_id)
        found = of_run(run_id)
        marked.end()
        assert [reaped.how for reaped in orphans.reap(found)] == ["gone"]

    def test_a_number_that_went_to_a_stranger_is_left_alone(self, marked: Marked) -> None:
        """Fixture 28. The other process even carries the same token; its start time differs."""
        run_id = new_run_id()
        stranger = marked(run_id)
        identity = read_identity(stranger)
        assert identity is not None
        before = forged(stranger, run_id, identity=identity._replace(start_ticks=identity.start_ticks - 1))
        assert [reaped.how for reaped in orphans.reap([before])] == ["gone"]
        assert not wait_exited(stranger, 0)
        assert [reaped.how for reaped in orphans.reap([forged(stranger, run_id)])] == ["gone"]  # the control
        assert wait_exited(stranger, 0)

    def test_another_boot_is_another_process(self, marked: Marked) -> None:
        """Fixture 29: the same number and the same start time, before a reboot."""
        run_id = new_run_id()
        stranger = marked(run_id)
        identity = read_identity(stranger)
        assert identity is not None
        before = forged(stranger, run_id, identity=identity._replace(boot_id="0" * 36))
        unknown = forged(stranger, run_id, identity=identity._replace(boot_id=None))
        assert [reaped.how for reaped in orphans.reap([before, unknown])] == ["gone", "refused"]
        assert not wait_exited(stranger, 0)

    def test_one_without_the_mark_is_left_alone(self, marked: Marked) -> None:
        pid = marked("somebody-else")
        (reaped,) = orphans.reap([forged(pid, "not-that-one")])
        assert (reaped.how, "mark" in (reaped.why or "")) == ("refused", True)
        assert not wait_exited(pid, 0)

    def test_ourselves_and_those_above_us_are_no_targets(self) -> None:
        ours = [os.getpid(), os.getppid(), 1]
        targets = [forged(pid, "x") for pid in ours if read_identity(pid)]
        targets.append(orphans.Orphan(ProcessIdentity(0, 0, None), "x", "", "environment", False, os.geteuid()))
        assert {reaped.how for reaped in orphans.reap(targets)} == {"refused"}

    def test_a_run_that_has_a_guard_again_is_left_alone(self, marked: Marked) -> None:
        """The same id was given to a new run meanwhile."""
        run_id = new_run_id()
        orphan = marked(run_id)
        found = of_run(run_id)
        assert pids(found) == [orphan]
        marked.as_guard(run_id)
        assert [reaped.how for reaped in orphans.reap(found)] == ["refused"]
        assert of_run(run_id) == []
        assert not wait_exited(orphan, 0)

    @pytest.mark.root
    def test_a_process_of_another_user_is_reported_only(self, marked: Marked) -> None:
        run_id = new_run_id()
        pid = marked(run_id, user=NOBODY)
        (orphan,) = of_run(run_id)
        assert (orphan.uid, orphan.why_not) == (NOBODY, f"it belongs to user {NOBODY}")
        assert [(reaped.how, reaped.why) for reaped in orphans.reap([orphan])] == [("refused", orphan.why_not)]
        assert not wait_exited(pid, 0)


@pytest.mark.root
class TestLeaves:
    def test_old_and_empty_ones_are_removed_with_those_inside(self) -> None:
        base, run_id = _needs_cgroup(), new_run_id()
        leaf = leaves.Leaf(f"{base}/holdfast-{run_id}", run_id)
        os.makedirs(f"{leaf.path}/holdfast-inner")
        assert leaf not in leaves.find_empty(), "its run may be starting"
        assert leaf in leaves.find_empty(older_than_s=-60)
        assert leaves.remove_empty(leaf)
        assert not os.path.exists(leaf.path)

    def test_one_with_a_process_deep_inside_stays(self, marked: Marked) -> None:
        base, run_id = _needs_cgroup(), new_run_id()
        leaf = leaves.Leaf(f"{base}/holdfast-{run_id}", run_id)
        inner = f"{leaf.path}/holdfast-inner/deeper"
        os.makedirs(inner)
        _move(marked(None), inner)
        assert leaf not in leaves.find_empty(older_than_s=-60)
        assert not leaves.remove_empty(leaf)
        assert os.path.exists(inner)
        assert clean_up(run_id, leaf.path, has_run=False) == ("gone", ())
        assert not os.path.exists(leaf.path)


def _needs_cgroup() -> str:
    here = containment.probe()
    if here.cgroup_base is None:
        pytest.skip(f"needs a writable cgroup v2: {here.why_not}")
    return here.cgroup_base


def _move(pid: int, group: str) -> None:
    with open(f"{group}/cgroup.procs", "w") as file:
        file.write(str(pid))


def _until_ready(live: LiveRun) -> dict[str, int]:
    reader, seen = JournalReader(live.journal), b""
    poll = select.poll()
    poll.register(live.control.fileno(), select.POLLIN)
    while not is_ready(seen):
        live.arm_output(reader.position)
        seen += b"".join(chunk.data for chunk in reader.read())
        if not is_ready(seen):
            assert poll.poll(30_000)
            live.on_readable()
    return names_in(seen)
