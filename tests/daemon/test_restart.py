"""Daemons that are killed at any moment, or hand over: runs go on, each starts once, and the outcomes are true."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
from http.client import HTTPException
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest

import holdfast
from tests.support.daemons import Gate, daemon, start
from tests.support.processes import kill_both, sentinel_of, wait_exited

if TYPE_CHECKING:
    from tests.support.children import Children
    from tests.support.daemons import Daemon


def outcome(report: dict[str, Any]) -> tuple[Any, ...]:
    return report["status"], report["cause"], report["exit_code"]


def guard_of(running: Daemon, run_id: str) -> int:
    evidence = running.report(run_id)["evidence"]
    return int(next(fact["guard_pid"] for fact in evidence if fact["fact"] == "started"))


def test_a_run_outlives_a_killed_daemon_with_its_true_exit_code(tmp_path: Path) -> None:
    gates = [Gate(tmp_path / f"gate{number}") for number in range(2)]
    with daemon(tmp_path / "s") as running:
        lives, ends = (
            running.submit(gate.waits(f"exit {code}"))["run_id"] for gate, code in zip(gates, (7, 9), strict=True)
        )
        for run_id in (lives, ends):
            running.until_output(run_id)
        pid = running.report(ends)["pid"]
        running.kill()
    gates[1].open()  # while no daemon is there
    wait_exited(pid)
    with daemon(tmp_path / "s") as running:
        running.until_line("^recovered 2 runs and 0 queued ones")
        events = running.events(after=0)
        assert outcome(running.wait(ends)) == ("failed", "exit", 9)
        assert running.report(lives)["state"] == "running"
        gates[0].open()
        assert outcome(running.wait(lives)) == ("failed", "exit", 7)
        seen: list[tuple[str, str]] = []
        while len(seen) < 8:
            found = events.next()
            assert found is not None
            seen.append((found[1]["run_id"], found[0]))
        events.close()
        for run_id in (lives, ends):  # each once, in order, over both daemons
            kinds = [kind for owner, kind in seen if owner == run_id]
            assert kinds == ["run.queued", "run.started", "run.verdict", "run.settled"]


def test_a_daemon_killed_mid_drain_leaves_the_stop_to_the_guard(tmp_path: Path, child: Children) -> None:
    with daemon(tmp_path / "s") as running:
        stubborn = running.submit(child("ignores_term"), grace_s=1)["run_id"]
        running.until_output(stubborn)
        running.signal()
        running.until_line("^draining 1 runs$")
        running.signal()
        running.wait(stubborn, "verdict")
        running.kill()
    with daemon(tmp_path / "s") as running:
        report = running.wait(stubborn)
        assert (report["status"], report["cause"], report["tree"]) == ("cancelled", "shutdown", "gone")


@pytest.mark.parametrize("content", [b"", b"\0\0\0\0"])
def test_a_damaged_owner_file_does_not_block_the_start(tmp_path: Path, content: bytes) -> None:
    with daemon(tmp_path / "s"):
        pass
    (tmp_path / "s" / "owner").write_bytes(content)
    with daemon(tmp_path / "s") as running:
        running.until_line("owner was damaged and nobody held it: it is .*owner.damaged now")
        assert running.request("GET", "/v1/health").status == 200
    assert (tmp_path / "s" / "owner.damaged").read_bytes() == content
    assert not (tmp_path / "s" / "owner").exists()


def test_handoff_with_an_upgrade_in_between(tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    # The old installation: other files, its own guard, and gone before the new daemon is there.
    old = tmp_path / "old"
    shutil.copytree(Path(holdfast.__file__).parent, old / "holdfast", ignore=shutil.ignore_patterns("__pycache__"))
    options = ("--on-shutdown", "handoff", "--max-runs", "1")
    with daemon(tmp_path / "s", *options, env={"PYTHONPATH": str(old)}) as running:
        run_id = running.submit(gate.waits("exit 5"), stdin="pipe")["run_id"]
        running.until_output(run_id)
        assert os.readlink(f"/proc/{guard_of(running, run_id)}/exe").startswith(str(old))
        queued = running.submit(["sh", "-c", "exit 6"])["run_id"]
        running.signal()
        assert running.exit_code() == 0
        running.until_line("^leaving 1 run to their guards$")
    shutil.rmtree(old)
    with daemon(tmp_path / "s", "--max-runs", "1") as running:
        assert running.report(run_id)["state"] == "running"
        assert running.report(queued)["state"] == "queued"  # the adopted run occupies its place
        gate.open()
        assert outcome(running.wait(run_id)) == ("failed", "exit", 5)
        assert outcome(running.wait(queued)) == ("failed", "exit", 6)


def test_a_lost_guard_is_found_by_the_next_daemon(tmp_path: Path) -> None:
    with daemon(tmp_path / "s") as running:
        run_id = running.submit(["sh", "-c", "echo ready; exec sleep 600"])["run_id"]
        running.until_output(run_id)
        report = running.report(run_id)
        guard = guard_of(running, run_id)
        running.kill()
    kill_both(sentinel_of(guard), guard)
    wait_exited(report["pid"])
    with daemon(tmp_path / "s") as running:  # before the listener opens: no client sees it as `running`
        report = running.report(run_id)
        assert (report["state"], *outcome(report)) == ("settled", "lost", "guard", None)
        assert [run["run_id"] for run in running.request("GET", "/v1/runs?status=lost").body["runs"]] == [run_id]


class Poster:
    """Post runs one after the other, in a thread, until the daemon does not answer any more."""

    def __init__(self, running: Daemon, runs: dict[str, list[str]]) -> None:
        self.answered: dict[str, str] = {}
        self._running = running
        self._runs = runs
        self._told: SimpleQueue[None] = SimpleQueue()
        self._thread = Thread(target=self._post)
        self._thread.start()

    def _post(self) -> None:
        try:
            for name, argv in self._runs.items():
                self.answered[name] = self._running.submit(argv, key=name, name=name)["run_id"]
                self._told.put(None)
        except (OSError, HTTPException):
            pass  # killed during a request: nobody knows whether that run is queued

    def until(self, answers: int, within_s: float = 60.0) -> None:
        """Return when this many were answered, or the time is over; the next request is under way then."""
        try:
            for _ in range(answers):
                self._told.get(timeout=within_s)
        except Empty:
            pass

    def join(self) -> None:
        """Return when the poster has noticed the end."""
        self._thread.join(60)


@pytest.mark.parametrize("answers", [0, 1, 2, 5])
def test_each_run_starts_once_wherever_the_daemon_is_killed(tmp_path: Path, answers: int) -> None:
    state, said = tmp_path / "s", tmp_path / "said"
    said.mkdir()
    runs = {f"run-{number}": ["sh", "-c", 'echo x >> "$0"', str(said / f"run-{number}")] for number in range(12)}
    known: dict[str, str] = {}
    for _ in range(2):
        with daemon(state, "--max-runs", "2") as running:
            poster = Poster(running, {name: argv for name, argv in runs.items() if name not in known})
            poster.until(answers)
            running.kill()
            poster.join()
            known |= poster.answered
    with daemon(state, "--max-runs", "2") as running:
        for name, argv in runs.items():  # a client that got no answer posts again; the others may do so, too
            run_id = running.submit(argv, key=name, name=name)["run_id"]
            assert run_id == known.setdefault(name, run_id)
            assert outcome(running.wait(run_id)) == ("succeeded", "exit", 0)
        listed = running.request("GET", "/v1/runs?limit=1000").body["runs"]
        assert sorted((run["name"], run["state"]) for run in listed) == sorted((name, "settled") for name in runs)
        running.signal()
        assert running.exit_code() == 0
    assert {name: (said / name).read_text() for name in runs} == dict.fromkeys(runs, "x\n")
    connection = sqlite3.connect(state / "daemon.sqlite")
    left = connection.execute("SELECT run_id FROM queue UNION SELECT run_id FROM active").fetchall()
    connection.close()
    assert left == []


@pytest.mark.slow
def test_each_run_starts_once_while_many_post_and_the_daemon_is_killed_again_and_again(tmp_path: Path) -> None:
    said, chance = tmp_path / "said", random.Random(7)
    said.mkdir()
    runs = {
        f"run-{number}": ["sh", "-c", 'echo x >> "$0"; exit 3', str(said / f"run-{number}")] for number in range(40)
    }
    known: dict[str, str] = {}
    while len(known) < len(runs):
        left = [name for name in runs if name not in known]
        with daemon(tmp_path / "s", "--max-runs", "3") as running:
            posters = [Poster(running, {name: runs[name] for name in left[first::3]}) for first in range(3)]
            posters[0].until(min(chance.randrange(3), len(left[::3])), within_s=chance.random())
            running.kill()
            for poster in posters:
                poster.join()
                known |= poster.answered
    with daemon(tmp_path / "s", "--max-runs", "3") as running:
        for name, argv in runs.items():
            assert running.submit(argv, key=name, name=name)["run_id"] == known[name]
            assert outcome(running.wait(known[name])) == ("failed", "exit", 3)
    assert {name: (said / name).read_text() for name in runs} == dict.fromkeys(runs, "x\n")


def test_there_is_one_daemon_for_a_state_directory(tmp_path: Path) -> None:
    with daemon(tmp_path / "s") as running:
        second = start(tmp_path / "s")
        try:
            assert second.exit_code() == 125
            assert any(f"process {running.process.pid} (holdfast serve) owns" in line for line in second.lines)
        finally:
            second.end()
        assert running.request("GET", "/v1/health").status == 200
