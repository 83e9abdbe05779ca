"""A process that another program started: watched, ended by the ladder, and nothing claimed that nobody saw."""

from __future__ import annotations

import contextlib
import os
import platform
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import SpecError, Supervisor
from holdfast.runs.registration import registered_spec
from holdfast.values.identity import read_identity
from holdfast.values.spec import make_spec

from ..support.processes import is_gone, reap, wait_exited
from ..support.unprivileged import NOBODY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..support.children import Children

pytestmark = [pytest.mark.guard, pytest.mark.anyio]

# Since this version the kernel tells the holder of a pidfd how a process has ended.
KERNEL_TELLS = tuple(int(part) for part in platform.release().split("-")[0].split(".")[:2]) >= (6, 15)

_OWNER = """
import sys, anyio, holdfast
async def main():
    async with holdfast.Supervisor() as supervisor:
        run = await supervisor.register(int(sys.argv[1]), grace=0.2)
        print("registered", flush=True)
        await run.settled()
anyio.run(main)
"""


@contextlib.contextmanager
def foreign(*argv: str, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A process that this test starts by itself, and has said `ready`."""
    options.setdefault("stdin", subprocess.PIPE)
    with subprocess.Popen(argv, stdout=subprocess.PIPE, **options) as process:
        assert process.stdout is not None
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def ready(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith(b"ready")
    return line


def waits(code: int = 0) -> tuple[str, ...]:
    return "sh", "-c", f"echo ready; read line; exit {code}"


@pytest.mark.parametrize("code", [0, 3])
async def test_its_end_is_seen_and_its_exit_code_only_where_the_kernel_tells_it(code: int) -> None:
    async with Supervisor() as supervisor:
        with foreign(*waits(code)) as process:
            ready(process)
            run = await supervisor.register(process.pid, name="sdk")
            assert [each.run_id for each in supervisor.runs] == [run.run_id]
            await run.signal(signal.SIGCONT)  # its answer says that the guard holds the process
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait(30) == code
            report = await run.settled()
    seen = (report["status"], report["cause"], report["exit_code"])
    told = ("succeeded" if code == 0 else "failed", "exit", code)
    assert seen == (told if KERNEL_TELLS else ("lost", "unseen", None))
    assert (report["name"], report["argv"][:2], report["pid"]) == ("sdk", ["sh", "-c"], process.pid)
    assert (report["containment"], report["tree"], report["survivors"]) == ("none", "unknown", None)
    assert set(report["output"].values()) == set(report["usage"].values()) == {None}


async def test_an_exit_that_nobody_here_could_see_is_lost_and_never_a_success() -> None:
    """Its parent does not reap it, so that no kernel tells."""
    async with Supervisor() as supervisor:
        with foreign(*waits()) as process:
            ready(process)
            run = await supervisor.register(process.pid)
            assert process.stdin is not None
            process.stdin.close()
            report = await run.settled()
            assert not is_gone(process.pid), "a zombie"
    assert (report["status"], report["cause"], report["exit_code"]) == ("lost", "unseen", None)
    assert report["reason"] == "the process ended, and only its parent could see how"


async def test_the_ladder_ends_it_with_its_descendants(child: Children) -> None:
    with foreign(*child("grows_tree", 2, 2)) as process, foreign(*waits()) as bystander:
        ready(bystander)
        async with Supervisor() as supervisor:
            assert process.stdout is not None
            process.stdout.readline()
            run = await supervisor.register(process.pid, grace=0.2)
            await run.cancel(reason="not needed")
            report = await run.settled()
        assert (report["status"], report["cause"], report["tree"]) == ("cancelled", "user", "unknown")
        reached = [fact["reached"] for fact in report["evidence"] if fact["fact"] == "signalled"]
        assert reached[0] > 1
        assert wait_exited(process.pid)
        assert bystander.poll() is None, "control: only the registered process and what is below it"


async def test_a_descendant_that_is_orphaned_by_the_first_rung_is_not_forgotten(child: Children) -> None:
    """The leader exits on SIGTERM. Its child ignores SIGTERM, and has another parent by the time of SIGKILL."""
    with foreign(*child("leader_exits_on_term", 0)) as process:
        orphan = int(ready(process).split(b"child=")[1])
        async with Supervisor() as supervisor:
            run = await supervisor.register(process.pid, grace=0.3)
            await run.cancel()
            report = await run.settled()
        assert report["escalated"]
        assert wait_exited(orphan)
        reap(orphan)  # it is ours now: pytest is a subreaper


async def test_its_deadline_counts_from_the_registration(child: Children) -> None:
    with foreign(*child("ignores_term")) as process:
        ready(process)
        async with Supervisor() as supervisor:
            run = await supervisor.register(process.pid, timeout=0.2, grace=0.1)
            report = await run.settled()
        assert (report["status"], report["cause"], report["escalated"]) == ("timed_out", "deadline", True)
        assert process.wait(30) == -signal.SIGKILL


async def test_leaving_the_block_ends_it() -> None:
    with foreign(*waits()) as process:
        ready(process)
        async with Supervisor() as supervisor:
            run = await supervisor.register(process.pid)
        assert (run.status, run.cause) == ("cancelled", "shutdown")
        assert process.wait(30) == -signal.SIGTERM


def test_it_ends_when_its_owner_is_killed() -> None:
    with (
        foreign(*waits()) as process,
        subprocess.Popen([sys.executable, "-c", _OWNER, str(process.pid)], stdout=subprocess.PIPE) as owner,
    ):
        ready(process)
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"registered\n"
        owner.kill()
        assert process.wait(30) == -signal.SIGTERM


async def test_a_killed_guard_leaves_it_alone_and_claims_nothing() -> None:
    """It carries no token of the run, so that nothing finds it. Decision 17 names this as the cost."""
    with foreign(*waits()) as process:
        ready(process)
        async with Supervisor() as supervisor:
            run = await supervisor.register(process.pid)
            await run.signal(signal.SIGCONT)  # its answer says that the guard has begun
            os.kill(run.guard_pid, signal.SIGKILL)
            report = await run.settled()
        assert (report["status"], report["cause"], report["tree"]) == ("lost", "guard", "unknown")
        assert process.poll() is None


async def test_a_number_that_went_to_another_process_means_that_the_registered_one_has_ended() -> None:
    with foreign(*waits()) as process:
        ready(process)
        identity = read_identity(process.pid)
        assert identity is not None
        other = make_spec(["?"], foreign=(process.pid, identity.start_ticks + 1))
        async with Supervisor() as supervisor:
            report = await (await supervisor.start_spec(other)).settled()
        assert (report["status"], report["cause"], report["containment"]) == ("lost", "unseen", "none")
        assert process.poll() is None, "it is another process: it got no signal"


async def test_one_that_ends_before_its_guard_looks_has_ended_unseen() -> None:
    with foreign(*waits()) as process:
        ready(process)
        spec = registered_spec(process.pid, {})
        process.kill()
        process.wait()
        async with Supervisor() as supervisor:
            report = await (await supervisor.start_spec(spec)).settled()
    assert (report["status"], report["cause"], report["exit_code"]) == ("lost", "unseen", None)
    assert report["pid"] == process.pid


async def test_a_signal_on_request_reaches_it() -> None:
    with foreign("sh", "-c", "trap 'echo usr1' USR1; echo ready; while :; do read line || exit; done") as process:
        ready(process)
        async with Supervisor() as supervisor:
            run = await supervisor.register(process.pid)
            await run.signal(signal.SIGUSR1)
            assert process.stdout is not None
            assert process.stdout.readline() == b"usr1\n"
            await run.cancel(now=True)


class TestRefused:
    @pytest.mark.parametrize("pid", [0, -1, True, "7", os.getpid, os.getppid, 1])
    def test_what_is_no_process_of_another_program(self, pid: Any) -> None:
        with pytest.raises(SpecError) as caught:
            registered_spec(pid() if callable(pid) else pid, {})
        assert caught.value.field == "pid"
        assert caught.value.remedy

    def test_one_that_has_ended(self) -> None:
        with foreign("true") as process:
            assert wait_exited(process.pid)
            with pytest.raises(SpecError, match="there is no live process"):
                registered_spec(process.pid, {})  # a zombie
            process.wait()
            with pytest.raises(SpecError, match="there is no live process"):
                registered_spec(process.pid, {})

    @pytest.mark.root
    def test_one_of_another_user(self) -> None:
        with foreign(*waits()) as process:
            ready(process)
            pid = os.fork()
            if pid == 0:
                os.setuid(NOBODY)
                try:
                    registered_spec(process.pid, {})
                except SpecError as error:
                    os._exit(7 if "belongs to another user" in str(error) else 8)
                os._exit(0)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
            assert process.poll() is None

    @pytest.mark.parametrize(
        "options",
        [{"pty": True}, {"stdin": "pipe"}, {"cwd": "/"}, {"env": {"A": "1"}}, {"idle_timeout": 1}, {"memory": "1G"},
         {"pids": 3}, {"max_output": 1}],
    )  # fmt: skip
    def test_options_that_need_the_place_of_the_parent(self, options: Any) -> None:
        with foreign(*waits()) as process:
            ready(process)
            with pytest.raises(SpecError, match="is not possible for a process of another program"):
                registered_spec(process.pid, options)
