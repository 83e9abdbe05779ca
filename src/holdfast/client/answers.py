"""The daemon's answers as values: events, pages of runs, and reports.

A report is the same dict as `Result.report`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

Report = dict[str, Any]
Reports = list[Report]
Records = list[dict[str, Any]]


class Event(NamedTuple):
    """Something that happened. A new stream can begin after the event with this `id`; not when the `id` is None."""

    id: str | None
    type: str
    data: dict[str, Any]


class Page(NamedTuple):
    """Some of the runs, newest first. `cursor` asks for the next page; it is None on the last page."""

    runs: list[Report]
    cursor: str | None
