"""The details of one run in `top`: its title, its evidence as in `holdfast why`, and the fields of its report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from ..projections.report import facts_of, outcome_of
from ..wording.plain import command_line, plain, size
from ..wording.rows import state_cell
from ..wording.timeline import timeline

if TYPE_CHECKING:
    from .run_source import Report

_MARKS = {"decided": "=>", "late": " ~", "": "  "}
_STYLES = {"decided": "bold", "late": "dim", "": ""}
_FIELDS = (
    *("name", "session", "parent", "containment", "pid", "exit_code", "signal", "tree", "stragglers"),
    *("queued_at", "started_at", "verdict_at", "exited_at", "settled_at", "duration_s", "problem"),
)


def title(report: Report) -> str:
    """The id and the state of the run, in one line."""
    return f"{report['run_id']}  {state_cell(report).text}"


def evidence(report: Report) -> Text:
    """The timeline of the run, with its verdict above."""
    text = Text()
    if report.get("status") is not None:
        text.append(f"{report['status']}, cause {report['cause']}: {plain(report['reason'])}\n\n")
    events = timeline({"boottime_ns": 0}, facts_of(report), outcome_of(report), ())
    for event in events:
        at = "?" if event.at_s is None else f"+{event.at_s:.3f}s"
        text.append(f"{_MARKS[event.mark]} {at:>11}  {event.words}\n", style=_STYLES[event.mark])
    if not events:
        text.append("Nothing has happened to it yet.\n")
    return text


def fields(report: Report) -> Text:
    """The fields of the report, one line each."""
    lines = [("command", command_line(report.get("argv")))]
    lines += [("labels", ", ".join(f"{plain(k)}={plain(v)}" for k, v in (report.get("labels") or {}).items()))]
    lines += [(name.replace("_", " "), plain(report[name])) for name in _FIELDS if report.get(name) is not None]
    lines += [("ports", ", ".join(map(str, report.get("ports") or ())))]
    output = report.get("output") or {}
    lines += [(f"{name} output", size(output.get(f"{name}_bytes"))) for name in ("stdout", "stderr", "late")]
    return Text("".join(f"{name:<14}{value}\n" for name, value in lines if value))
