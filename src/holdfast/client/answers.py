"""The daemon's answers as values: events, pages of runs, and reports.

A report is the dict that `Result.report` gives, too.
"""

from __future__ import annotations

from typing import Any, NamedTuple

Report = dict[str, Any]
Reports = list[Report]
Records = list[dict[str, Any]]


class Event(NamedTuple):
    """Something that happened. A stream can go on after `id`; an event without one cannot be asked for again."""

    id: str | None
    type: str
    data: dict[str, Any]


class Page(NamedTuple):
    """Some of the runs, newest first. `cursor` asks for the next page; None after the last one."""

    runs: list[Report]
    cursor: str | None
