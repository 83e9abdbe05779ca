"""Facts that a run can cause without end: a thousand are recorded, the rest is counted, and the record says so."""

from __future__ import annotations

import signal
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
