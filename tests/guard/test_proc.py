"""A guard without /proc, or with the /proc of another PID namespace: it claims nothing about processes it cannot see.

The command and its group get the ladder all the same.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.guard import containment
from tests.support.cgroups import use_no_cgroup
from tests.support.driven import Driven
from tests.support.evidence import all_of, assert_all_gone, one, outcome_of
from tests.support.guards import guard_as
from tests.support.processes import is_gone, kill_children, own_children, state_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.children import Children

pytestmark = [pytest.mark.guard, pytest.mark.root]


@pytest.fixture(autouse=True)
def own_mounts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The guard has mounts of its own; there is no cgroup to help it."""
    monkeypatch.setenv("HOLDFAST_GUARD", str(guard_as(tmp_path, ["unshare", "-m"])))
    use_no_cgroup(monkeypatch)
    known = own_children()
    yield
    kill_children(known)


def hide_proc(run: Driven) -> None:
    """Hide /proc from the guard and its tree, not from us; only now, because a debugging guard needs it to start."""
    hide = ["nsenter", f"--mount=/proc/{run.live.guard_pid}/ns/mnt", "mount", "-t", "tmpfs", "none", "/proc"]
    subprocess.run(hide, check=True)


@pytest.mark.parametrize("hidden", [True, False])
def test_the_command_is_asked(child: Children, hidden: bool) -> None:
    with Driven(child("exits_on_term", 4), grace=30) as run:
        run.until_ready()
        if hidden:
            hide_proc(run)
        run.live.ask_stop()
        result = run.settle()
    assert outcome_of(result) == ("cancelled", "user")
    assert result.exit_code == 4
    assert one(result.facts, "signalled").detail["reached"] == 1
    assert_all_gone(result.report)


def test_the_command_is_killed(child: Children) -> None:
    with Driven(child("ignores_term"), grace=0.1, kill_wait=5) as run:
        pid = run.until_ready()["pid"]
        hide_proc(run)
        run.live.ask_stop()
        result = run.settle()
    assert result.report["escalated"]
    assert [fact.detail["reached"] for fact in all_of(result.facts, "signalled")] == [1, 1]
    assert is_gone(pid)
    assert_all_gone(result.report)  # proven by the kernel: there are no children


def test_the_group_of_the_command_is_killed(child: Children) -> None:
    with Driven(child("grows_tree", 1, "stubborn"), grace=0.1, kill_wait=5) as run:
        below = run.until_ready()["pid"]
        hide_proc(run)
        run.live.ask_stop()
        result = run.settle()
    assert is_gone(below)
    assert_all_gone(result.report)


def test_of_others_nothing_is_claimed(child: Children) -> None:
    with Driven(child("daemonises", "stay"), grace=0.1, kill_wait=0.3, drain=0.3) as run:
        below = run.until_ready()["daemon"]
        hide_proc(run)
        run.live.ask_stop()
        result = run.settle()
        assert state_of(below) == "S"
    assert outcome_of(result) == ("cancelled", "user")
    assert result.report["tree"] == "unknown"


def test_control_with_proc_others_are_found(child: Children) -> None:
    with Driven(child("daemonises", "stay"), grace=0.1, kill_wait=0.3, drain=0.3) as run:
        below = run.until_ready()["daemon"]
        run.live.ask_stop()
        result = run.settle()
    assert is_gone(below)
    assert_all_gone(result.report)


# --- the /proc of another PID namespace ---

_IN_NAMESPACE = """
import json, sys, holdfast
result = holdfast.run(["sh", "-c", "setsid sleep 100 & exit 3"], timeout=20, grace=0.2, kill_wait=0.3, drain=0.3)
print(json.dumps(result.report))
"""


def report_from_namespace(*options: str, forced: str = "") -> dict[str, Any]:
    """The report of a run in a PID namespace of its own."""
    argv = ["unshare", "--pid", "--fork", "--kill-child", *options, sys.executable, "-c", _IN_NAMESPACE]
    environment = {**os.environ, containment.FORCE_VARIABLE: forced}
    environment.pop("HOLDFAST_GUARD")
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    if "unshare failed" in done.stderr:
        pytest.skip("allowed: no PID namespace can be made here")
    report: dict[str, Any] = json.loads(done.stdout)
    return report


@pytest.mark.parametrize(("forced", "tree"), [("", "gone"), ("subreaper", "unknown")])
def test_strangers_with_our_numbers_are_not_counted(forced: str, tree: str) -> None:
    report = report_from_namespace(forced=forced)
    assert (report["status"], report["cause"], report["exit_code"]) == ("failed", "exit", 3)
    assert report["stragglers"] == 1, "at least one; the number of our guard is that of a process with other children"
    assert report["tree"] == tree


def test_control_with_the_proc_of_the_namespace_they_are_seen() -> None:
    report = report_from_namespace("--mount-proc", forced="subreaper")
    assert (report["exit_code"], report["stragglers"], report["tree"]) == (3, 1, "gone")
