"""A run as one row of a table: the cell of its state, its ports, and its place below the run that started it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ..values.signals import signal_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

T = TypeVar("T")
WAITING = "waiting for input"  # shown in place of `running`
_TONES = {"succeeded": "good", "failed": "bad", "timed_out": "bad", "cancelled": "dim", "lost": "bad"}


class Cell(NamedTuple):
    """The text of a cell and its tone: `good`, `bad`, `busy`, `dim` or none. Colour only repeats what the text says."""

    text: str
    tone: str = ""


def state_cell(report: Mapping[str, Any]) -> Cell:
    """The state of a live run, or the status and cause of an ended one."""
    if report.get("state") is None:
        return Cell("unreadable", "bad")
    if report["status"] is None:
        place = (report.get("queue") or {}).get("position")
        state = report["state"] if place is None else f"{report['state']} #{place}"
        return Cell(WAITING if report.get("waiting_for_input") else state, "busy")
    text = f"{report['status']}/{report['cause']}"
    return Cell(text if report["state"] == "settled" else f"{report['state']} ({text})", _TONES[report["status"]])


def exit_text(report: Mapping[str, Any]) -> str:
    """How the command itself ended: its exit code, or the signal it died of; `-` when it did neither, or is unknown."""
    if report.get("exit_code") is not None:
        return str(report["exit_code"])
    return "-" if report.get("signal") is None else signal_name(report["signal"])


def ports_text(ports: Iterable[int] | None) -> str:
    """The ports on which a run listens; `-` when there are none, or they are not known."""
    return ",".join(map(str, ports or ())) or "-"


def queue_text(report: Mapping[str, Any]) -> str | None:
    """The place of a queued run in the queue, and what it waits for; None: it is not queued, or nobody says."""
    place = report.get("queue")
    if place is None:
        return None
    position = "" if place["position"] is None else f"position {place['position']}, "
    return f"{position}priority {place['priority']}; waits for {place['waits_for']}"


def nested(runs: Iterable[T], report_of: Callable[[T], Mapping[str, Any]]) -> list[tuple[T, str]]:
    """Each run with its indent, below the run it is nested in; a run whose parent is not listed stands at the top."""
    listed = {report_of(run)["run_id"]: run for run in runs}
    below: dict[str | None, list[T]] = {}
    for run_id, run in listed.items():
        parent = report_of(run).get("parent")
        below.setdefault(parent if parent in listed and parent != run_id else None, []).append(run)
    rows: list[tuple[T, str]] = []
    left = [(run, 0) for run in reversed(below.pop(None, []))]
    while left:
        run, depth = left.pop()
        rows.append((run, "  " * (depth - 1) + "└ " if depth else ""))
        left += [(child, depth + 1) for child in reversed(below.pop(report_of(run)["run_id"], []))]
    # Users choose ids, so two runs can name each other as parent. Show them all the same.
    return rows + [(run, "") for rest in below.values() for run in rest]
