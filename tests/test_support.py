"""The tests' own safety net catches what it must catch."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .support.children import CHILDREN
from .support.leftovers import find_leftovers, take_stock
from .support.processes import describe, is_gone, own_children, state_of, wait_exited
from .support.readiness import is_ready, names_in, read_ready
from .support.strict import fail_if_skipped
from .support.turns import Turns

if TYPE_CHECKING:
    from .support.children import Children


@pytest.mark.parametrize("source", sorted(path.stem for path in CHILDREN.glob("*.c")))
def test_every_child_compiles(child: Children, source: str) -> None:
    assert os.access(child(source)[0], os.X_OK)


def test_an_escaped_daemon_is_found_and_killed(child: Children) -> None:
    before = take_stock()
    with subprocess.Popen(child("daemonises", "exit"), stdout=subprocess.PIPE) as leader:
        assert leader.stdout is not None
        daemon = read_ready(leader.stdout.fileno())["daemon"]
    assert daemon in own_children(), "the orphan has come to us"
    assert find_leftovers(before, within_s=1) == [f"process {daemon} [S] daemonises as-daemon"]
    assert is_gone(daemon)


def test_a_chain_of_orphans_is_found_and_killed(child: Children, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.write_bytes(bytes(16))
    before = take_stock()
    subprocess.run(child("reforks", shared, "exit"), check=True, stdout=subprocess.DEVNULL)
    assert find_leftovers(before, within_s=1)
    assert not own_children() - before.children


def test_an_open_descriptor_is_found() -> None:
    before = take_stock()
    reading, writing = os.pipe()
    found = find_leftovers(before, within_s=1)
    os.close(reading)
    os.close(writing)
    assert [line.split(" -> ")[0] for line in found] == [f"descriptor {reading}", f"descriptor {writing}"]


def test_what_exits_in_time_is_no_leftover() -> None:
    before = take_stock()
    orphan = subprocess.check_output(["sh", "-c", "sleep 0.1 >/dev/null & echo $!"])
    assert find_leftovers(before) == []
    assert is_gone(int(orphan))


def test_a_process_is_there_until_it_is_reaped() -> None:
    process = subprocess.Popen(["sleep", "100"])
    assert state_of(process.pid) not in {None, "Z", "X"}  # in any state: it may still wait for its program's pages
    assert not wait_exited(process.pid, 0)
    process.send_signal(signal.SIGKILL)
    assert wait_exited(process.pid)
    assert state_of(process.pid) == "Z"
    assert not is_gone(process.pid)
    process.wait()
    assert is_gone(process.pid)
    assert "gone" in describe(process.pid)


def test_ready_lines() -> None:
    assert not is_ready(b"early\nready child=1")
    assert is_ready(b"early\nready child=1\n")
    assert names_in(b"early\nready child=1 grandchild=23\nready child=4\n") == {"child": 1, "grandchild": 23}
    with pytest.raises(AssertionError, match="no line"):
        names_in(b"early\n")


@pytest.mark.parametrize(
    ("strict", "reason", "outcome"),
    [("1", "no cgroup", "failed"), ("1", "allowed: no cgroup", "skipped"), ("", "no cgroup", "skipped")],
)
def test_strict_runs_fail_on_skips(monkeypatch: pytest.MonkeyPatch, strict: str, reason: str, outcome: str) -> None:
    monkeypatch.setenv("HOLDFAST_STRICT", strict)
    report = pytest.TestReport("x", ("x", 1, "x"), {}, "skipped", ("x", 1, f"Skipped: {reason}"), "call")
    fail_if_skipped(report)
    assert report.outcome == outcome


def test_a_turn_alone_comes_when_others_have_ended_and_before_those_who_come_later(tmp_path: Path) -> None:
    files = tmp_path / "gate", tmp_path / "floor"
    for path in files:
        path.touch()
    order: list[str] = []

    def take(turns: Turns, name: str, alone: bool) -> None:
        with turns.taken(alone):
            order.append(name)

    with ExitStack() as stack:
        early, beside, alone, late = workers = [Turns(*files) for _ in range(4)]
        for turns in workers:
            stack.callback(turns.close)
        with early.taken(alone=False):
            take(beside, "beside", alone=False)
            waiting = []
            for turns, name in ((alone, "alone"), (late, "late")):
                waiting.append(threading.Thread(target=take, args=(turns, name, name == "alone")))
                waiting[-1].start()
                until_blocked(len(waiting), *files)
            order.append("early")
        for thread in waiting:
            thread.join()
    assert order == ["beside", "early", "alone", "late"]


def until_blocked(count: int, *files: Path) -> None:
    """Wait until so many wait for a lock of these files."""
    inodes = {str(path.stat().st_ino) for path in files}
    blocked = 0
    while blocked < count:
        lines = [line.split() for line in Path("/proc/locks").read_text().splitlines() if "->" in line]
        blocked = sum(words[6].split(":")[-1] in inodes for words in lines)
