"""Filters of a query for runs, in the form of the index: used by the list, the search and the statistics."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import msgspec

from ....state.index.summary import Filters
from ....web.problems import INVALID, ProblemError
from ..access.run_access import narrowed
from ..wire.types import given

if TYPE_CHECKING:
    from ....access.caller import Caller
    from ..wire.types import RunsQuery

_Instant = Annotated[datetime, msgspec.Meta(tz=True)]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FARTHEST_NS = (1 << 63) - 1  # the largest integer of SQLite


def filters_of(query: RunsQuery, caller: Caller) -> Filters:
    """The filters of a query, in the form of the index, narrowed to the runs that the caller sees. ProblemError."""
    return Filters(
        session=narrowed(caller, given(query.session)),
        parent=given(query.parent),
        name=given(query.name),
        statuses=tuple(query.status),
        causes=tuple(query.cause),
        labels=tuple((name, value) for name, _, value in (label.partition("=") for label in query.label)),
        since_ns=ns_of(given(query.since), "since"),
        until_ns=ns_of(given(query.until), "until"),
    )


def ns_of(text: str | None, field: str) -> int | None:
    """A time of a query, in nanoseconds since 1970; None when it was not given. ProblemError 422: it is no time."""
    if text is None:
        return None
    try:
        since = msgspec.convert(text, _Instant) - _EPOCH
    except msgspec.ValidationError:
        remedy = "write it as RFC 3339 does, with its offset: 2026-01-31T12:00:00Z"
        raise ProblemError(INVALID, f"{field} is no time", field=field, remedy=remedy) from None
    exact = (since.days * 86_400 + since.seconds) * 1_000_000_000 + since.microseconds * 1000
    return max(-_FARTHEST_NS, min(exact, _FARTHEST_NS))
