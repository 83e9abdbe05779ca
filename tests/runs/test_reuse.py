"""Guards that keep one run after another: when they do, when they do not, and that nothing of the last run is left."""

from __future__ import annotations

import os
import resource
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import pytest
from anyio import wait_all_tasks_blocked

import holdfast
from holdfast import Supervisor
from holdfast.guard.containment import probe
from holdfast.state.upkeep import orphans
from holdfast.values.identity import read_identity

from ..support.processes import kill_both, sentinel_of, stop_both, wait_exited
from ..support.readiness import until_ready

pytestmark = [pytest.mark.guard, pytest.mark.anyio]


async def guard_of(supervisor: Supervisor, *argv: str, **options: object) -> tuple[int, holdfast.Result]:
    run = await supervisor.start(list(argv), **options)  # type: ignore[arg-type]
    result = await run.result()
    return run.guard_pid, result


async def test_the_next_run_gets_the_guard_of_the_last() -> None:
    async with Supervisor() as supervisor:
        first, one = await guard_of(supervisor, "sh", "-c", "echo one; exit 3")
        second, two = await guard_of(supervisor, "sh", "-c", "echo two >&2")
        assert first == second
        assert (one.exit_code, one.stdout, two.exit_code, two.stdout, two.stderr) == (3, b"one\n", 0, b"", b"two\n")
    assert wait_exited(first)


async def test_without_reuse_every_run_has_its_own() -> None:
    async with Supervisor(reuse_guards=False) as supervisor:
        assert (await guard_of(supervisor, "true"))[0] != (await guard_of(supervisor, "true"))[0]


async def test_usage_is_the_runs_own() -> None:
    async with Supervisor() as supervisor:
        busy = "import time\nx = bytearray(60 << 20)\nwhile time.process_time() < 0.3: pass"
        _, heavy = await guard_of(supervisor, "python3", "-S", "-c", busy)
        _, light = await guard_of(supervisor, "true")
        assert heavy.report["usage"]["cpu_user_s"] + heavy.report["usage"]["cpu_system_s"] >= 0.2
        assert light.report["usage"]["cpu_user_s"] + light.report["usage"]["cpu_system_s"] < 0.2
        assert light.report["usage"]["max_rss_bytes"] < 40 << 20 < heavy.report["usage"]["max_rss_bytes"]


async def test_a_run_with_stragglers_killed_leaves_a_clean_guard() -> None:
    async with Supervisor() as supervisor:
        first, one = await guard_of(supervisor, "sh", "-c", "sleep 1000 & exit 0")
        second, two = await guard_of(supervisor, "sh", "-c", "exit 0")
        assert first == second
        assert (one.report["stragglers"], two.report["stragglers"]) == (1, 0)


def kill_left(pid: int, guard: int) -> None:
    """End a straggler of policy `leave`: after its guard's exit it is a child of this process, a subreaper."""
    assert wait_exited(guard)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


async def test_a_guard_with_survivors_is_not_used_again() -> None:
    async with Supervisor() as supervisor:
        first, left = await guard_of(supervisor, "sh", "-c", "sleep 1000 <&- >&- 2>&- & echo $!", stragglers="leave")
        second, _ = await guard_of(supervisor, "true")
        assert left.report["tree"] == "survivors"
        assert first != second
        kill_left(int(left.stdout), first)


async def test_the_deadline_of_a_later_run_is_its_own() -> None:
    async with Supervisor() as supervisor:
        await guard_of(supervisor, "true", timeout=60, grace=30)
        _, result = await guard_of(supervisor, "sleep", "1000", timeout=0.2)
        assert (result.status, result.cause) == ("timed_out", "deadline")
        _, result = await guard_of(supervisor, "sh", "-c", "exit 4")
        assert (result.status, result.exit_code) == ("failed", 4)


async def test_a_stop_before_the_start_reaches_a_used_guard_too() -> None:
    async with Supervisor() as supervisor:
        guard, _ = await guard_of(supervisor, "true")
        sentinel = sentinel_of(guard)
        stop_both(sentinel, guard)
        run = await supervisor.start(["touch", "/nonexistent/never"])
        assert run.guard_pid == guard
        async with anyio.create_task_group() as group:
            group.start_soon(run.cancel, "before it began")
            await wait_all_tasks_blocked()  # the request is in the socket
            os.kill(sentinel, signal.SIGCONT)
            report = await run.settled()
        assert (report["status"], report["cause"], report["started_at"]) == ("cancelled", "user", None)


async def test_the_working_directory_is_todays(tmp_path: os.PathLike[str], monkeypatch: pytest.MonkeyPatch) -> None:
    async with Supervisor() as supervisor:
        first, _ = await guard_of(supervisor, "true")
        monkeypatch.chdir(tmp_path)
        os.mkdir("inner")
        second, here = await guard_of(supervisor, "pwd")
        third, inner = await guard_of(supervisor, "pwd", cwd="inner")
        assert first == second == third
        assert here.stdout.decode().strip() == os.fspath(tmp_path)
        assert inner.stdout.decode().strip() == os.path.join(tmp_path, "inner")


async def test_a_program_that_has_changed_gets_a_new_guard() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    async with Supervisor() as supervisor:
        first, _ = await guard_of(supervisor, "true")
        before = os.umask(0o027)
        try:
            second, result = await guard_of(supervisor, "sh", "-c", "umask")
        finally:
            os.umask(before)
        assert first != second
        assert result.stdout.strip().endswith(b"27")
        third, _ = await guard_of(supervisor, "true")
        assert third != second
        resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
        try:
            fourth, limited = await guard_of(supervisor, "sh", "-c", "ulimit -c")
        finally:
            resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))
        assert limited.stdout == b"0\n"
        assert (fourth != third) is (soft != 0)


async def test_a_guard_started_before_a_change_is_not_used_after_it() -> None:
    async with Supervisor() as supervisor:
        old = await supervisor.start(["cat"], stdin="pipe")
        before = os.umask(0o027)
        try:
            await guard_of(supervisor, "true")
            await old.close_stdin()
            await old.settled()
            later, result = await guard_of(supervisor, "sh", "-c", "umask")
        finally:
            os.umask(before)
        assert later != old.guard_pid
        assert result.stdout.strip().endswith(b"27")


async def test_an_idle_guard_that_was_killed_is_replaced() -> None:
    async with Supervisor() as supervisor:
        first, _ = await guard_of(supervisor, "true")
        sentinel = sentinel_of(first)
        os.kill(first, signal.SIGKILL)
        assert wait_exited(sentinel)
        second, result = await guard_of(supervisor, "echo", "still there")
        assert first != second
        assert result.stdout == b"still there\n"


async def test_a_used_guard_watches_its_owner() -> None:
    """Fixture 25 for a guard from the pool: the owner is killed, and the run dies."""
    program = (
        "import anyio, os, sys, holdfast\n"
        "async def main():\n"
        "    async with holdfast.Supervisor() as supervisor:\n"
        "        await (await supervisor.start(['true'])).settled()\n"
        "        run = await supervisor.start(['sleep', '1000'])\n"
        "        while run.pid is None: await anyio.lowlevel.checkpoint()\n"
        "        print(run.guard_pid, run.pid, flush=True)\n"
        "        os.kill(os.getpid(), 9)\n"
        "anyio.run(main)\n"
    )
    result = await holdfast_result([sys.executable, "-c", program])
    guard, leader = map(int, result.stdout.split())
    assert wait_exited(guard)
    assert wait_exited(leader)


async def holdfast_result(argv: list[str]) -> holdfast.Result:
    async with Supervisor() as supervisor:
        return await (await supervisor.start(argv, stragglers="wait")).result()


def exists(path: str) -> bool:
    return os.path.exists(path)


def leaf_of(result: holdfast.Result) -> str:
    """The cgroup a run was in."""
    started = result.outcome.started
    assert started is not None
    return str(started.detail["cgroup"])


def needs_cgroup() -> None:
    if (why_not := probe().why_not) is not None:
        pytest.skip(f"needs a writable cgroup v2: {why_not}")


@pytest.mark.root
async def test_the_runs_of_a_guard_have_one_cgroup_and_it_goes_with_the_guard() -> None:
    needs_cgroup()
    async with Supervisor() as supervisor:
        leaves = [leaf_of((await guard_of(supervisor, "true"))[1]) for _ in range(3)]
        assert len(set(leaves)) == 1
        assert exists(leaves[0])
    assert not exists(leaves[0])


STUBBORN: dict[str, object] = {"timeout": 0.1, "ladder": "CONT:100ms,KILL"}  # nothing ends it but the last rung
SHOW_CGROUP = ["sh", "-c", "stat -c %i /sys/fs/cgroup/unified$(sed -n 's,^0::,,p' /proc/self/cgroup)"]


@pytest.mark.root
async def test_a_run_with_a_budget_has_a_cgroup_of_its_own() -> None:
    needs_cgroup()
    async with Supervisor() as supervisor:
        results = [(await guard_of(supervisor, *SHOW_CGROUP, **options))[1] for options in ({}, {"pids": 50}, {}, {})]
        first, second, third, fourth = [int(result.stdout) for result in results]
        assert len({first, second, third}) == 3
        assert third == fourth
        assert len({leaf_of(result) for result in results}) == 1, "one name, for the owner that cleans up"
    assert not exists(leaf_of(results[0]))


async def test_the_run_after_one_that_was_killed_lives() -> None:
    """The kernel kills every process that is cloned into a killed cgroup: the guard does not keep such a cgroup."""
    async with Supervisor() as supervisor:
        for _ in range(5):
            first, killed = await guard_of(supervisor, "sleep", "1000", **STUBBORN)
            second, after = await guard_of(supervisor, "echo", "still there")
            assert (killed.status, killed.outcome.escalated) == ("timed_out", True)
            assert (first, after.status, after.stdout) == (second, "succeeded", b"still there\n")


@pytest.mark.root
async def test_a_cgroup_with_another_inside_is_not_kept() -> None:
    needs_cgroup()
    async with Supervisor() as supervisor:
        make = "mkdir $(cat /proc/self/cgroup | sed -n 's,^0::,/sys/fs/cgroup/unified,p')/inner"
        _, nested = await guard_of(supervisor, "sh", "-c", make)
        assert nested.exit_code == 0, nested.stderr
        assert not exists(leaf_of(nested))
        await guard_of(supervisor, "true")
        assert not exists(f"{leaf_of(nested)}/inner")


@pytest.mark.root
@pytest.mark.parametrize("before", [0, 1, 2], ids=["first", "second", "after one that was killed"])
async def test_a_killed_guard_leaves_nobody_in_its_cgroup(before: int) -> None:
    """The one write that ends the tree goes to the guard's cgroup, which may have the name of an earlier run."""
    needs_cgroup()
    async with Supervisor() as supervisor:
        if before > 0:
            await guard_of(supervisor, "true")
        if before > 1:
            await guard_of(supervisor, "sleep", "1000", **STUBBORN)
        run = await supervisor.start(
            ["sh", "-c", "env -i setsid sleep 1000 </dev/null >/dev/null 2>&1 & echo $!; wait"]
        )
        async for chunk in run.output():
            daemon = int(chunk.data)
            break
        os.kill(run.guard_pid, signal.SIGKILL)
        report = await run.settled()
        assert (report["status"], report["tree"]) == ("lost", "gone")
        assert wait_exited(daemon)
        assert not exists(leaf_of(await run.result()))


@pytest.mark.parametrize("before", [0, 1, 2])
@pytest.mark.parametrize("prefix", [[], ["env", "-i"]], ids=["token", "cgroup"])
async def test_a_later_run_of_a_guard_is_nobodys_orphan(before: int, prefix: list[str]) -> None:
    """A look for processes without a guard finds the guard by the run that it keeps now, and by its cgroup."""
    async with Supervisor() as supervisor:
        for _ in range(before):
            await guard_of(supervisor, "true")
        run = await supervisor.start([*prefix, "sh", "-c", "echo ready; exec sleep 1000"])
        await until_ready(run)
        assert [orphan for orphan in orphans.find(None) if orphan.pid == run.pid] == []
        await run.cancel(now=True)
        await run.settled()


@pytest.mark.root
async def test_an_idle_guard_that_was_killed_leaves_no_cgroup() -> None:
    needs_cgroup()
    async with Supervisor() as supervisor:
        await guard_of(supervisor, "sleep", "1000", **STUBBORN)
        guard, result = await guard_of(supervisor, "true")
        kill_both(sentinel_of(guard), guard)
        assert exists(leaf_of(result)), "control: it could not remove it itself"
        await guard_of(supervisor, "true")
        assert not exists(leaf_of(result))


async def test_a_guard_is_taken_for_what_it_was_started_by(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change of our process in the moment of a guard's start changes us, and not that guard."""
    spawn, before = os.posix_spawn, os.umask(0o22)

    def spawn_and_change(*arguments: Any, **options: Any) -> int:
        pid = spawn(*arguments, **options)
        os.umask(0o77)
        return pid

    try:
        async with Supervisor() as supervisor:
            with monkeypatch.context() as patched:
                patched.setattr(os, "posix_spawn", spawn_and_change)
                _, first = await guard_of(supervisor, "sh", "-c", "umask")
            _, second = await guard_of(supervisor, "sh", "-c", "umask")
    finally:
        os.umask(before)
    assert (first.stdout, second.stdout) == (b"0022\n", b"0077\n")


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_a_supervisor_in_a_thread_passes_on_what_that_thread_has() -> None:
    one = min(os.sched_getaffinity(0))
    show = ["sh", "-c", "sed -n 's/^Cpus_allowed_list:.//p' /proc/self/status"]

    async def both() -> list[bytes]:
        async with Supervisor() as supervisor:
            _, before = await guard_of(supervisor, *show)
            os.sched_setaffinity(0, {one})
            _, after = await guard_of(supervisor, *show)
            return [before.stdout, after.stdout]

    with ThreadPoolExecutor(1) as thread:
        before, after = thread.submit(anyio.run, both).result()
    assert before != after
    assert after == b"%d\n" % one


async def test_the_recorded_identity_is_the_one_in_proc() -> None:
    """The start time is computed from the clock around the fork, if that is certain: it must equal /proc."""
    async with Supervisor() as supervisor:
        for _ in range(30):
            run = await supervisor.start(["sh", "-c", "echo ready; exec sleep 1000"])
            async for _chunk in run.output():
                break
            assert run.pid is not None
            identity = read_identity(run.pid)
            started = run.outcome.started
            assert identity is not None
            assert started is not None
            assert started.detail["start_ticks"] == identity.start_ticks
            await run.cancel(now=True)
            await run.settled()
