"""A guard and its agent without a container between them: the agent runs outside, as a runtime's child would."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest

import holdfast

from ..support.driven import Driven
from ..support.processes import descendants, wait_exited
from ..support.readiness import until_ready
from ..support.shimmed import guard_with_slow_proc
from ..support.wall_less import wall_less

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..support.children import Children

pytestmark = pytest.mark.guard


@pytest.fixture
def inside(tmp_path: Path) -> dict[str, Any]:
    """The options of a run in a container that does not exist."""
    return {"in_container": "box", "container_runtime": wall_less(tmp_path)}


def kinds(report: Mapping[str, Any]) -> list[str]:
    return [entry["fact"] for entry in report["evidence"]]


def agents(guard: int) -> list[int]:
    """The agents below this guard."""
    lines = {pid: Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0") for pid in descendants(guard)}
    return [pid for pid, line in lines.items() if b"hold" in line and b"agent" in line[0]]


def guard_of(report: Mapping[str, Any]) -> int:
    return next(int(entry["guard_pid"]) for entry in report["evidence"] if entry["fact"] == "started")


def test_the_agent_is_brought_when_it_is_not_there(inside: dict[str, Any], tmp_path: Path) -> None:
    assert not (tmp_path / "agent").exists()
    for _ in range(2):
        result = holdfast.run(["sh", "-c", "echo $$; echo problem >&2; exit 7"], **inside)
        report = result.report
        assert (result.exit_code, result.stderr, report["containment"]) == (7, b"problem\n", "container")
        assert kinds(report) == ["entered", "started", "exited", "tree", "drained", "end"]
        assert report["evidence"][0]["pid"] == int(result.stdout)
        assert report["tree"] == "gone"


def test_a_large_environment(inside: dict[str, Any]) -> None:
    large = {f"V{n}": str(n) * 10_000 for n in range(100)}
    result = holdfast.run(["sh", "-c", "echo ${#V99} $V7"], env=large, **inside)
    assert result.stdout == b"20000 " + b"7" * 10_000 + b"\n"


@pytest.mark.parametrize("name", ["ignores_term", "leader_exits_on_term", "forks_on_term", "storms", "daemonises"])
def test_the_ladder(inside: dict[str, Any], child: Children, name: str) -> None:
    report = holdfast.run(child(name), timeout=1, grace=0.1, kill_wait=60, **inside).report
    assert (report["status"], report["tree"], report["escalated"]) == ("timed_out", "gone", True)


def test_an_exit_is_told_while_a_signal_goes_through_a_large_tree(tmp_path: Path) -> None:
    """The agent looks at its children and at its guard in the middle of a walk that takes seconds."""
    (tmp_path / "slow").mkdir()
    copy = f"cp {guard_with_slow_proc(tmp_path / 'slow', 20)} $here/copying && mv $here/copying $here/agent"
    runtime = wall_less(tmp_path, copy=copy)
    many = "n=0; while [ $n -lt 100 ]; do sleep 1000 & n=$((n+1)); done; echo ready; read line; exit 7"
    with Driven(
        ["sh", "-c", many], stdin="pipe", grace=0.1, kill_wait=30, in_container="box", container_runtime=runtime
    ) as run:
        run.until_ready()
        run.live.ask_signal(signal.SIGCONT, tree=True)
        run.live.close_input()
        facts = run.settle().facts
    told = [fact.kind for fact in facts if fact.kind in ("exited", "signalled")]
    assert told[0] == "exited"


def test_stragglers(inside: dict[str, Any], child: Children) -> None:
    report = holdfast.run(child("daemonises", "exit"), grace=0.1, timeout=30, **inside).report
    assert (report["status"], report["stragglers"], report["tree"]) == ("succeeded", 1, "gone")


def test_a_warning_goes_inside(inside: dict[str, Any]) -> None:
    script = "trap 'echo warned; exit 0' USR1; while :; do sleep 0.05; done"
    report = holdfast.run(["sh", "-c", script], timeout=30, warn_before=29.5, **inside).report
    assert (report["status"], kinds(report).count("warned")) == ("succeeded", 1)


@pytest.mark.parametrize(
    ("copy", "why"),
    [
        ("echo 'no room there' >&2; exit 1", "the container could not be entered: no room there"),
        (": > $here/agent; chmod +x $here/agent", "the container could not be entered"),
        ("echo 'echo nonsense' > $here/agent; chmod +x $here/agent", "the container could not be entered"),
    ],
    ids=["refused", "says nothing", "is somebody else"],
)
def test_a_container_that_cannot_be_entered(tmp_path: Path, copy: str, why: str) -> None:
    result = holdfast.run(["true"], in_container="box", container_runtime=wall_less(tmp_path, copy=copy))
    assert (result.status, result.cause, result.report["tree"]) == ("failed", "spawn", "gone")
    assert result.report["reason"] == why
    assert "started" not in kinds(result.report)


def test_an_agent_that_speaks_another_language(tmp_path: Path) -> None:
    copy = """printf '#!/bin/sh\\nhead -c 4096 /dev/zero; exec cat >/dev/null' > $here/agent; chmod +x $here/agent"""
    result = holdfast.run(["true"], in_container="box", container_runtime=wall_less(tmp_path, copy=copy))
    assert (result.status, result.cause, result.report["tree"]) == ("failed", "spawn", "gone")


@pytest.mark.anyio
async def test_a_runtime_that_hangs_is_stopped_like_any_run(tmp_path: Path) -> None:
    runtime = wall_less(tmp_path, copy="exec sleep 600")
    async with holdfast.Supervisor() as supervisor:
        run = await supervisor.start(["true"], in_container="box", container_runtime=runtime)
        await run.cancel()
        with anyio.fail_after(60):
            report = await run.settled()
    assert (report["status"], report["reason"]) == ("cancelled", "cancelled before it started")


@pytest.mark.anyio
@pytest.mark.parametrize(("status", "tree"), [("running", "unknown"), ("exited", "gone")])
async def test_an_agent_that_dies(inside: dict[str, Any], tmp_path: Path, status: str, tree: str) -> None:
    async with holdfast.Supervisor() as supervisor:
        run = await supervisor.start(["sh", "-c", "sleep 600 & echo ready child=$!; wait"], kill_wait=0.3, **inside)
        child = (await until_ready(run))["child"]
        (tmp_path / "status").write_text(f"{status}\n")
        (agent,) = agents(guard_of(run.report))
        os.kill(agent, signal.SIGKILL)
        with anyio.fail_after(60):
            report = await run.settled()
    assert (report["status"], report["cause"], report["tree"]) == ("lost", "host", tree)
    if status == "running":
        assert wait_exited(child)  # the sweep found it by its token
    else:
        os.kill(child, signal.SIGKILL)  # a stopped container would have ended it, too


@pytest.mark.anyio
async def test_the_guards_death(inside: dict[str, Any]) -> None:
    async with holdfast.Supervisor() as supervisor:
        run = await supervisor.start(["sh", "-c", "trap '' TERM; sleep 600 & echo ready child=$!; wait"], **inside)
        child = (await until_ready(run))["child"]
        os.kill(guard_of(run.report), signal.SIGKILL)
        with anyio.fail_after(60):
            report = await run.settled()
        assert wait_exited(child)
    assert (report["status"], report["cause"]) == ("lost", "guard")
    # The client that holds the link dies with the guard. Its agent then ends everything, but cannot always say so.
    assert report["tree"] in ("gone", "unknown")
