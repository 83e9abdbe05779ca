"""Judging a cell, comparing runs, and the rows and peers themselves: no processes needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from conformance.expectation import Expect, Seen, judge
from conformance.oracle import Member, own_children
from conformance.peers import PEERS, REASONS
from conformance.rows import NUMBERS_ELSEWHERE, ROWS
from conformance.task import Task, decode

from conformance import compare, page

ANSWER = {
    "status": "succeeded", "cause": "exit", "exit_code": 0, "signal": None, "stdout": None, "stderr": None,
    "stdout_bytes": None, "tree": None, "note": None, "seconds": 0.1,
}  # fmt: skip
EXPECT = Expect(("succeeded",), "exit", begins=None)
SOMEBODY = Member(7, "/somewhere/daemonises", "daemonises as-daemon")


def aspects(expect: Expect, *left: Member, hung: str | None = None, **changes: Any) -> list[str]:
    """The parts in which a cell does not hold."""
    answers = [] if hung else [{**ANSWER, **changes}]
    return [finding.aspect for finding in judge(expect, Seen(answers, list(left), [], False, 10, hung=hung))]


def test_each_aspect_is_seen_by_itself() -> None:
    assert aspects(EXPECT) == []
    assert aspects(EXPECT, status="timed_out") == ["status"]
    assert aspects(EXPECT, cause="signal") == ["status"]
    assert aspects(EXPECT, exit_code=None) == ["status"]
    assert aspects(EXPECT._replace(begins=b"ready")) == ["bytes"]
    assert aspects(EXPECT._replace(counted=5), stdout_bytes=4) == ["bytes"]
    assert aspects(EXPECT, seconds=60.0) == ["time"]
    assert aspects(EXPECT, hung="no answer within 5 s") == ["time"]
    assert aspects(EXPECT, SOMEBODY) == ["left"]
    assert aspects(EXPECT._replace(mark=True)) == ["status"]
    assert aspects(EXPECT._replace(peak_mib=5)) == ["bytes"]


def test_where_nothing_can_be_killed_nobody_is_counted_but_no_lie_passes() -> None:
    survivor = EXPECT._replace(left=False)
    assert aspects(survivor, SOMEBODY) == []
    assert aspects(survivor, SOMEBODY, tree="gone") == ["status"]


def test_without_an_expected_answer_only_those_left_count() -> None:
    assert aspects(Expect(), status="nonsense") == []
    assert aspects(Expect(), SOMEBODY, status="nonsense") == ["left"]


def run_of(verdict: str, *found: str) -> dict[str, Any]:
    """The results of a run of one cell."""
    findings = [{"aspect": aspect, "what": f"{aspect} <was> wrong"} for aspect in found]
    machine = {"at": "2026-01-01", "processor": "p", "cores": 2, "virtual": True, "kernel": "k", "load_before": 1,
               "load_most": 2, "containment": "c"}  # fmt: skip
    peer = {"name": "peer", "group": "Python", "best": "as it is", "ours": False, "version": "1"}
    return {
        "machine": machine, "took_s": 1, "peers": [peer], "elsewhere": {},
        "rows": [{"name": "row", "number": 1, "child": "does & dies", "holds": "dead"}],
        "cells": {"row": {"peer": {"verdict": verdict, "findings": findings, "reason": "because"}}},
    }  # fmt: skip


def test_runs_agree_when_every_cell_does() -> None:
    failed = run_of("failed", "left", "time")
    assert compare.differing([failed, run_of("failed", "time", "left")]) == {}
    differing = compare.differing([failed, run_of("failed", "left"), run_of("held")])
    assert list(differing) == [("row", "peer")]
    assert "failed left time | failed left | held" in compare.in_words(differing, 3)


def test_every_verdict_has_its_place_on_the_page(tmp_path: Any) -> None:
    shown = {"failed": "time &lt;was> wrong", "broken": "the pack itself failed", "absent": "all rows",
             "not applicable": "because", "held": "1 of 1"}  # fmt: skip
    for verdict, words in shown.items():
        made = page.write(run_of(verdict, *(("time",) if verdict == "failed" else ())), tmp_path)
        assert words in made.read_text(), verdict


def test_every_fixture_is_a_row_or_has_a_reason() -> None:
    assert sorted({row.number for row in ROWS} | NUMBERS_ELSEWHERE.keys()) == list(range(1, 52))
    assert not {row.number for row in ROWS} & NUMBERS_ELSEWHERE.keys()
    assert len({row.name for row in ROWS}) == len(ROWS)


def test_whatever_a_row_needs_or_a_peer_lacks_has_its_words() -> None:
    assert {need for row in ROWS for need in row.needs} <= REASONS.keys()
    assert {lack for peer in PEERS for lack in peer.lacks} <= REASONS.keys()


def test_a_task_reaches_the_adapter_as_it_was() -> None:
    task = Task((("a", "b"),), timeout_s=1.5, cancel_after_s=0.2)
    assert decode(task.encode()) == task


def test_a_thread_that_ends_while_children_are_looked_for_is_passed_over(tmp_path: Path) -> None:
    for task, children in (("1", "5 6 "), ("2", None), ("3", "7 ")):
        (tmp_path / task).mkdir()
        if children is not None:
            (tmp_path / task / "children").write_text(children)
    assert sorted(own_children(tmp_path)) == [5, 6, 7]
