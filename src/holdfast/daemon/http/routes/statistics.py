"""Statistics of ended runs over time: outcomes, durations and queue waits, in slices of equal length."""

from __future__ import annotations

import asyncio
import time
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from ....outcome import STATUSES
from ....values.timestamps import format_timestamp
from ....web.problems import INVALID, ProblemError
from ..wire.operation import Operation, OperationCall, answer
from ..wire.types import Time, given
from .filters import ns_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.responses import Response

_DAY_NS = 86_400 * 10**9


class StatisticsQuery(msgspec.Struct, forbid_unknown_fields=True):
    """The span of time (the last day when none is given), and the number of slices."""

    since: Time | UnsetType = UNSET
    until: Time | UnsetType = UNSET
    slices: Annotated[int, Meta(ge=1, le=500)] = 48


class Slice(msgspec.Struct):
    """The runs that began within one slice. Percentiles are in seconds; null when there was no run."""

    at: Time
    outcomes: dict[str, int]
    duration_p50_s: float | None
    duration_p95_s: float | None
    duration_p99_s: float | None
    queue_p50_s: float | None
    queue_p95_s: float | None


class Statistics(msgspec.Struct):
    """Every slice, and all outcomes. `truncated`: there were too many runs, and only the newest are counted."""

    since: Time
    until: Time
    slice_s: float
    slices: list[Slice]
    outcomes: dict[str, int]
    truncated: bool


async def statistics(call: OperationCall) -> Response:
    """Count the runs of the index, anew for each request."""
    query: StatisticsQuery = call.query
    until = ns_of(given(query.until), "until") or time.time_ns()
    since = ns_of(given(query.since), "since")
    since = until - _DAY_NS if since is None else since
    if since >= until or since < 0 or until >= 1 << 62:
        raise ProblemError(INVALID, "since is not before until", field="since")
    rows, truncated = await call.service.ended_between(since, until)
    return answer(await asyncio.to_thread(count, rows, since, until, query.slices, truncated))


def count(rows: Sequence[tuple[Any, ...]], since: int, until: int, slices: int, truncated: bool = False) -> Statistics:
    """Make statistics from rows of (begun_ns, status, duration_s, queued_at, started_at)."""
    width = max(1, -(-(until - since) // slices))
    sorted_in: list[list[tuple[Any, ...]]] = [[] for _ in range(slices)]
    for row in rows:
        sorted_in[min(slices - 1, (row[0] - since) // width)].append(row)
    made = [_slice(since + number * width, inside) for number, inside in enumerate(sorted_in)]
    return Statistics(
        format_timestamp(since), format_timestamp(until), width / 1e9, made, _outcomes(list(rows)), truncated
    )


def _slice(at_ns: int, rows: list[tuple[Any, ...]]) -> Slice:
    durations = sorted(row[2] for row in rows if row[2] is not None)
    waits = sorted(wait for row in rows if (wait := _wait(row[3], row[4])) is not None)
    return Slice(
        at=format_timestamp(at_ns),
        outcomes=_outcomes(rows),
        duration_p50_s=percentile(durations, 0.5),
        duration_p95_s=percentile(durations, 0.95),
        duration_p99_s=percentile(durations, 0.99),
        queue_p50_s=percentile(waits, 0.5),
        queue_p95_s=percentile(waits, 0.95),
    )


def _outcomes(rows: list[tuple[Any, ...]]) -> dict[str, int]:
    found: dict[str, int] = dict.fromkeys(STATUSES, 0)
    for row in rows:
        if row[1] in found:
            found[row[1]] += 1
    return found


def _wait(queued_at: str | None, started_at: str | None) -> float | None:
    if not queued_at or not started_at:
        return None
    try:
        passed = datetime.fromisoformat(started_at) - datetime.fromisoformat(queued_at)
    except (TypeError, ValueError):
        return None
    return round(max(0.0, passed.total_seconds()), 6)


def percentile(ordered: Sequence[float], part: float) -> float | None:
    """A percentile by nearest rank; None when there is no value."""
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else None


OPERATIONS = (
    Operation(
        "GET",
        "/v1/statistics",
        statistics,
        "Outcomes, durations and queue waits of ended runs over time.",
        Statistics,
        query=StatisticsQuery,
        errors=(503,),
    ),
)
