"""`holdfast orphans`: what it lists, when it asks, and what it confirms. Only the orphans of Amp: those are ours."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from ...foreign.leaving import Leaving
from ...foreign.test_orphan_search import MARKS, is_gone
from ..console import HOLDFAST, Console, holdfast
from ..kept_runs import as_json, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.xdist_group("foreign-orphans")


@pytest.fixture
def leaving(tmp_path: Path) -> Iterator[Leaving]:
    started = Leaving(tmp_path, "amp", MARKS)
    started.kill_harness()
    yield started
    started.close()


def test_it_lists_and_ends_only_when_told(leaving: Leaving) -> None:
    listed = holdfast("orphans", "--harness", "amp")
    assert (listed.returncode, listed.stderr) == (0, b"")
    head, *rows = listed.stdout.decode().splitlines()
    assert head.split() == ["PID", "AGENT", "ITS", "HARNESS", "SESSION", "AGE", "MEMORY", "PORTS", "COMMAND"]
    assert [int(row.split()[0]) for row in rows[:2]] == leaving.pids
    assert "2 processes, " in rows[2]
    shown = holdfast("orphans", "--end", "--harness", "amp")
    assert shown.stderr == b"holdfast: nothing was ended: add --yes to end 2 processes\n"
    assert not any(is_gone(pid) for pid in leaving.pids)
    done = holdfast("orphans", "--end", "--yes", "--grace", "200ms", "--harness", "amp")
    assert done.returncode == 0
    assert done.stdout.endswith(b"2 of 2 confirmed gone\n")
    assert all(is_gone(pid) for pid in leaving.pids)
    assert b"no orphans of agents were found" in holdfast("orphans", "--harness", "amp").stdout


def test_json_says_everything(leaving: Leaving) -> None:
    rows = as_json(holdfast("orphans", "--json", "--harness", "amp"))
    assert [row["pid"] for row in rows] == leaving.pids
    assert {row["harness_state"] for row in rows} == {"dead"}
    assert {row["session"] for row in rows} == {"thread-1"}
    assert rows[0]["ports"] == []
    assert rows[0]["ended"] is None
    ended = as_json(holdfast("orphans", "--json", "--end", "--yes", "--grace", "0", "--harness", "amp"))
    assert [row["ended"] for row in ended] == ["gone", "gone"]


@pytest.mark.parametrize(("answer", "ends"), [(b"\n", False), (b"y\n", True)])
def test_at_a_terminal_it_asks(leaving: Leaving, answer: bytes, ends: bool) -> None:
    with Console(*HOLDFAST, "orphans", "--end", "--grace", "0", "--harness", "amp") as console:
        console.until(b"End 2 processes? [y/N] ")
        assert not any(is_gone(pid) for pid in leaving.pids)
        console.type(answer)
        assert console.wait() == 0
    assert [is_gone(pid) for pid in leaving.pids] == [ends, ends]


def test_the_ports_of_an_orphan(tmp_path: Path) -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        port = listening.getsockname()[1]
        started = Leaving(tmp_path, "amp", MARKS, pass_fd=listening.fileno())
    try:
        started.kill_harness()
        rows = as_json(holdfast("orphans", "--json", "--harness", "amp"))
        assert rows[0]["ports"] == [port]
    finally:
        started.close()


def test_what_it_refuses() -> None:
    assert "--harness 'emacs' is unknown: use one of claude, " in one_line(holdfast("orphans", "--harness", "emacs"))
    assert "orphans takes no '12'" in one_line(holdfast("orphans", "12"))
