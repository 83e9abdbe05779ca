"""Cleaning up after a dead guard: the whole run, and no other process."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from holdfast.guard import leftovers
from holdfast.guard.binary import guard_path
from holdfast.values.run_id import new_run_id

from ..support.processes import is_gone, wait_exited

if TYPE_CHECKING:
    from collections.abc import Iterator


def _allow_large_environment() -> None:
    _soft, hard = resource.getrlimit(resource.RLIMIT_STACK)
    wanted = 64 << 20
    resource.setrlimit(resource.RLIMIT_STACK, (wanted if hard == -1 else min(wanted, hard), hard))


class Marked:
    """Processes with an environment of the test's choice; killed and reaped at the end, whatever happened."""

    def __init__(self) -> None:
        self.started: list[subprocess.Popen[bytes]] = []

    def __call__(self, **env: str) -> int:
        process = subprocess.Popen(["sleep", "110"], env=env, preexec_fn=_allow_large_environment)
        self.started.append(process)
        return process.pid

    def end(self) -> None:
        for process in self.started:
            process.kill()
            process.wait()


@pytest.fixture
def marked() -> Iterator[Marked]:
    starter = Marked()
    yield starter
    starter.end()


def test_processes_with_the_token_die_and_others_do_not(marked: Marked) -> None:
    run_id = new_run_id()
    ours = marked(HOLDFAST_RUN_ID=run_id, OTHER="x")
    also_ours = marked(OTHER="x", HOLDFAST_RUN_ID=run_id)
    strangers = [
        marked(HOLDFAST_RUN_ID=f"{run_id}x"),
        marked(HOLDFAST_RUN_ID=run_id[:-1]),
        marked(MY_HOLDFAST_RUN_ID=run_id),
        marked(OTHER=f"HOLDFAST_RUN_ID={run_id}"),
        marked(),
    ]
    assert leftovers.clean_up(run_id, None, has_run=True) == ("unknown", ()), (
        "a process without the token would not be found"
    )
    assert wait_exited(ours, 0)
    assert wait_exited(also_ours, 0)
    assert [pid for pid in strangers if wait_exited(pid, 0)] == []


def test_of_a_run_with_a_mark_only_processes_with_the_mark(marked: Marked) -> None:
    """The id of such a run was chosen: a run of another state directory may have it."""
    run_id, mark = new_run_id(), "chosen-1"
    ours = marked(HOLDFAST_RUN_ID=run_id, HOLDFAST_RUN_MARK=mark)
    others = [marked(HOLDFAST_RUN_ID=run_id, HOLDFAST_RUN_MARK="chosen-2"), marked(HOLDFAST_RUN_ID=run_id)]
    leftovers.clean_up(run_id, None, mark=mark, has_run=True)
    assert wait_exited(ours, 0)
    assert [pid for pid in others if wait_exited(pid, 0)] == []


def large(count: int) -> dict[str, str]:
    """An environment of so many hundreds of kilobytes."""
    return {f"LARGE_{i}": "x" * 100_000 for i in range(count)}


def test_a_token_behind_a_large_environment_is_found(marked: Marked) -> None:
    run_id = new_run_id()
    ours, stranger = marked(**large(50), HOLDFAST_RUN_ID=run_id), marked(**large(50), HOLDFAST_RUN_ID="another")
    assert leftovers.clean_up(run_id, None, has_run=True) == ("unknown", ())
    assert wait_exited(ours, 0)
    assert not wait_exited(stranger, 0)


def test_so_it_is_in_a_container(marked: Marked) -> None:
    """The sweep that the agent's program does there, done here."""
    run_id = new_run_id()
    ours, stranger = marked(**large(50), HOLDFAST_RUN_ID=run_id), marked(**large(50), HOLDFAST_RUN_ID=f"{run_id}x")
    also_ours = marked(HOLDFAST_RUN_ID=run_id, **large(2))
    swept = subprocess.run([guard_path(), "inside", "sweep", f"HOLDFAST_RUN_ID={run_id}"], check=False)
    assert swept.returncode == 0
    assert wait_exited(ours, 0)
    assert wait_exited(also_ours, 0)
    assert not wait_exited(stranger, 0)


# In a PID namespace of its own, but with the /proc of ours: a process gets the number of a marked process outside.
_ELSEWHERE = """
import os, subprocess, sys
from holdfast.guard import leftovers
from holdfast.state.upkeep import orphans
number, run_id = int(sys.argv[1]), sys.argv[2]
with open("/proc/sys/kernel/ns_last_pid", "w") as last:
    last.write(str(number - 1))
with subprocess.Popen(["sleep", "100"]) as stranger:
    found = orphans.find(None)
    leftovers.clean_up(run_id, None, has_run=True, within_s=0.2)
    print(stranger.pid == number, stranger.poll() is None, len(found))
    stranger.kill()
"""


@pytest.mark.root
def test_numbers_of_another_pid_namespace_are_left_alone(marked: Marked) -> None:
    run_id = new_run_id()
    ours = marked(HOLDFAST_RUN_ID=run_id)
    argv = ["unshare", "--pid", "--fork", "--kill-child", sys.executable, "-c", _ELSEWHERE, str(ours), run_id]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if "unshare failed" in done.stderr:
        pytest.skip("allowed: no PID namespace can be made here")
    assert done.stdout.split() == ["True", "True", "0"], done.stderr
    assert not wait_exited(ours, 0)


def test_a_number_that_changed_hands_is_left_alone(marked: Marked, monkeypatch: pytest.MonkeyPatch) -> None:
    """The race: a process is marked, then exits, and its number is reused before the pidfd. The second look decides."""
    stranger = marked(HOLDFAST_RUN_ID="somebody-else")
    looks = iter([True, False])
    monkeypatch.setattr(leftovers, "_is_marked", lambda *_: next(looks))
    killed: dict[int, int] = {}
    assert leftovers._kill_if_marked(stranger, b"HOLDFAST_RUN_ID=x\0", killed) is False  # noqa: SLF001
    assert killed == {}
    assert not wait_exited(stranger, 0)


def test_without_the_second_look_the_stranger_would_die(marked: Marked, monkeypatch: pytest.MonkeyPatch) -> None:
    stranger = marked(HOLDFAST_RUN_ID="somebody-else")
    monkeypatch.setattr(leftovers, "_is_marked", lambda *_: True)
    killed: dict[int, int] = {}
    assert leftovers._kill_if_marked(stranger, b"HOLDFAST_RUN_ID=x\0", killed) is False  # noqa: SLF001
    os.close(killed.pop(stranger))
    assert wait_exited(stranger)


def test_a_directory_that_is_not_our_leaf_is_never_killed(tmp_path: os.PathLike[str]) -> None:
    kill_file = os.path.join(tmp_path, "cgroup.kill")
    with open(kill_file, "w"):
        pass
    assert leftovers.clean_up(new_run_id(), str(tmp_path), has_run=False).how == "unknown"
    assert os.path.getsize(kill_file) == 0


@pytest.mark.parametrize("has_run", [False, True])
def test_a_leaf_that_is_gone_proves_the_tree_of_a_command_gone_that_never_ran(has_run: bool) -> None:
    run_id = new_run_id()
    leaf = f"/sys/fs/cgroup/holdfast-{run_id}"
    assert leftovers.clean_up(run_id, leaf, has_run=has_run) == ("unknown" if has_run else "gone", ())


@pytest.mark.root
def test_a_leaf_is_emptied_and_removed(marked: Marked) -> None:
    from holdfast.guard.containment import probe

    if (base := probe().cgroup_base) is None:
        pytest.skip(f"needs a writable cgroup v2: {probe().why_not}")
    run_id = new_run_id()
    leaf = f"{base}/holdfast-{run_id}"
    os.mkdir(leaf)
    pids = [marked(), marked()]
    for pid in pids:
        with open(f"{leaf}/cgroup.procs", "w") as members:
            members.write(str(pid))
    assert leftovers.clean_up(run_id, leaf, has_run=False) == ("gone", ())
    assert not os.path.exists(leaf)
    assert [pid for pid in pids if not wait_exited(pid, 0)] == []


@pytest.mark.root
@pytest.mark.parametrize("leaves", [True, False])
def test_a_process_that_left_its_leaf(marked: Marked, leaves: bool) -> None:
    from holdfast.guard.containment import probe

    if (base := probe().cgroup_base) is None:
        pytest.skip(f"needs a writable cgroup v2: {probe().why_not}")
    run_id = new_run_id()
    leaf = f"{base}/holdfast-{run_id}"
    os.mkdir(leaf)
    inside, other = marked(), marked(HOLDFAST_RUN_ID=run_id)
    for pid in [inside] if leaves else [inside, other]:
        with open(f"{leaf}/cgroup.procs", "w") as members:
            members.write(str(pid))
    assert leftovers.clean_up(run_id, leaf, has_run=False) == ("unknown" if leaves else "gone", ())
    assert [pid for pid in (inside, other) if not wait_exited(pid, 0)] == []


def test_a_survivor_outside_of_the_leaf_is_named(marked: Marked, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = new_run_id()
    pid = marked(HOLDFAST_RUN_ID=run_id)
    monkeypatch.setattr(leftovers, "_kill_if_marked", lambda seen, *_: seen == pid)
    gone_leaf = f"/sys/fs/cgroup/holdfast-{run_id}"
    assert leftovers.clean_up(run_id, gone_leaf, has_run=True, within_s=0.05) == ("survivors", (pid,))


def test_what_cannot_be_killed_in_time_is_a_survivor(marked: Marked, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = new_run_id()
    pid = marked(HOLDFAST_RUN_ID=run_id)

    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("holdfast.guard.leftovers.signal.pidfd_send_signal", refuse)
    assert leftovers.clean_up(run_id, None, has_run=True, within_s=0.05) == ("survivors", (pid,))
    assert not is_gone(pid)
