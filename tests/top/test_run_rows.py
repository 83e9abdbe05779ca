"""The rows of the list: which runs are shown, in which order."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.projections.report import report as project
from holdfast.top.run_rows import SORTS, ViewSettings, counts, rows

NOW_S = 1_800_000_000.0


def run(run_id: str, **fields: Any) -> dict[str, Any]:
    return {**project(None, {"argv": ["sleep", "1"]}, ()), "run_id": run_id, **fields}


RUNS = [
    run("a", state="running", started_at="2027-01-15T07:59:00Z", session="ci", name="build", waiting_for_input=True),
    run("b", state="running", started_at="2027-01-15T07:59:30Z", parent="a", labels={"team": "x"}),
    run("c", state="settled", started_at="2027-01-15T07:00:00Z", status="failed", cause="exit", duration_s=5.0),
    run("d", state="queued", queued_at="2027-01-15T07:59:50Z", session="nightly", name="Zebra"),
    run(
        "e", state="settled", started_at="2027-01-15T06:00:00Z", status="timed_out", cause="deadline", duration_s=900.0
    ),
]


def ids(**view: Any) -> list[str]:
    return [row.run_id for row in rows(RUNS, ViewSettings(**view), NOW_S)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", ["d", "a", "b", "c", "e"]),
        ("build", ["a"]),
        ("SLEEP", ["d", "a", "b", "c", "e"]),
        ("status:failed,timed_out", ["c", "e"]),
        ("cause:deadline", ["e"]),
        ("state:running session:ci", ["a"]),
        ("state:waiting", ["a"]),
        ("waiting", ["a"]),
        ("label:team=x", ["b"]),
        ("session:n", ["d"]),
        ("nothing:like", []),
    ],
)
def test_a_filter_is_words_and_fields(text: str, found: list[str]) -> None:
    assert ids(text=text) == found


@pytest.mark.parametrize(
    ("sort", "found"),
    [
        ("newest", ["d", "b", "a", "c", "e"]),
        ("oldest", ["e", "c", "a", "b", "d"]),
        ("state", ["b", "a", "d", "c", "e"]),
        ("time", ["e", "a", "b", "d", "c"]),
        ("output", ["d", "b", "a", "c", "e"]),
        ("name", ["a", "b", "c", "e", "d"]),
    ],
)
def test_orders(sort: str, found: list[str]) -> None:
    assert ids(sort=sort, tree=False) == found
    assert sort in SORTS


def test_a_nested_run_stands_below_its_parent_and_ended_ones_can_be_left_out() -> None:
    assert ids(ended=False) == ["d", "a", "b"]
    cells = {row.run_id: [cell.text for cell in row.cells] for row in rows(RUNS, ViewSettings(), NOW_S)}
    assert cells["a"] == ["waiting for input", "1m00s", "0B", "-", "ci", "build: sleep 1"]
    assert cells["b"][-1] == "└ sleep 1"
    assert cells["e"][:2] == ["timed_out/deadline", "15m00s"]


def test_what_names_hold_is_escaped() -> None:
    evil = run("f", state="running", name="\x1b]0;x\x07", session="\x9b2J", argv=["\x1b[31m"])
    (row,) = rows([evil], ViewSettings(), NOW_S)
    assert all(cell.text.isprintable() for cell in row.cells)


def test_counts() -> None:
    assert counts(RUNS) == "1 running, 1 waiting for input, 1 queued"
    assert counts([]) == "0 running"
