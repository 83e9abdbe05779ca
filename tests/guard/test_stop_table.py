"""Every asker at every stage of the end: the guard does what the one table says, and so say the docs."""

from __future__ import annotations

import errno
import os
import re
import signal
import time
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.guard import packets
from holdfast.guard.binary import guard_path
from holdfast.state import run_directory
from holdfast.state.directory import StateDirectory
from tests.support import stop_table
from tests.support.driven import Driven, ask
from tests.support.evidence import all_of, kinds
from tests.support.freezer import Freezer, why_no_freezer
from tests.support.stop_table import ASKERS, STAGES, TABLE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.children import Children

pytestmark = pytest.mark.guard

ROOT = Path(__file__).parents[2]
LADDER = "USR1:10m,USR2:10m,KILL"
FIRST, SECOND, LAST = int(signal.SIGUSR1), int(signal.SIGUSR2), int(signal.SIGKILL)
# What the rungs are after the request, by what was done about it, when the run was alive or in its grace before.
RUNGS = {
    "begin": [FIRST],
    "begin_last": [LAST],
    "join": [FIRST],
    "climb": [FIRST, SECOND],
    "climb_last": [FIRST, LAST],
}
SOON_S = 0.8  # a deadline that passes during the test
REQUESTS_OF_TWO_TURNS = 129  # a turn of the guard's loop answers 64 requests of an owner at most


def test_the_docs_show_the_table() -> None:
    assert stop_table.rendered() in (ROOT / "docs" / "ending.md").read_text()


def test_the_guard_has_the_table() -> None:
    source = (ROOT / "native" / "stop.c").read_text()
    rows = dict(re.findall(r"\[ASKER_(\w+)\]\s*= \{(.*?)\}", source))
    found = {name.lower(): tuple(re.findall(r"ACT_(\w+)", row.lower(), re.IGNORECASE)) for name, row in rows.items()}
    assert {asker: tuple(act.lower() for act in acts) for asker, acts in found.items()} == TABLE


def test_the_table_is_complete() -> None:
    assert list(TABLE) == list(ASKERS)
    assert all(len(row) == len(STAGES) for row in TABLE.values())


# --- the table, cell by cell ---


class Asked:
    """A run with a directory, a second connection to its guard, and somebody who asks for its end."""

    def __init__(self, run: Driven, state: StateDirectory) -> None:
        self.run = run
        self.connection = run_directory.connect(state.run_path(run.live.spec.run_id))

    def request(self, asker: str) -> int:
        """Let this asker ask; returns the errno of the answer."""
        match asker:
            case "owner":
                self.run.live.control.close()
                return 0
            case "clock":
                self.run.until("deadline")
                return 0
            case "parent":
                os.kill(self.run.live.guard_pid, signal.SIGTERM)  # the spec says that it is nested
                return 0
        return ask(
            self.connection,
            lambda ticket: packets.stop(ticket, "user", "", now=asker == "now", person=asker == "person"),
        )

    def request_too_late(self, asker: str) -> None:
        """Let this asker ask a run that has ended; returns when the guard has seen it."""
        match asker:
            case "clock":
                end = time.monotonic() + 2 * SOON_S  # it is due by then, and the guard looked at its timers
                while time.monotonic() < end:
                    assert ask(self.connection, packets.heartbeat) == 0
            case "owner" | "parent":
                self.request(asker)
            case _:
                assert self.request(asker) == errno.ESRCH
        for _ in range(REQUESTS_OF_TWO_TURNS):
            assert ask(self.connection, packets.heartbeat) == 0

    def until_heard(self, asker: str, before: int) -> None:
        """Wait until the guard has recorded the request, and has had time to act on it."""
        kind = {"owner": "owner_gone", "clock": "deadline"}.get(asker, "stop_asked")
        self.run.wait_for(lambda: len(all_of(self.run.facts, kind)) > before, kind)
        if "end" not in kinds(self.run.facts):
            try:
                ask(self.connection, packets.heartbeat)
            except (AssertionError, OSError):
                pass  # the run is over

    def rungs(self) -> list[int]:
        """The signals of the ladder so far, without repetitions of the last."""
        return [fact.detail["signal"] for fact in all_of(self.run.facts, "signalled")][:3]


@contextmanager
def started(tmp_path: Path, argv: list[str], **options: Any) -> Iterator[Asked]:
    state = StateDirectory.open(str(tmp_path / "state"))
    with Driven(argv, state=state, ladder=LADDER, parent="outer", **options) as run:
        run.until_ready()
        asked = Asked(run, state)
        try:
            yield asked
        finally:
            asked.connection.close()


@pytest.mark.parametrize("asker", ASKERS)
def test_alive(asker: str, tmp_path: Path, child: Children) -> None:
    options = {"timeout": SOON_S} if asker == "clock" else {}
    with started(tmp_path, child("reports_signals"), **options) as asked:
        assert asked.request(asker) == 0
        asked.until_heard(asker, 0)
        assert asked.rungs() == RUNGS[stop_table.act(asker, "alive")]


@pytest.mark.parametrize(
    ("asker", "stage", "times"),
    [
        *product(ASKERS, ["grace", "insisted"], [1]),
        *product(["program", "person", "parent"], ["grace", "insisted"], [3]),
    ],
)
def test_in_the_grace(asker: str, stage: str, times: int, tmp_path: Path, child: Children) -> None:
    """Three times, too: a retry, a session and a shutdown may all come."""
    options = {"timeout": SOON_S} if asker == "clock" else {}
    with started(tmp_path, child("reports_signals"), **options) as asked:
        first = "person" if stage == "insisted" else "program"
        assert asked.request(first) == 0
        asked.until_heard(first, 0)
        assert asked.rungs() == [FIRST]
        expected = stop_table.act(asker, stage)
        for time in range(times):
            if LAST not in asked.rungs():
                assert asked.request(asker) == 0
                asked.until_heard(asker, 0 if asker in ("owner", "clock") else 1 + time)
        if asker == "person" and times > 1:  # each further time climbs one rung
            assert asked.rungs() == [FIRST, SECOND, LAST]
        else:
            assert asked.rungs() == RUNGS[expected]


@pytest.mark.root
@pytest.mark.parametrize("asker", ASKERS)
def test_being_killed(asker: str, tmp_path: Path, child: Children) -> None:
    if why_not := why_no_freezer():
        pytest.skip(why_not)
    options = {"timeout": SOON_S} if asker == "clock" else {}
    with Freezer() as freezer, started(tmp_path, child("reports_signals"), kill_wait=60, **options) as asked:
        freezer.freeze(asked.run.command_pid)
        assert asked.request("now") == 0
        asked.until_heard("now", 0)
        assert asked.request(asker) == 0
        asked.until_heard(asker, 0 if asker in ("owner", "clock") else 1)
        assert set(asked.rungs()) == {LAST}
        assert "tree" not in kinds(asked.run.facts)
        freezer.thaw()


@pytest.mark.parametrize("asker", ASKERS)
def test_over(asker: str, tmp_path: Path, child: Children) -> None:
    """The tree is gone, but its output is not at its end: we hold the pipe open."""
    options = {"timeout": SOON_S} if asker == "clock" else {}
    with started(tmp_path, child("reports_signals"), drain=60, drain_idle=60, **options) as asked:
        holder = os.open(f"/proc/{asked.run.command_pid}/fd/1", os.O_WRONLY)
        try:
            asked.request("now")
            asked.run.until("tree")
            before = kinds(asked.run.facts)
            asked.request_too_late(asker)
            assert kinds(asked.run.facts) == before, "nothing of it is on record"
        finally:
            os.close(holder)


@contextmanager
def held_at_a_gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, argv: list[str]) -> Iterator[tuple[Driven, Path]]:
    """A run whose guard waits at a gate before it begins. Everything that was asked by then comes before the start."""
    gate, guard = tmp_path / "gate", tmp_path / "guard"
    os.mkfifo(gate)
    guard.write_text(f'#!/bin/sh\nread line <{gate}\nexec {guard_path()} "$@"\n')
    guard.chmod(0o755)
    monkeypatch.setenv("HOLDFAST_GUARD", str(guard))
    with Driven(argv, state=StateDirectory.open(str(tmp_path / "state")), ladder=LADDER) as run:
        yield run, gate


@pytest.mark.parametrize("asker", [asker for asker in ASKERS if stop_table.act(asker, "held") != "none"])
def test_held(asker: str, tmp_path: Path, child: Children, monkeypatch: pytest.MonkeyPatch) -> None:
    """The request is in the socket, or the owner is gone, before the guard begins.

    No clock runs there: `test_again.py` holds a command for longer than its deadline.
    """
    with held_at_a_gate(tmp_path, monkeypatch, child("reports_signals")) as (run, gate):
        cause = asker if asker in ("parent", "owner") else "user"
        if asker == "owner":
            run.live.control.close()
        else:
            run.live.ask_stop(cause, now=asker == "now", person=asker == "person")
        gate.write_text("go\n")
        result = run.settle()
    assert (result.status, result.cause) == ("cancelled", cause)
    assert "started" not in kinds(result.facts)


# --- details ---


def test_a_deadline_in_the_grace_is_on_record_and_changes_nothing(child: Children) -> None:
    with Driven(child("reports_signals"), ladder=LADDER, timeout=SOON_S) as run:
        run.until_ready()
        run.live.ask_stop("user", "not needed")
        run.until("deadline")
        assert kinds(run.facts).index("stop_asked") < kinds(run.facts).index("deadline")
        assert (run.live.outcome.status, run.live.outcome.cause) == ("cancelled", "user")
        assert len(all_of(run.facts, "signalled")) == 1


def test_a_signal_at_the_front_after_a_parents_rung_is_the_parents(tmp_path: Path, child: Children) -> None:
    """`holdfast run` may take a second rung for a person's second signal; its guard knows better."""
    with started(tmp_path, child("reports_signals")) as asked:
        asked.request("parent")
        asked.until_heard("parent", 0)
        second = packets.stop(7, "user", "", now=True, signal=int(signal.SIGTERM))
        assert ask(asked.connection, lambda _ticket: second, 7) == 0
        assert asked.rungs() == [FIRST]
        assert ask(asked.connection, lambda ticket: packets.stop(ticket, "user", "", now=True)) == 0
        assert asked.rungs() == [FIRST, LAST], "the control: without a signal it is somebody who means it"
