"""Rows of the index: write run summaries, and read them back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from .queries import STATEMENTS as _SQL
from .summary import RunSummary

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

_AS_REPORTED = (
    *("name", "session", "parent", "status", "cause", "state", "exit_code", "signal"),
    *("started_at", "verdict_at", "settled_at", "duration_s", "tree", "containment"),
)
_LARGEST = (1 << 63) - 1
_ARGV_SHOWN = 1024  # characters; the report has the whole command


def put(connection: sqlite3.Connection, entries: Iterable[RunSummary]) -> None:
    """Write these runs, replacing their old rows. The caller has begun a transaction."""
    runs, reports, labels = [], [], []
    for entry in entries:
        runs.append(_row(entry))
        reports.append({"run_id": entry.run_id, "report": json.dumps(entry.report)})
        own = (entry.report.get("labels") or {}).items()
        labels += [(_plain(label), _plain(value) or "", entry.begun_ns, entry.run_id) for label, value in own]
    connection.executemany(_SQL["forget"], [(run["run_id"],) for run in runs])  # and its report and labels
    connection.executemany(_SQL["put_run"], runs)
    connection.executemany(_SQL["put_report"], reports)
    connection.executemany(_SQL["put_label"], labels)


def entry_of(row: tuple[Any, ...]) -> RunSummary:
    """The summary in a row that the statements `page` and `get` select."""
    run_id, begun_ns, report, problem, journal_bytes, disk_bytes = row
    return RunSummary(run_id, begun_ns, json.loads(report), problem, journal_bytes, disk_bytes)


def _row(entry: RunSummary) -> dict[str, Any]:
    report = entry.report
    output = report.get("output") or {}
    argv = report.get("argv")
    return {
        **{name: _plain(report.get(name)) for name in _AS_REPORTED},
        "run_id": entry.run_id,
        "begun_ns": entry.begun_ns,
        "stdout_bytes": _plain(output.get("stdout_bytes")),
        "stderr_bytes": _plain(output.get("stderr_bytes")),
        "journal_bytes": entry.journal_bytes,
        "disk_bytes": entry.disk_bytes,
        "problem": entry.problem,
        "labels": json.dumps(report.get("labels") or {}),
        "argv": None if argv is None else json.dumps(argv)[:_ARGV_SHOWN],
    }


def _plain(value: Any) -> str | int | float | None:
    """The value in a type that SQLite can hold. A journal that no Holdfast wrote may hold any type for a name."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()  # no lone surrogates
    if isinstance(value, int):
        return max(-_LARGEST, min(value, _LARGEST))
    return value if value is None or isinstance(value, float) else json.dumps(value)
