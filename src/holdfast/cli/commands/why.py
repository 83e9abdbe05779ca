"""`holdfast why`: tell what happened to a run as a timeline, and which fact decided its outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...journal.reader import JournalReader
from ...runs.live import CHUNKS_BYTES
from ...wording.circumstances import circumstances
from ...wording.next_step import next_step
from ...wording.plain import command_line, plain
from ...wording.rows import queue_text
from ...wording.story import story_of
from ...wording.timeline import TimelineEvent, output_periods, timeline
from ..lookup.selection import show_run
from ..parsing.command import JSON, Command, put, show_json
from ..printing.last_lines import LastLines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...journal.reader import Chunk
    from ...state.record import RunRecord
    from ..parsing.options import CommandLine

_LAST_LINES = 10
_LONGEST_LINE = 500


def act(given: CommandLine) -> int:
    def tell_it(record: RunRecord) -> None:
        reader = record.reader
        last = {stream: LastLines(_LAST_LINES) for stream in ("stderr", "stdout")}
        periods = output_periods(_output(record, last))
        events = timeline(reader.header, reader.facts, record.outcome, periods)
        said = circumstances(record.outcome, record.report(), reader.spec, periods)
        words = _last_words(last) if record.outcome.status not in (None, "succeeded", "cancelled") else None
        if given.has("--json"):
            _show_json(record, events, said, words)
        else:
            put(story_of(record.report(), record.begun_ns, events) + _answer(record, said, words))

    def tell_queued(report: dict[str, Any]) -> None:
        """Print since when a queued run is queued. It has no facts yet."""
        if given.has("--json"):
            show_json(_told(report["run_id"], report, []))
        else:
            run = f"run {report['run_id']}: {command_line(report['argv'])}"
            put(f"{run}\nqueued since {plain(report['queued_at'])}\n")
            if (place := queue_text(report)) is not None:
                put(f"{plain(place)}\n")

    return show_run(given, "why", tell_it, tell_queued)


def _output(record: RunRecord, last: dict[str, LastLines]) -> Iterator[Chunk]:
    """Yield the output of a run piece by piece, because a journal can be larger than memory; keep its last lines."""
    reader = JournalReader(record.fd, run_id=record.run_id)
    while chunks := reader.read(CHUNKS_BYTES):
        for chunk in chunks:
            if not chunk.late:
                last[chunk.stream].add(chunk)
            yield chunk


def _last_words(last: dict[str, LastLines]) -> dict[str, Any] | None:
    """The last lines of stderr, or of stdout if there are none; None if the run wrote nothing."""
    for stream, lines in last.items():
        data = b"".join(chunk.data for chunk in lines.cut())
        if data.strip():
            return {"stream": stream, "lines": data.decode("utf-8", "replace").splitlines()}
    return None


def _answer(record: RunRecord, said: list[str], words: dict[str, Any] | None) -> str:
    """What people ask next: the circumstances of the end, what the run wrote last, and what to try."""
    lines = ["", *said] if said else []
    if words is not None:
        lines += ["", f"The last lines of its {words['stream']}:"]
        lines += [f"    {plain(line[:_LONGEST_LINE])}" for line in words["lines"]]
    if step := next_step(record.outcome, record.run_id, record.report()["limit"]):
        lines += ["", f"Next: {step}"]
    return "".join(f"{line}\n" for line in lines)


def _show_json(record: RunRecord, events: list[TimelineEvent], said: list[str], words: dict[str, Any] | None) -> None:
    told = [
        {"at_s": event.at_s, "fact": event.fact, "words": event.words, "mark": event.mark or None} for event in events
    ]
    report = record.report()
    step = next_step(record.outcome, record.run_id, report["limit"])
    more = {"circumstances": said, "last_output": words, "next_step": step or None}
    show_json({**_told(record.run_id, report, told), **more})


def _told(run_id: str, report: dict[str, Any], events: list[dict[str, Any]]) -> dict[str, Any]:
    fields = ("state", "status", "cause", "reason", "verdict_at")
    return {"run_id": run_id, **{name: report[name] for name in fields}, "timeline": events}


COMMAND = Command(
    "why ID [--json]",
    "Tell what happened to a run and when, and which fact decided the outcome.",
    (JSON,),
    act,
    "Times count from the moment the caller asked for the run.\n",
)
