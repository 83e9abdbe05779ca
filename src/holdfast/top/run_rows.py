"""The rows of the table in `top`: filter, sort and nest the runs. Pure: reports in, rows out."""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from ..wording.plain import command_line, plain, size, span
from ..wording.rows import WAITING, Cell, nested, ports_text, state_cell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .run_source import Report

COLUMNS = ("STATE", "TIME", "OUTPUT", "PORTS", "SESSION", "RUN")
SORTS = ("newest", "oldest", "state", "time", "output", "name")
_FIELDS = ("status", "cause", "state", "session", "name", "label", "port")
_ORDER = {"running": 0, "stopping": 1, "starting": 2, "queued": 3, "settled": 4}


class ViewSettings(NamedTuple):
    """Which runs the user wants to see, and in which order."""

    text: str = ""
    sort: str = "newest"
    tree: bool = True
    ended: bool = True


class RunRow(NamedTuple):
    """One row of the table: the run id, and the cells in the order of COLUMNS."""

    run_id: str
    cells: tuple[Cell, ...]


def rows(reports: Iterable[Report], view: ViewSettings, now_s: float | None = None) -> list[RunRow]:
    """The rows of the runs that the view shows."""
    now_s = time.time() if now_s is None else now_s
    wanted = [report for report in reports if _is_wanted(report, view)]
    wanted.sort(key=_begun, reverse=True)
    if view.sort != "newest":
        wanted.sort(key=_key(view.sort, now_s))
    placed = nested(wanted, lambda report: report) if view.tree else [(report, "") for report in wanted]
    return [RunRow(report["run_id"], _cells(report, indent, now_s)) for report, indent in placed]


def counts(reports: Iterable[Report]) -> str:
    """The number of runs in each state, in words."""
    found = dict.fromkeys(("running", WAITING, "stopping", "starting", "queued"), 0)
    for report in reports:
        state = WAITING if report.get("waiting_for_input") else report.get("state")
        if state in found:
            found[state] += 1
    always = ("running",)
    return ", ".join(f"{count} {what}" for what, count in found.items() if count or what in always)


def elapsed_s(report: Report, now_s: float) -> float | None:
    """The duration of a run so far; of a queued run, the time it has waited; None when it is not known."""
    if report.get("duration_s") is not None or report.get("state") in ("settled", None):
        duration: float | None = report.get("duration_s")
        return duration
    began = report.get("started_at") or report.get("queued_at")
    return None if began is None else max(0.0, now_s - datetime.fromisoformat(began).timestamp())


def _is_wanted(report: Report, view: ViewSettings) -> bool:
    if not view.ended and report.get("state") == "settled":
        return False
    return all(_matches(report, word) for word in view.text.lower().split())


def _matches(report: Report, word: str) -> bool:
    """Whether a run matches one word of the filter: `status:failed,lost`, or any part of its shown text."""
    field, colon, wanted = word.partition(":")
    if colon and field in _FIELDS:
        return any(value.startswith(one) for value in _values(report, field) for one in wanted.split(","))
    shown = [report["run_id"], state_cell(report).text, command_line(report.get("argv"))]
    shown += [value for field in ("session", "name", "label") for value in _values(report, field)]
    return any(word in text.lower() for text in shown)


def _values(report: Report, field: str) -> list[str]:
    if field == "label":
        return [f"{name}={value}".lower() for name, value in (report.get("labels") or {}).items()]
    if field == "port":
        return [str(port) for port in report.get("ports") or ()]
    found = [str(report.get(field) or "").lower()]
    if field in ("state", "status") and report.get("waiting_for_input"):
        found.append("waiting")
    return found


def _key(sort: str, now_s: float) -> Callable[[Report], Any]:
    keys: dict[str, Callable[[Report], Any]] = {
        "oldest": _begun,
        "state": lambda report: (_ORDER.get(report.get("state") or "", 5), state_cell(report).text),
        "time": lambda report: -(elapsed_s(report, now_s) or 0.0),
        "output": lambda report: -_written(report),
        "name": lambda report: str(report.get("name") or command_line(report.get("argv"))).lower(),
    }
    return keys[sort]


def _begun(report: Report) -> tuple[str, str]:
    return report.get("queued_at") or report.get("started_at") or "", report["run_id"]


def _written(report: Report) -> int:
    output = report.get("output") or {}
    return (output.get("stdout_bytes") or 0) + (output.get("stderr_bytes") or 0)


def _cells(report: Report, indent: str, now_s: float) -> tuple[Cell, ...]:
    command = command_line(report.get("argv"))
    name = report.get("name")
    return (
        state_cell(report),
        Cell(span(elapsed_s(report, now_s))),
        Cell(size(_written(report))),
        Cell(ports_text(report.get("ports"))),
        Cell(plain(report.get("session") or "-")),
        Cell(indent + (f"{plain(name)}: {command}" if name else command)),
    )
