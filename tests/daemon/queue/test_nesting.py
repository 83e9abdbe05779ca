"""Nested runs: a posted run ends with its parent run, whatever started the parent and whenever."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.daemon.queue.submission import Submission
from tests.support.daemons import BOUND_S, Daemon, Gate, daemon
from tests.support.processes import wait_exited

from ..test_races import daemon_parts

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.guard
SLEEPS = ["sh", "-c", "echo ready; exec sleep 600"]


def inside(running: Daemon, parent: str, argv: list[str] = SLEEPS, **fields: Any) -> str:
    """A nested run of this one that has started."""
    run_id: str = running.submit(argv, parent=parent, **fields)["run_id"]
    running.until_output(run_id)
    return run_id


def outer(running: Daemon, gate: Gate) -> str:
    run_id: str = running.submit(gate.waits())["run_id"]
    running.until_output(run_id)
    return run_id


def assert_ended_with_its_parent(report: dict[str, Any], parent: str, *, ran: bool = True) -> None:
    found = (report["status"], report["cause"], report["parent"], report["tree"])
    assert found == ("cancelled", "parent", parent, "gone"), report
    assert (report["started_at"] is not None) is ran


def by_itself(_running: Daemon, _parent: str, gate: Gate) -> None:
    gate.open()


def by_cancelling(running: Daemon, parent: str, _gate: Gate) -> None:
    running.cancel(parent)


@pytest.mark.parametrize("end", [by_itself, by_cancelling])
def test_what_lives_in_a_run_ends_with_it(tmp_path: Path, end: Callable[[Daemon, str, Gate], None]) -> None:
    gate = Gate(tmp_path / "gate")
    with daemon(tmp_path / "s") as running:
        parent = outer(running, gate)
        child = inside(running, parent)
        grandchild = inside(running, child)
        beside = running.submit(SLEEPS)["run_id"]
        end(running, parent, gate)
        assert_ended_with_its_parent(running.wait(child), parent)
        assert_ended_with_its_parent(running.wait(grandchild), child)
        assert f"cancelled by the run it was started in: its parent {parent} is over" in running.report(child)["reason"]
        assert running.report(beside)["status"] is None


def test_what_is_queued_in_a_run_never_starts_in_its_place(tmp_path: Path) -> None:
    gate, mark = Gate(tmp_path / "gate"), tmp_path / "ran"
    with daemon(tmp_path / "s", "--max-runs", "1") as running:
        parent = outer(running, gate)
        child = running.submit(["touch", str(mark)], parent=parent)["run_id"]
        after = running.submit(["true"])["run_id"]
        gate.open()
        assert_ended_with_its_parent(running.wait(child), parent, ran=False)
        assert running.wait(after)["status"] == "succeeded"
    assert not mark.exists()


def test_what_is_in_a_run_that_ends_in_the_queue_never_starts_either(tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    with daemon(tmp_path / "s", "--max-runs", "1") as running:
        outer(running, gate)
        parent = running.submit(["true"])["run_id"]
        child = running.submit(["true"], parent=parent)["run_id"]
        running.cancel(parent)
        assert_ended_with_its_parent(running.wait(child), parent, ran=False)
        gate.open()


def test_a_run_that_is_over_takes_no_more_and_one_of_elsewhere_is_a_label(tmp_path: Path) -> None:
    with daemon(tmp_path / "s") as running:
        over = running.submit(["true"])["run_id"]
        running.wait(over)
        unwinding = running.submit(["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 600; done"])["run_id"]
        running.until_output(unwinding)
        running.cancel(unwinding)
        running.wait(unwinding, "verdict")
        for parent in (over, unwinding):
            refused = running.request("POST", "/v1/runs", {"argv": ["true"], "parent": parent})
            assert (refused.status, refused.body["type"].rpartition(":")[2]) == (409, "refused"), refused
            assert refused.body["run_id"] == parent
            assert "parent is over" in refused.body["detail"]
        assert len(running.request("GET", "/v1/runs").body["runs"]) == 2
        running.cancel(unwinding, now=True)
        label = running.submit(["true"], parent="elsewhere", run_id="mine")["run_id"]
        report = running.wait(label)
        assert (report["status"], report["parent"]) == ("succeeded", "elsewhere")


def test_it_ends_with_a_run_that_somebody_else_started(tmp_path: Path) -> None:
    gate, state = Gate(tmp_path / "gate"), tmp_path / "s"
    with daemon(state) as running:
        command = ["-m", "holdfast.cli.main", "run", "--state-dir", str(state), "--id", "theirs", "--", *gate.waits()]
        with subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE) as started:
            assert started.stdout is not None
            assert started.stdout.readline() == b"ready\n"
            child = inside(running, "theirs")
            gate.open()
            assert started.wait(BOUND_S) == 0
        assert_ended_with_its_parent(running.wait(child), "theirs")


def test_it_holds_for_a_parent_that_ended_while_no_daemon_was_there(tmp_path: Path) -> None:
    gate, mark, state = Gate(tmp_path / "gate"), tmp_path / "ran", tmp_path / "s"
    with daemon(state, "--max-runs", "2") as running:
        parent = outer(running, gate)
        live = inside(running, parent)
        queued = running.submit(["touch", str(mark)], parent=parent)["run_id"]
        label = running.submit(["true"], parent="elsewhere")["run_id"]
        pid = running.report(parent)["pid"]
        running.kill()
    gate.open()
    wait_exited(pid)
    with daemon(state, "--max-runs", "2") as running:
        assert_ended_with_its_parent(running.wait(live), parent)
        assert_ended_with_its_parent(running.wait(queued), parent, ran=False)
        assert running.wait(label)["status"] == "succeeded"
    assert not mark.exists()


def test_it_holds_for_a_parent_that_is_followed_by_the_next_daemon(tmp_path: Path) -> None:
    gate, mark, state = Gate(tmp_path / "gate"), tmp_path / "ran", tmp_path / "s"
    with daemon(state, "--max-runs", "2") as running:
        parent = outer(running, gate)
        live = inside(running, parent)
        queued = running.submit(["touch", str(mark)], parent=parent)["run_id"]
        running.kill()
    with daemon(state, "--max-runs", "2") as running:
        assert [running.report(run_id)["state"] for run_id in (live, queued)] == ["running", "queued"]
        gate.open()
        assert_ended_with_its_parent(running.wait(live), parent)
        assert_ended_with_its_parent(running.wait(queued), parent, ran=False)
    assert not mark.exists()


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_parent_that_ends_while_the_run_is_written_down_is_seen(
    tmp_path: Path, anyio_backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    del anyio_backend
    mark = tmp_path / "ran"
    async with daemon_parts(tmp_path / "s") as made:
        await made.service.submit(Submission(argv=SLEEPS, run_id="outer"))
        post, committed = made.store.post, asyncio.Event()
        held: list[Callable[[], None]] = []

        def hold(action: Any, done: Any) -> None:
            """The row is committed, and nobody knows of it yet."""

            def later(*found: Any) -> None:
                held.append(lambda: done(*found))
                committed.set()

            monkeypatch.setattr(made.store, "post", post)
            post(action, later)

        monkeypatch.setattr(made.store, "post", hold)
        posting = asyncio.ensure_future(made.service.submit(Submission(argv=["touch", str(mark)], parent="outer")))
        await committed.wait()
        await made.service.cancel("outer", now=True)
        await made.service.wait("outer", until="settled", timeout_s=BOUND_S)
        held[0]()
        report, is_new = await posting
        assert is_new
        report = await made.service.wait(report["run_id"], until="settled", timeout_s=BOUND_S)
        assert_ended_with_its_parent(report, "outer", ran=False)
    assert not mark.exists()
