"""Every status and cause through every projection, against the table people have agreed to."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.journal.facts import CAUSES, LOST_WHYS, make_fact
from holdfast.outcome import Outcome, decide
from holdfast.projections import acp_v1, acp_v2, http, json_rpc, mcp, otel, responses
from holdfast.projections.a2a import a2a_state, a2a_task
from holdfast.projections.report import outcome_of, report
from holdfast.projections.systemd import systemd

from . import table

# The contract's table of outcomes.
VERDICTS = {
    ("succeeded", "exit"),
    *[("failed", cause) for cause in ("exit", "signal", "spawn", "oom", "limit")],
    *[("timed_out", cause) for cause in ("deadline", "idle", "queue")],
    *[("cancelled", cause) for cause in CAUSES.words.values()],
    *[("lost", cause) for cause in LOST_WHYS.words.values()],
    ("lost", "unseen"),
}
DETAIL = ("run_id", "status", "cause", "exit_code", "signal", "escalated")
OUTCOMES = {name: decide(facts) for name, facts in table.cases().items()}
STARTED = make_fact("started", 1, 1, pid=7, guard_pid=6, start_ticks=8, containment="subreaper", cgroup=None)


@pytest.fixture(autouse=True)
def nothing_left_behind() -> None:
    """Replace the check for processes and descriptors: this module tests pure functions."""


def test_the_cases_are_all_there_is() -> None:
    assert {(outcome.status, outcome.cause) for outcome in OUTCOMES.values()} == VERDICTS


def test_every_verdict_on_every_surface_is_as_reviewed() -> None:
    assert table.aligned(table.rows()) == table.aligned(table.reviewed())


def test_control_a_changed_line_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table must find a timeout with a late exit 0 that is shown as the exit."""
    monkeypatch.setitem(table.SURFACES, "exit code", lambda outcome: str(outcome.exit_code))
    assert table.aligned(table.rows()) != table.aligned(table.reviewed())


def test_the_page_is_made_from_the_table() -> None:
    assert table.DOCS.read_text() == table.page(), "run: python -m tests.projections.table --docs"


def carriers(outcome: Outcome, run_id: str) -> dict[str, Any]:
    """The place in which each surface carries the detail."""
    rpc = json_rpc.json_rpc(outcome, run_id)
    terminal, stop = acp_v1.acp_v1_terminal(outcome, run_id), acp_v1.acp_v1_stop(outcome, run_id)
    return {
        "json_rpc": rpc.result or (rpc.error or {})["data"],
        "mcp": mcp.mcp_result(outcome, run_id).structured,
        "acp_v1 terminal": terminal.result["_meta"] if terminal.result else (terminal.error or {})["data"],
        "acp_v1 stop": stop.result["_meta"] if stop.result else (stop.error or {})["data"],
        "acp_v2": acp_v2.acp_v2_stop(outcome, run_id)["_meta"],
        "a2a": a2a_task(outcome, run_id)["metadata"],
    }


@pytest.mark.parametrize("name", OUTCOMES)
def test_no_surface_loses_the_detail(name: str) -> None:
    outcome = OUTCOMES[name]
    expected = {field: getattr(outcome, field, "run-1") for field in DETAIL}
    for surface, carried in carriers(outcome, "run-1").items():
        assert {field: carried[field] for field in DETAIL} == expected, surface
        json.dumps(carried)
    texts = {field: str(value).lower() for field, value in expected.items() if value is not None}
    assert responses.responses(outcome, "run-1")["metadata"] == texts
    attributes = otel.otel(outcome, "run-1").attributes
    assert [attributes.get(name) for name in ("holdfast.status", "holdfast.cause", "process.exit.code")] == [
        outcome.status,
        outcome.cause,
        outcome.exit_code,
    ]


@pytest.mark.parametrize("name", OUTCOMES)
def test_later_facts_move_no_surface(name: str) -> None:
    """The decisive fact decides on every surface: a later exit 0 or cancel changes detail only."""
    facts = table.cases()[name]
    if facts[-1].kind == "lost":
        return  # it is no fact about the run: any decisive fact takes its place, which test_outcome shows
    late = [make_fact("stop_asked", 20, 20, cause="user", signal=2, by_pid=0, by_uid=0, reason=None)]
    if all(fact.kind != "exited" for fact in facts):
        late.append(make_fact("exited", 21, 21, wait_status=0, **table.USAGE))
    moved = decide([*facts, *late])
    for surface, show in table.SURFACES.items():
        if surface != "systemd":  # the brackets show how the process ended, which is detail
            assert show(moved) == show(OUTCOMES[name]), surface


@pytest.mark.parametrize(
    ("facts", "state", "words"),
    [
        ([], "starting", ("TASK_STATE_SUBMITTED", "queued", "working")),
        ([STARTED], "running", ("TASK_STATE_WORKING", "in_progress", "working")),
    ],
)
def test_before_the_verdict(facts: list[Any], state: str, words: tuple[str, ...]) -> None:
    outcome = decide(facts)
    assert (a2a_state(outcome), responses.responses(outcome, "r")["status"], mcp.mcp_task(outcome)) == words
    assert http.http_headers(outcome, "r") == {"Holdfast-Run": "r", "Holdfast-State": state}
    assert mcp.mcp_result(outcome, "r")[:2] == (False, state)
    final = (json_rpc.json_rpc, acp_v1.acp_v1_terminal, acp_v1.acp_v1_stop, acp_v2.acp_v2_stop, otel.otel)
    for project in final:
        with pytest.raises(ValueError, match="no verdict yet"):
            project(outcome, "r")
    with pytest.raises(ValueError, match="no verdict yet"):
        systemd(outcome)


@pytest.mark.parametrize("name", OUTCOMES)
def test_a_report_gives_its_outcome_back(name: str) -> None:
    header = {"run_id": "run-1", "boot_id": "b", "wall_ns": 1, "boottime_ns": 0}
    facts = [fact._replace(at_ns=fact.at_ns * 1000) for fact in table.cases()[name]]
    reported = json.loads(json.dumps(report(header, {}, facts)))
    reported["evidence"].append({"at_s": 1.0, "fact": "of_a_newer_version", "something": [1]})
    again = outcome_of(reported)
    assert again[:7] == decide(facts)[:7]
    for surface, show in table.SURFACES.items():
        assert show(again) == show(OUTCOMES[name]), surface
