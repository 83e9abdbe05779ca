"""What a daemon is asked and what it answers, as values. Reports are the dicts that `Result.report` gives, too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

if TYPE_CHECKING:
    from collections.abc import Iterable

Report = dict[str, Any]
Reports = list[Report]
Records = list[dict[str, Any]]


class Event(NamedTuple):
    """Something that happened. `id` is where to go on after it; an event without one cannot be asked for again."""

    id: str | None
    type: str
    data: dict[str, Any]


class Page(NamedTuple):
    """Some of the runs, newest first; `cursor` asks for the next page, None: there is none."""

    runs: list[Report]
    cursor: str | None


class RunFilters(TypedDict, total=False):
    """Which runs are wanted. Of several labels, a run has to have all; of the rest, any."""

    state: str | Iterable[str]
    status: str | Iterable[str]
    cause: str | Iterable[str]
    session: str
    parent: str
    name: str
    label: str | Iterable[str]
    since: str
    until: str


class EventFilters(TypedDict, total=False):
    """Which events are wanted. `output`: also run.output, with what was written; `late`: also after the verdict."""

    types: str | Iterable[str]
    run_id: str
    session: str
    output: bool
    late: bool
