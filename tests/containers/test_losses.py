"""A run whose link or container goes away: it has an outcome and a reason, and nothing hangs."""

from __future__ import annotations

import json
import os
import signal
from errno import ENOSYS
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import holdfast

from ..cli.console import holdfast as cli
from ..support.processes import descendants, wait_exited

if TYPE_CHECKING:
    from ..cli.kept_runs import Runs
    from ..support.containers import Container, Containers

pytestmark = pytest.mark.root

WAITS = "echo ready; while :; do read -t 60 x; done </dev/ptmx"
# Its child survives every signal that is not for the child itself.
WITH_CHILD = f"(trap '' TERM HUP; while :; do read -t 60 x; done </dev/ptmx) & {WAITS}"


def begun(container: Container, runs: Runs, script: str, *options: str) -> str:
    run_id = runs.start("/bin/sh", "-c", script, options=(*container.options, *options))
    runs.until(run_id, b"ready")
    return run_id


def settled(runs: Runs, run_id: str) -> dict[str, Any]:
    assert cli("wait", run_id).returncode == 125
    report = runs.report(run_id)
    assert report["state"] == "settled"
    return report


def outside(container: Container, runs: Runs, run_id: str, *words: str) -> list[int]:
    """Our processes outside the container with these words on their command lines, and a name of their own."""
    started = next(entry for entry in runs.report(run_id)["evidence"] if entry["fact"] == "started")
    found = descendants(started["guard_pid"]) - set(container.processes())
    lines = {pid: Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0") for pid in found}
    return [pid for pid, line in lines.items() if all(word.encode() in line for word in words)]


@pytest.mark.parametrize("way", [("kill",), ("rm", "-f", "-t", "0")], ids=["killed", "removed"])
def test_a_container_that_vanishes(doomed: Container, runs: Runs, way: tuple[str, ...]) -> None:
    run_id = begun(doomed, runs, WITH_CHILD)
    doomed.owner.podman(*way, doomed.name)
    report = settled(runs, run_id)
    assert (report["status"], report["cause"], report["tree"]) == ("lost", "host", "gone")
    assert report["reason"].startswith("the container went away before an end was recorded")


def test_a_container_that_vanishes_during_the_grace(doomed: Container, runs: Runs) -> None:
    run_id = begun(doomed, runs, f"trap '' TERM; {WAITS}", "--grace", "30s")
    assert cli("cancel", "--no-wait", run_id).returncode == 0
    doomed.owner.podman("kill", doomed.name)
    assert cli("wait", run_id).returncode == 143
    report = runs.report(run_id)
    assert (report["status"], report["cause"], report["tree"]) == ("cancelled", "user", "gone")


def test_the_link_is_killed(container: Container, runs: Runs) -> None:
    run_id = begun(container, runs, WITH_CHILD)
    inside = container.processes()
    (client,) = outside(container, runs, run_id, "exec", "hold")
    os.kill(client, signal.SIGKILL)
    for pid in inside:
        assert wait_exited(pid)
    report = settled(runs, run_id)
    assert (report["status"], report["cause"], report["tree"]) == ("lost", "host", "unknown")
    assert report["reason"].startswith("the connection into the container was lost before an end was recorded")


def test_the_one_that_passes_output_on_is_killed(container: Container, runs: Runs) -> None:
    run_id = begun(container, runs, WITH_CHILD, "--grace", "100ms")
    (client,) = outside(container, runs, run_id, "exec", "attach")
    os.kill(client, signal.SIGKILL)
    report = settled(runs, run_id)
    assert (report["status"], report["cause"], report["tree"]) == ("lost", "host", "gone")  # the ladder still works


def test_the_agent_is_killed(container: Container, runs: Runs) -> None:
    run_id = begun(container, runs, WITH_CHILD)
    inside = container.processes()
    (agent,) = [pid for pid in inside if b"hold" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")]
    os.kill(agent, signal.SIGKILL)
    for pid in inside:  # the command by its parent-death signal, its children by the token
        assert wait_exited(pid)
    report = settled(runs, run_id)
    assert (report["status"], report["cause"], report["tree"]) == ("lost", "host", "unknown")


def test_a_container_that_stands_still_is_given_up_on(doomed: Container, runs: Runs) -> None:
    run_id = begun(doomed, runs, WAITS, "--grace", "100ms", "--kill-wait", "500ms")
    doomed.owner.podman("pause", doomed.name)
    assert b"nobody saw its processes end" in cli("cancel", run_id).stdout
    report = runs.report(run_id)
    assert (report["status"], report["state"], report["tree"]) == ("cancelled", "settled", "unknown")
    inside = doomed.processes()
    doomed.owner.podman("unpause", doomed.name)
    for pid in inside:  # it finds the link closed and ends everything, although late
        assert wait_exited(pid)


@pytest.mark.parametrize("name", ["pidfd_open", "memfd_create"])
def test_a_container_whose_sandbox_lacks_a_system_call(containers: Containers, tmp_path: Path, name: str) -> None:
    profile = tmp_path / "seccomp.json"
    refused = {"names": [name], "action": "SCMP_ACT_ERRNO", "errnoRet": ENOSYS}
    profile.write_text(json.dumps({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [refused]}))
    with containers.container("--security-opt", f"seccomp={profile}") as boxed:
        result = holdfast.run(
            ["/bin/sh", "-c", ":"], in_container=boxed.name, container_runtime=boxed.runtime, timeout=30
        )
    assert (result.status, result.cause) == ("failed", "spawn")
    assert f"the system call {name} is missing in the container" in result.report["reason"]
