"""Changes of a session: its live runs, and the runs that ended since it last looked, with the end of their output.

The time of this look is taken before the runs are listed. A run that ends while we list is told at the next look, so
each end is told once.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

from ..state.index.index import Index
from ..state.output_pages import read_tail
from ..values.errors import HoldfastError
from ..values.timestamps import format_timestamp
from .last_look import keep_look, last_look

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from ..state.directory import StateDirectory
    from ..state.index.summary import Filters, RunSummary
    from ..state.output_pages import OutputPage

MOST_RUNS = 20
TAIL_BYTES = 2000
_PAGE = 50
_MOST_PAGES = 40


class RunChange(NamedTuple):
    """A run: its report, its age, and the end of its output; None when the output cannot be read."""

    report: dict[str, Any]
    age_s: float
    tail: OutputPage | None


class SessionChanges(NamedTuple):
    """The changes of a session, newest first. `left_out`: how many runs did not fit."""

    session: str
    since: str | None
    runs: tuple[RunChange, ...]
    left_out: int = 0


def look(state: StateDirectory, filters: Filters, *, but: Collection[str] = ()) -> SessionChanges:
    """The changes since the last look, which this look replaces. `but`: runs that are not told, such as our own.

    StateError: the state directory cannot be used.
    """
    session = filters.session or ""
    since, now = last_look(state, session), format_timestamp(time.time_ns())
    with Index.open(state) as index:
        live = [entry for entry in index.refresh() if filters.matches(entry)]
        ended = [entry for entry in _ended(index, filters) if (since or "") < _verdict(entry) <= now]
    found = [entry for entry in (*live, *ended) if entry.run_id not in but]
    runs = tuple(_change(state, entry) for entry in found[:MOST_RUNS])
    if found:
        keep_look(state, session, now)
    return SessionChanges(session, since, runs, len(found) - len(runs))


def _change(state: StateDirectory, entry: RunSummary) -> RunChange:
    return RunChange(entry.report, (time.time_ns() - entry.begun_ns) / 1e9, _tail(state, entry.run_id))


def _ended(index: Index, filters: Filters) -> Iterator[RunSummary]:
    cursor = None
    for _ in range(_MOST_PAGES):
        page = index.list(filters, _PAGE, cursor)
        yield from page.entries
        if (cursor := page.cursor) is None:
            return


def _verdict(entry: RunSummary) -> str:
    return entry.report.get("verdict_at") or entry.report.get("settled_at") or ""


def _tail(state: StateDirectory, run_id: str) -> OutputPage | None:
    try:
        return read_tail(state, run_id, TAIL_BYTES)
    except (HoldfastError, OSError):
        return None
