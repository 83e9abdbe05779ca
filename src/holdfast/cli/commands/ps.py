"""`holdfast ps`: list the runs, live ones or all, as a table or as JSON."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, NamedTuple

from ...outcome import STATUSES
from ...state.index.summary import newest_first, read_live_summaries
from ...values.durations import parse_duration
from ...values.errors import StateError, StateVersionError
from ...values.run_id import short_id
from ...wording.plain import ago, command_line, span
from ...wording.rows import exit_text, nested, ports_text, state_cell
from ..lookup.selection import LABEL, SESSION, filters_of, open_index, queued_entries
from ..parsing.command import JSON, Command, die_with_reader, no_words, put, used_state
from ..parsing.options import Option, UsageError
from ..parsing.points_in_time import since
from ..printing import messages, table
from ..printing.table import Column
from ..printing.templates import FORMAT, show_as

if TYPE_CHECKING:
    from collections.abc import Collection

    from ...state.directory import StateDirectory
    from ...state.index.summary import Filters, RunSummary
    from ...wording.rows import Cell
    from ..parsing.options import CommandLine

_CAUSES = tuple(dict.fromkeys(cause for causes in STATUSES.values() for cause in causes))
_COLUMNS = (
    Column("RUN"),
    Column("STATE"),
    Column("EXIT", right=True, left_out=2),
    Column("BEGUN", left_out=3),
    Column("TIME", right=True, left_out=4),
    Column("PORTS", left_out=6),
    Column("SESSION", cut=True, left_out=5),
    Column("NAME", cut=True, left_out=1),
    Column("COMMAND", cut=True),
)
_HOST = Column("HOST", cut=True)  # shown if a run is on another host
_HOST_AT = 5
_LIMIT = 200
_CLEAR = "\x1b[H\x1b[2J"


def act(given: CommandLine) -> int:
    no_words(given, "ps")
    _check_words(given, "--status", STATUSES)
    _check_words(given, "--cause", _CAUSES)
    filters = filters_of(given)._replace(since_ns=since(given.last("--since")))
    query = _Query(filters, _limit(given), _wants_all(given))
    die_with_reader()
    if given.has("--watch"):
        return _watch(given, query)
    _show(given, _list(given, query))
    return 0


def _check_words(given: CommandLine, flag: str, known: Collection[str]) -> None:
    unknown = [word for text in given.all(flag) for word in text.split(",") if word not in known]
    if unknown:
        raise UsageError(f"{flag} {unknown[0]!r} is unknown", remedy=f"use one of {', '.join(known)}")


class _Query(NamedTuple):
    """Which runs to list: the filters, the largest number of ended runs, and whether ended runs are listed at all."""

    filters: Filters
    limit: int
    ended: bool


def _list(given: CommandLine, query: _Query) -> list[RunSummary]:
    """The matching runs, newest first."""
    state = used_state(given)
    if state is None:
        return []
    # Read the queue first: a run that begins between the two reads is then in both lists, and not in none.
    queued = queued_entries(state, query.filters, query.limit or None)
    found = _history(state, query) if query.ended else _live(state, query.filters)
    return newest_first([*found, *(entry for entry in queued if not state.has(entry.run_id))])


def _live(state: StateDirectory, filters: Filters) -> list[RunSummary]:
    try:
        with open_index(state) as index:
            return [entry for entry in index.refresh() if filters.matches(entry)]
    except StateVersionError:
        raise
    except StateError as error:
        messages.say(f"the history is not brought up to date: {error}")
        return [entry for entry in read_live_summaries(state) if not entry.final and filters.matches(entry)]


def _history(state: StateDirectory, query: _Query) -> list[RunSummary]:
    with open_index(state) as index:
        entries = [entry for entry in index.refresh() if query.filters.matches(entry)]
        page = index.list(query.filters, query.limit or max(1, index.count()))
    if page.cursor is not None:
        messages.say(f"only the newest {query.limit} ended runs are shown: --limit 0 shows all")
    live = {entry.run_id for entry in entries}
    return entries + [entry for entry in page.entries if entry.run_id not in live]


def _wants_all(given: CommandLine) -> bool:
    return given.has("--all") or given.has("--status") or given.has("--cause")


def _limit(given: CommandLine) -> int:
    text = given.last("--limit")
    if text is None:
        return _LIMIT
    if not (text.isascii() and text.isdigit()):
        raise UsageError(f"--limit {text!r} is not a number", remedy="give how many ended runs to show; 0 is all")
    return int(text)


def _show(given: CommandLine, entries: list[RunSummary]) -> None:
    if (form := "json" if given.has("--json") else given.last("--format")) is not None:
        show_as(form, [{"queue": None, **entry.shown(), "guard": entry.guard} for entry in entries])
        return
    if given.has("--quiet"):
        put("".join(f"{entry.run_id}\n" for entry in entries))
        return
    rows = nested(entries, lambda entry: entry.report) if given.has("--tree") else [(entry, "") for entry in entries]
    columns, cells = list(_COLUMNS), [_row(entry, indent) for entry, indent in rows]
    hosts = [entry.report.get("host") for entry, _ in rows]
    if any(host not in (None, os.uname().nodename) for host in hosts):  # otherwise the column would say nothing
        columns.insert(_HOST_AT, _HOST)
        for row, host in zip(cells, hosts, strict=True):
            row.insert(_HOST_AT, host or "-")
    table.show_table(columns, cells)
    for entry in entries:
        if entry.problem is not None:
            messages.say(f"run {entry.run_id}: {entry.problem}")


def _row(entry: RunSummary, indent: str) -> list[Cell | str]:
    report = entry.shown()
    # A terminal has people, who type an id again; a pipe has programs, which compare it.
    return [
        indent + (short_id(entry.run_id) if os.isatty(1) else entry.run_id),
        state_cell(report),
        exit_text(report),
        ago(entry.begun_ns or None, time.time_ns()),
        _time(entry),
        ports_text(report.get("ports")),
        report.get("session") or "-",
        report.get("name") or "-",
        command_line(report.get("argv")),
    ]


def _time(entry: RunSummary) -> str:
    if entry.report.get("duration_s") is not None or entry.final:
        return span(entry.report.get("duration_s"))
    return span(max(0.0, time.time() - entry.begun_ns / 1e9))


def _watch(given: CommandLine, query: _Query) -> int:
    interval_s = parse_duration(given.last("--interval") or "1s", field="--interval")
    if interval_s < 0.1:
        raise UsageError("--interval is too short", remedy="100ms is the shortest")
    try:
        while True:
            try:
                entries = _list(given, query)
            except StateError as error:
                messages.say(str(error))  # and try again after the interval: the index may be busy for a moment
                entries = []
            if os.isatty(1):
                put(_CLEAR)
            _show(given, entries)
            time.sleep(interval_s)
    except KeyboardInterrupt:
        return 0


COMMAND = Command(
    "ps [OPTIONS]",
    "List live and queued runs, newest first; with --all, ended runs too.",
    (
        Option("--all", None, "list ended runs too", short="a"),
        Option("--quiet", None, "print only the ids", short="q"),
        Option("--since", "WHEN", "only runs begun since then: 10m (ago), or 2026-01-31T12:00:00Z"),
        SESSION,
        Option("--status", "STATUS", f"only runs with this status: {', '.join(STATUSES)}", many=True),
        Option("--cause", "CAUSE", "only runs that ended for this cause: exit, deadline, user, ...", many=True),
        LABEL,
        Option("--name", "NAME", "only runs of this name"),
        Option(
            "--limit",
            "COUNT",
            f"list at most this many ended and queued runs; 0 lists all (default {_LIMIT})",
            short="n",
        ),
        Option("--tree", None, "show nested runs below the run that started them"),
        Option("--watch", None, "list again and again, until Ctrl-C"),
        Option("--interval", "DURATION", "the time between two looks of --watch (default 1s)"),
        FORMAT,
        JSON,
    ),
    act,
    "--status and --cause mean --all: a run has neither before its verdict.\n"
    "On a terminal RUN is the end of an id, which is enough to name the run; --quiet and --json have whole ids.\n",
)
