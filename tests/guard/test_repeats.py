"""Facts that a run can cause without end: a thousand are recorded, the rest is counted, and the record says so."""

from __future__ import annotations

import signal
from functools import partial
from typing import TYPE_CHECKING

import pytest

import holdfast
from holdfast.guard import packets
from holdfast.wording.timeline import words
from tests.support.driven import Driven
from tests.support.evidence import all_of, outcome_of

if TYPE_CHECKING:
    from tests.support.children import Children

pytestmark = pytest.mark.guard

RECORDED = 1000


def test_a_command_that_is_stopped_and_continued_for_ever(child: Children) -> None:
    result = holdfast.run(child("stops_often", 4000), timeout=60)
    assert outcome_of(result) == ("succeeded", "exit")
    stopped = all_of(result.facts, "stopped")
    told = [fact for fact in all_of(result.facts, "repeated") if fact.detail["of"] == "stopped"]
    assert len(stopped) == RECORDED
    assert told
    assert told[0].detail["count"] == 1
    assert len(told) < 10  # 1, 4, 16, ..., and the end
    assert RECORDED + told[-1].detail["count"] <= 4000
    assert told[-1].detail["last_ns"] > stopped[-1].at_ns
    assert "only counts" in words(told[-1])


def test_control_up_to_a_thousand_each_is_recorded(child: Children) -> None:
    result = holdfast.run(child("stops_often", 300), timeout=60)
    assert 0 < len(all_of(result.facts, "stopped")) <= 300
    assert not all_of(result.facts, "repeated")


def test_signals_on_request_are_counted_and_every_rung_is_recorded(child: Children) -> None:
    with Driven(child("exits_on_term", 5), grace=30) as run:
        run.until_ready()
        for _ in range(RECORDED + 5):
            assert run.ask(lambda ticket: packets.signal(ticket, signal.SIGWINCH, tree=False)) == 0
        run.live.ask_stop()
        result = run.settle()
    rungs = [fact.detail["rung"] for fact in all_of(result.facts, "signalled")]
    assert rungs == [-1] * RECORDED + [0]
    assert all_of(result.facts, "repeated")[-1].detail == {
        "of": "signalled",
        "count": 5,
        "last_ns": all_of(result.facts, "repeated")[-1].detail["last_ns"],
    }
    assert result.exit_code == 5


def test_a_deadline_that_is_moved_for_ever(child: Children) -> None:
    """Readers show the last one on record: it is never off by more than a hundredth."""
    with Driven(child("exits_on_term", 5), grace=30, timeout=100) as run:
        run.until_ready()
        for _ in range(RECORDED + 5):
            assert run.ask(lambda ticket: packets.extend(ticket, 1)) == 0
        counted = [fact.detail["limit_ns"] for fact in all_of(run.facts, "extended")]
        assert run.ask(lambda ticket: packets.extend(ticket, 2 * 10**9)) == 0
        run.live.ask_stop()
        result = run.settle()
    assert counted == [100 * 10**9 + moved for moved in range(1, RECORDED + 1)]
    assert all_of(result.facts, "extended")[-1].detail["limit_ns"] == 102 * 10**9 + RECORDED + 5
    assert repeated(result, "extended") == 5


def test_warnings_of_a_deadline_that_is_moved_for_ever(child: Children) -> None:
    with Driven(child("exits_on_term", 5), grace=30, timeout=100, warn_before=99.999, warn_signal="URG") as run:
        run.until_ready()

        def move_it() -> bool:
            assert run.ask(lambda ticket: packets.extend(ticket, 1)) == 0
            return any(fact.detail["of"] == "warned" for fact in all_of(run.facts, "repeated"))

        run.wait_for(move_it, "warnings that are only counted")
        run.live.ask_stop()
        result = run.settle()
    assert len(all_of(result.facts, "warned")) == RECORDED
    assert repeated(result, "warned") >= 1


def test_a_grace_that_is_shortened_for_ever(child: Children) -> None:
    with Driven(child("ignores_term"), grace=10_000) as run:
        run.until_ready()
        for grace_s in range(9000, 9000 - 8 * (RECORDED + 5), -8):
            assert run.ask(partial(packets.stop, cause="user", reason="", now=False, grace_s=grace_s)) == 0
        assert run.ask(lambda ticket: packets.stop(ticket, "user", "", now=True)) == 0
        result = run.settle()
    assert len(all_of(result.facts, "grace_shortened")) == RECORDED
    assert repeated(result, "grace_shortened") == 5


def repeated(result: holdfast.Result, kind: str) -> int:
    """How many more facts of that kind there were than are recorded."""
    told = [fact.detail["count"] for fact in all_of(result.facts, "repeated") if fact.detail["of"] == kind]
    return int(told[-1])
