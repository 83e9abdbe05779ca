"""The report of a run: its outcome as one JSON object, the same on every surface.

Only named fields of the spec are copied, so no value of the environment can get in. Unknown values are null.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from ..journal.facts import Detail, Fact
from ..outcome import Outcome, decide, exit_of, join
from ..values.timestamps import format_timestamp

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ..journal.reader import JournalReader


class OutputSeen(NamedTuple):
    """How many bytes of output a reader has seen so far, late ones included. A report uses this before DRAINED."""

    stdout_bytes: int
    stderr_bytes: int
    late_bytes: int
    dropped_bytes: int | None = None


def output_seen(reader: JournalReader) -> OutputSeen:
    """How much of the output up to the reader's position the journal still has."""
    missing = reader.missing()
    out, late_out, err, late_err = (passed - gone for passed, gone in zip(reader.passed, missing, strict=True))
    return OutputSeen(out + late_out, err + late_err, late_out + late_err, sum(missing) or None)


# The fields of the spec that a report has: what was in force. Nothing of the environment is among them.
IN_FORCE = (
    *("cwd", "timeout_s", "max_timeout_s", "idle_timeout_s", "grace_s", "ladder", "stragglers", "lifetime"),
    *("memory_bytes", "pids", "cpu_time_s", "max_output_bytes", "on_max_output", "priority"),
)
_NO_OUTPUT = dict.fromkeys(("stdout_bytes", "stderr_bytes", "late_bytes", "dropped_bytes", "complete"))


class _Clock:
    """Converts times of the journal to wall time, and to seconds since the journal was begun."""

    def __init__(self, header: Mapping[str, Any] | None) -> None:
        self._wall_ns: int | None = header.get("wall_ns") if header else None
        self._begin_ns: int | None = header.get("boottime_ns") if header else None

    def wall(self, fact: Fact | None) -> str | None:
        if fact is None or self._wall_ns is None or self._begin_ns is None:
            return None
        return format_timestamp(self._wall_ns + fact.at_ns - self._begin_ns)

    def since_begin(self, fact: Fact) -> float | None:
        return None if self._begin_ns is None else round((fact.at_ns - self._begin_ns) / 1e9, 6)


def report(
    journal_header: Mapping[str, Any] | None,
    spec: Mapping[str, Any] | None,
    facts: Iterable[Fact],
    seen: OutputSeen | None = None,
) -> dict[str, Any]:
    """The report of a run from its facts so far; `seen` has the bytes of output while it is still running."""
    ordered = join(facts)
    outcome = decide(ordered)
    clock = _Clock(journal_header)
    asked = spec or {}
    settled = _settled_by(outcome, ordered)
    # The guard records the process before it executes the command; when that fails, the command never started.
    started = None if outcome.cause == "spawn" else outcome.started
    # Recovery writes the END after a LOST fact: nothing counted the stragglers and the usage of the tree.
    # Nor does anything count them for a process of another program, whose output goes elsewhere, too.
    is_foreign = outcome.started is not None and outcome.started.detail["containment"] == "none"
    counted = None if is_foreign or any(fact.kind == "lost" for fact in ordered) else outcome.ended
    return {
        "run_id": (journal_header or {}).get("run_id"),
        "state": outcome.state,
        "name": asked.get("name"),
        "argv": asked.get("argv"),
        "session": asked.get("session"),
        "parent": asked.get("parent"),
        "labels": dict(asked.get("labels") or {}),
        "status": outcome.status,
        "cause": outcome.cause,
        "reason": _reason(outcome, asked),
        "exit_code": outcome.exit_code,
        "signal": outcome.signal,
        "limit": limit_of(outcome),
        "pid": started.detail["pid"] if started else None,
        "host": (journal_header or {}).get("host"),
        "ports": None,  # a reader that can see the processes of a live run fills this in
        "queued_at": asked.get("queued_at"),
        "started_at": clock.wall(started),
        "verdict_at": clock.wall(outcome.decided_by),
        "exited_at": clock.wall(outcome.exited),
        "settled_at": clock.wall(settled),
        "duration_s": _duration(started, outcome.exited or settled),
        "escalated": outcome.escalated,
        "containment": outcome.started.detail["containment"] if outcome.started else None,
        "tree": outcome.tree.detail["how"] if outcome.tree else "unknown",
        "survivors": _survivors(outcome),
        "stragglers": _stragglers(outcome.stragglers, counted),
        "output": dict(_NO_OUTPUT) if is_foreign else {**_output(outcome, ordered, seen), **_uncaptured(asked)},
        "usage": _usage(counted or (None if is_foreign else outcome.exited)),
        "spec": None if spec is None else _in_force(spec),
        "evidence": [_evidence(fact, clock) for fact in ordered],
    }


def _in_force(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The spec as it was in force. Where it names no directory, the command began in that of its owner."""
    found = {name: spec.get(name) for name in IN_FORCE}
    begun_in = spec.get("started_in")
    if isinstance(begun_in, str) and isinstance(found["cwd"], str | None):
        found["cwd"] = os.path.normpath(os.path.join(begun_in, found["cwd"] or ""))
    return found


def limit_of(outcome: Outcome) -> str | None:
    """The budget whose end decided the outcome: `memory`, `processes`, `output` or `cpu`; None for all others.

    The kernel keeps a memory budget where the run has a cgroup, and the guard where it has none. The causes differ,
    `oom` and `limit`, because the kernel killed a process and the guard did not. The budget is the same.
    """
    decided_by = outcome.decided_by
    if decided_by is None or outcome.cause not in ("oom", "limit"):
        return None
    return "memory" if decided_by.kind == "oom" else str(decided_by.detail["what"]).removeprefix("session_")


def outcome_of(reported: Mapping[str, Any]) -> Outcome:
    """Decide the outcome again from the evidence in a report, which came from a daemon or a file.

    The other projections need an outcome, and a client of a daemon has only the report.
    """
    return decide(facts_of(reported))


def facts_of(reported: Mapping[str, Any]) -> list[Fact]:
    """The facts in a report that came from a daemon or a file. Their times count from the beginning of the journal."""
    return [_fact(place, entry) for place, entry in enumerate(reported["evidence"])]


def _fact(place: int, entry: Mapping[str, Any]) -> Fact:
    kind = entry["fact"]
    added = ("at_s", "fact", "exit_code", "signal") if kind == "exited" else ("at_s", "fact")
    detail = {name: value for name, value in entry.items() if name not in added}
    # Not checked against the table of facts: a newer Holdfast may have made the report. The evidence is in order, so
    # the place in the list stands for the offset in the journal.
    return Fact(kind, round((entry["at_s"] or 0) * 1e9), place, Detail(detail))


def _settled_by(outcome: Outcome, ordered: Sequence[Fact]) -> Fact | None:
    if outcome.state != "settled":
        return None
    return outcome.ended or ordered[-1]


def _reason(outcome: Outcome, asked: Mapping[str, Any]) -> str | None:
    """The reason of the outcome; after a failed start with the command or directory, which only the spec knows."""
    if outcome.decided_by is None or outcome.decided_by.kind != "spawn_failed":
        return outcome.reason
    step = outcome.decided_by.detail["step"]
    argv = asked.get("argv") or [None]
    subject = asked.get("cwd") if step == "chdir" else argv[0] if step in ("exec", "interpreter") else None
    return outcome.reason if subject is None else f"{outcome.reason}: {subject!r}"


def _duration(started: Fact | None, over: Fact | None) -> float | None:
    """The time from the start to the command's exit; to the end of the record when the exit was not seen."""
    return None if started is None or over is None else round((over.at_ns - started.at_ns) / 1e9, 6)


def _survivors(outcome: Outcome) -> list[int] | None:
    if outcome.tree is None or outcome.tree.detail["how"] == "unknown":
        return None
    return [survivor["pid"] for survivor in outcome.tree.detail.get("survivors") or () if "pid" in survivor]


def _stragglers(stragglers: Fact | None, counted: Fact | None) -> int | None:
    if stragglers is not None:
        return int(stragglers.detail["count"])
    return None if counted is None else 0


def _output(outcome: Outcome, ordered: Sequence[Fact], seen: OutputSeen | None) -> dict[str, Any]:
    counts: dict[str, Any] = dict(_NO_OUTPUT)
    if outcome.drained is None:
        counts.update(seen._asdict() if seen else {})
        counts["complete"] = False if outcome.state == "settled" else None
        return counts
    drained = outcome.drained.detail
    counts.update({name: drained[name] for name in counts if name in drained})
    failed = any(fact.kind == "recording_failed" for fact in ordered)
    counts["complete"] = drained["how"] == "eof" and not drained["dropped_bytes"] and not failed
    return counts


def _uncaptured(asked: Mapping[str, Any]) -> dict[str, None]:
    """The counts that nobody knows: the command has the caller's own descriptor, and the guard reads nothing there."""
    stdout, stderr = asked.get("stdout"), asked.get("stdout" if asked.get("merge") else "stderr")
    given = [name for name, source in (("stdout", stdout), ("stderr", stderr)) if source == "inherit"]
    return dict.fromkeys(f"{name}_bytes" for name in given)


def _usage(fact: Fact | None) -> dict[str, Any]:
    """The usage of the whole tree when the run has ended, of the command alone before that; None: nobody saw it."""
    if fact is None or not fact.detail["max_rss_kib"]:  # no process has no memory
        return {"cpu_user_s": None, "cpu_system_s": None, "max_rss_bytes": None}
    return {
        "cpu_user_s": fact.detail["user_us"] / 1e6,
        "cpu_system_s": fact.detail["system_us"] / 1e6,
        "max_rss_bytes": fact.detail["max_rss_kib"] * 1024,
    }


def _evidence(fact: Fact, clock: _Clock) -> dict[str, Any]:
    entry = {"at_s": clock.since_begin(fact), "fact": fact.kind, **fact.detail}
    if fact.kind == "exited":
        entry["exit_code"], entry["signal"] = exit_of(fact.detail["wait_status"])
    return entry
