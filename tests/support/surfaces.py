"""The answers of surfaces about runs, in the words of the reviewed table, and whether they all agree.

There is one expectation for each way to end: a line of tests/projections/reviewed.txt. A surface says what it has
words for; a report has them all, because every projection can be made from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.outcome import decide
from holdfast.projections.otel import RESULT
from holdfast.projections.report import outcome_of

from ..projections import table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opentelemetry.sdk.trace import ReadableSpan

Cells = dict[str, Any]
_DETAIL = ("run_id", "exit_code", "signal", "escalated")
# How the process itself ended: not known yet at the verdict.
_OF_THE_EXIT = frozenset({"exit_code", "signal", "systemd"})


class Watched(NamedTuple):
    """A run, its starter, and the line of the table that says how it must end."""

    run_id: str
    starter: str
    line: str


class Said(NamedTuple):
    """The answer of one surface about a run."""

    run: Watched
    surface: str
    cells: Cells


def agreed(line: str) -> Cells:
    """The expectation: the reviewed line, and the detail of the facts it is made from."""
    header, *rows = table.reviewed()
    (cells,) = (dict(zip(header, row, strict=True)) for row in rows if row[0] == line)
    outcome = decide(table.cases()[line])
    assert outcome.decided_by is not None
    return {
        **cells,
        "MCP task 2026": cells["MCP task 2026 / 2025-11"].split(" / ")[0],
        "decided by": outcome.decided_by.kind,
        "exit_code": outcome.exit_code,
        "signal": outcome.signal,
        "escalated": outcome.escalated,
    }


def disagreements(said: Iterable[Said], *, settled: bool) -> list[str]:
    """The differences, a line each; before the runs are settled the exit of the process is left out."""
    lines: dict[str, Cells] = {}
    found = []
    for run, surface, cells in said:
        expected = {**lines.setdefault(run.line, agreed(run.line)), "run_id": run.run_id}
        for name, cell in cells.items():
            if cell != expected.get(name) and (settled or name not in _OF_THE_EXIT):
                found.append(
                    f"{run.line}, started by {run.starter}: {surface} says {name} {cell!r}, not {expected.get(name)!r}"
                )
    return found


# Answers, as cells.


def carried(fields: Mapping[str, Any]) -> Cells:
    """The fields of metadata: in a report, an error's data, `_meta`, `structuredContent`."""
    return {"verdict": f"{fields['status']}/{fields['cause']}", **{name: fields[name] for name in _DETAIL}}


def reported(fields: Mapping[str, Any]) -> Cells:
    """The report's own fields, and every projection of it."""
    outcome = outcome_of(fields)
    projected: dict[str, Callable[[Any], str]] = {**table.SURFACES}
    del projected["verdict"]  # it says that itself
    told_by = None if outcome.decided_by is None else outcome.decided_by.kind
    return {**carried(fields), "decided by": told_by, **{name: show(outcome) for name, show in projected.items()}}


def answered(answer: Mapping[str, Any]) -> Cells:
    """A JSON-RPC answer: `result`, or `error` with `code` and `data`."""
    if "error" in answer:
        error = answer["error"]
        if "status" not in error["data"]:
            return {"error": repr(error)}  # an error of the call and not of the run: not in the table
        return {"JSON-RPC": str(error["code"]), **carried(error["data"])}
    return {"JSON-RPC": "result", **carried(answer["result"])}


def spanned(span: ReadableSpan) -> Cells:
    """A span that has ended."""
    found = dict(span.attributes or {})
    fields = {name: found.get(f"holdfast.{name}") for name in ("status", "cause", "run_id", "signal", "escalated")}
    return {"OTel": found[RESULT], **carried({**fields, "exit_code": found.get("process.exit.code")})}
