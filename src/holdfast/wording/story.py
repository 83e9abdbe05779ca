"""The story of a run as text for people: the command, the verdict, and a timeline with the fact that decided it."""

from __future__ import annotations

from ..values.fast_imports import TYPE_CHECKING
from ..values.timestamps import format_timestamp
from .plain import command_line, plain
from .timeline import timeline

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ..journal.facts import Fact
    from ..outcome import Outcome
    from .timeline import TimelineEvent

_MARKS = {"decided": "=>", "late": " ~", "": "  "}


def story(report: Mapping[str, Any], header: Mapping[str, Any] | None, facts: Sequence[Fact], outcome: Outcome) -> str:
    """The story of a run whose output is not in its journal."""
    begun_ns = int((header or {}).get("wall_ns", 0))
    return story_of(report, begun_ns, timeline(header, facts, outcome, []))


def story_of(report: Mapping[str, Any], begun_ns: int, events: Sequence[TimelineEvent]) -> str:
    """The story of a run in these events."""
    verdict = f"{report['state']}, no verdict yet"
    if report["status"] is not None:
        verdict = f"{report['status']}, cause {report['cause']}: {plain(report['reason'])}"
    lines = [
        f"run {report['run_id']}: {command_line(report['argv'])}",
        verdict,
        f"begun {format_timestamp(begun_ns)}",
        "",
    ]
    lines += [f"{_MARKS[event.mark]} {_at(event):>12}  {event.words}" for event in events]
    lines.append("")
    if report["status"] is not None:
        lines.append("=> decided the outcome; what came after it adds detail and changes nothing.")
    if any(event.mark == "late" for event in events):
        lines.append(" ~ came too late to count.")
    if report["state"] != "settled":
        lines.append(f"The run goes on: holdfast logs -f {report['run_id']} follows it.")
    return "\n".join(lines).rstrip() + "\n"


def _at(event: TimelineEvent) -> str:
    return "?" if event.at_s is None else f"+{event.at_s:.3f}s"
