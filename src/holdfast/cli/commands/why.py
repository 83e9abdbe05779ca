"""`holdfast why`: tell what happened to a run as a timeline, and which fact decided its outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...journal.reader import JournalReader
from ...runs.live import CHUNKS_BYTES
from ...values.timestamps import format_timestamp
from ...wording.plain import command_line, plain
from ...wording.timeline import TimelineEvent, output_periods, timeline
from ..lookup.selection import show_run
from ..parsing.command import JSON, Command, put, show_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...journal.reader import Chunk
    from ...state.record import RunRecord
    from ..parsing.options import CommandLine

_MARKS = {"decided": "=>", "late": " ~", "": "  "}


def act(given: CommandLine) -> int:
    def tell_it(record: RunRecord) -> None:
        reader = record.reader
        events = timeline(reader.header, reader.facts, record.outcome, output_periods(_output(record)))
        if given.has("--json"):
            _show_json(record, events)
        else:
            put(_text(record, events))

    def tell_queued(report: dict[str, Any]) -> None:
        """Print since when a queued run is queued. It has no facts yet."""
        if given.has("--json"):
            show_json(_told(report["run_id"], report, []))
        else:
            run = f"run {report['run_id']}: {command_line(report['argv'])}"
            put(f"{run}\nqueued since {plain(report['queued_at'])}\n")

    return show_run(given, "why", tell_it, tell_queued)


def _output(record: RunRecord) -> Iterator[Chunk]:
    """Yield the output of a run piece by piece, because a journal can be larger than memory."""
    reader = JournalReader(record.fd, run_id=record.run_id)
    while chunks := reader.read(CHUNKS_BYTES):
        yield from chunks


def _show_json(record: RunRecord, events: list[TimelineEvent]) -> None:
    told = [
        {"at_s": event.at_s, "fact": event.fact, "words": event.words, "mark": event.mark or None} for event in events
    ]
    show_json(_told(record.run_id, record.report(), told))


def _told(run_id: str, report: dict[str, Any], events: list[dict[str, Any]]) -> dict[str, Any]:
    fields = ("state", "status", "cause", "reason", "verdict_at")
    return {"run_id": run_id, **{name: report[name] for name in fields}, "timeline": events}


def _text(record: RunRecord, events: list[TimelineEvent]) -> str:
    report = record.report()
    verdict = f"{report['state']}, no verdict yet"
    if report["status"] is not None:
        verdict = f"{report['status']}, cause {report['cause']}: {plain(report['reason'])}"
    lines = [
        f"run {record.run_id}: {command_line(report['argv'])}",
        verdict,
        f"begun {format_timestamp(record.begun_ns)}",
        "",
    ]
    lines += [f"{_MARKS[event.mark]} {_at(event):>12}  {event.words}" for event in events]
    lines.append("")
    if report["status"] is not None:
        lines.append("=> decided the outcome; what came after it adds detail and changes nothing.")
    if any(event.mark == "late" for event in events):
        lines.append(" ~ came too late to count.")
    if report["state"] != "settled":
        lines.append(f"The run goes on: holdfast logs -f {record.run_id} follows it.")
    return "\n".join(lines).rstrip() + "\n"


def _at(event: TimelineEvent) -> str:
    return "?" if event.at_s is None else f"+{event.at_s:.3f}s"


COMMAND = Command(
    "why ID [--json]",
    "Tell what happened to a run and when, and which fact decided the outcome.",
    (JSON,),
    act,
    "Times count from the moment the caller asked for the run.\n",
)
