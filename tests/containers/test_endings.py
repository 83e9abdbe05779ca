"""The whole tree ends inside the container, and the agent sees it there.

`Container.is_empty`, which every test ends with, asks the host's kernel who is in the container's process namespace.
Its control is the last test: what the usual way leaves behind, it sees.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest

import holdfast

from ..cli.console import holdfast as cli
from ..cli.console import read_until, start
from ..support.driven import Driven
from ..support.evidence import kinds
from ..support.processes import wait_exited
from ..support.readiness import read_ready, until_ready

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..cli.kept_runs import Runs
    from ..support.containers import Container

pytestmark = pytest.mark.root

# A shell and a child of it, which both ignore SIGTERM.
WAITS = "while :; do read -t 60 x; done </dev/ptmx"
STUBBORN = f"trap '' TERM; ({WAITS}) & echo ready; {WAITS}"


def ended(container: Container, *argv: str, **options: Any) -> holdfast.Report:
    """The report of a run in the container."""
    options = {"timeout": 1.5, "grace": 0.2, **options}
    result: holdfast.Result = holdfast.run(
        list(argv), in_container=container.name, container_runtime=container.runtime, **options
    )
    assert container.is_empty()
    return result.report


def reached(report: Mapping[str, Any]) -> list[tuple[int, int]]:
    """The signals of the ladder, and how many processes got each."""
    return [(entry["signal"], entry["reached"]) for entry in report["evidence"] if entry["fact"] == "signalled"]


def test_a_timeout_against_those_that_ignore_sigterm(container: Container) -> None:
    report = ended(container, "/bin/sh", "-c", STUBBORN)
    assert (report["status"], report["cause"], report["tree"], report["escalated"]) == (
        "timed_out",
        "deadline",
        "gone",
        True,
    )
    assert reached(report) == [(signal.SIGTERM, 2), (signal.SIGKILL, 2)]


def test_an_exit_of_0_after_the_deadline_is_still_a_timeout(container: Container) -> None:
    script = "trap 'echo late; exit 0' TERM; while :; do read -t 60 x; done </dev/ptmx"
    report = ended(container, "/bin/sh", "-c", script, grace=30)
    assert (report["status"], report["exit_code"], report["escalated"]) == ("timed_out", 0, False)
    assert report["output"]["late_bytes"] == len("late\n")


def test_a_daemon_with_an_empty_environment(container: Container) -> None:
    report = ended(container, "/daemonises", "stay")
    assert (report["status"], report["tree"]) == ("timed_out", "gone")
    assert reached(report)[-1][1] == 1  # the child ignores SIGTERM; its leader did not


def test_a_daemon_that_is_left_behind(container: Container) -> None:
    report = ended(container, "/daemonises", "exit", timeout=30)
    assert (report["status"], report["stragglers"], report["tree"]) == ("succeeded", 1, "gone")


def test_stragglers_may_be_waited_for(container: Container) -> None:
    script = "(read -t 1 x </dev/ptmx) & exit 3"
    report = ended(container, "/bin/sh", "-c", script, stragglers="wait", timeout=30)
    assert (report["exit_code"], report["stragglers"], report["tree"], report["escalated"]) == (3, 1, "gone", False)


@pytest.mark.parametrize("program", ["leader_exits_on_term", "forks_on_term", "storms"])
def test_trees_that_grow_or_lose_their_head(container: Container, program: str) -> None:
    report = ended(container, f"/{program}", timeout=2)
    assert (report["status"], report["tree"]) == ("timed_out", "gone")


@pytest.mark.parametrize("how", ["execs", "signalled", "by-child"])
def test_a_command_under_ptrace(container: Container, how: str) -> None:
    report = ended(container, "/traced", how, timeout=20)
    assert (report["status"], report["cause"], report["exit_code"], report["tree"]) == ("failed", "exit", 7, "gone")


def test_an_orphan_that_asks_to_be_traced(container: Container) -> None:
    report = ended(container, "/traced", "orphan", timeout=20, stragglers="wait")
    assert (report["status"], report["exit_code"], report["tree"]) == ("failed", 7, "gone")
    assert reached(report) == []


def test_silence(container: Container) -> None:
    report = ended(container, "/bin/sh", "-c", STUBBORN, timeout=None, idle_timeout=1)
    assert (report["status"], report["cause"], report["tree"]) == ("timed_out", "idle", "gone")


@pytest.mark.anyio
async def test_cancelled_through_the_library(container: Container) -> None:
    async with holdfast.Supervisor() as supervisor:
        run = await supervisor.start(
            ["/bin/sh", "-c", STUBBORN], in_container=container.name, container_runtime=container.runtime, grace=0.1
        )
        await until_ready(run)
        await run.cancel(reason="not needed")
        with anyio.fail_after(60):
            report = await run.settled()
    assert (report["status"], report["cause"], report["tree"]) == ("cancelled", "user", "gone")
    assert container.is_empty()


@pytest.mark.anyio
async def test_the_end_of_a_supervisor_ends_it(container: Container) -> None:
    async with holdfast.Supervisor() as supervisor:
        run = await supervisor.start(
            ["/bin/sh", "-c", STUBBORN], in_container=container.name, container_runtime=container.runtime, grace=0.1
        )
        await until_ready(run)
    report = run.report
    assert (report["status"], report["cause"], report["tree"]) == ("cancelled", "shutdown", "gone")
    assert container.is_empty()


def test_the_owners_death(container: Container, runs: Runs) -> None:
    words = (*container.options, "--grace", "100ms", "--id", "owned", "--", "/bin/sh", "-c", STUBBORN)
    with start("run", *words) as owner:
        assert owner.stdout is not None
        read_until(owner.stdout.fileno(), b"ready")
        owner.kill()
    assert cli("wait", "owned").returncode == 143
    report = runs.report("owned")
    assert (report["status"], report["cause"], report["tree"]) == ("cancelled", "owner", "gone")
    assert container.is_empty()


def test_the_guards_death(container: Container, runs: Runs) -> None:
    run_id = runs.start("/bin/sh", "-c", STUBBORN, options=container.options)
    runs.until(run_id, b"ready")
    inside = container.processes()
    assert len(inside) >= 4  # the agent, the process that attached, and two shells
    runs.kill_guard(run_id)
    for pid in inside:  # nothing of ours has to act: the agent sees that nobody listens
        assert wait_exited(pid)
    report = runs.report(run_id)
    assert (report["status"], report["cause"]) == ("lost", "guard")
    assert report["tree"] == "unknown"  # the run is over, but nobody was there to see it


def test_control_a_killed_exec_leaves_its_process_in_the_container(container: Container) -> None:
    command = [*container.runtime.split(), "exec", container.name, "/ignores_term"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as client:
        assert client.stdout is not None
        read_ready(client.stdout.fileno())
        (left,) = container.processes()
        client.kill()
        client.wait()
    assert not wait_exited(left, within_s=0.5)
    assert container.processes() == [left]
    os.kill(left, signal.SIGKILL)
    assert wait_exited(left)


@pytest.mark.parametrize("late", [False, True])
def test_a_guard_that_slept_across_the_deadline_believes_the_agent(late: bool, container: Container) -> None:
    """The agent saw the exit in time, or nobody knows the order; before, both had succeeded."""
    script = "trap 'exit 0' USR1; echo ready; while :; do read -t 60 x; done </dev/ptmx"
    options: dict[str, Any] = {"in_container": container.name, "container_runtime": container.runtime, "timeout": 4}
    with Driven(["/bin/sh", "-c", script], **options) as run:
        run.until_ready()
        past = time.monotonic() + 4.2
        (command,) = [pid for pid in container.processes() if b"USR1" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        run.stop_guard()
        if late:
            run.wait_for(lambda: time.monotonic() > past, "the deadline")
        os.kill(command, signal.SIGUSR1)
        assert wait_exited(command)
        run.wait_for(lambda: time.monotonic() > past, "the deadline")
        run.continue_guard()
        result = run.settle()
    assert (result.status, result.cause) == (("timed_out", "deadline") if late else ("succeeded", "exit"))
    assert ("order_unknown" in kinds(result.facts)) == late
    assert (result.exit_code, result.report["tree"]) == (0, "gone")
