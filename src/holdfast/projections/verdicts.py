"""What all projections share: finding the line of a verdict in a table, and the detail a surface cannot say itself."""

from __future__ import annotations

from ..values.fast_imports import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, TypeVar

    from ..outcome import Outcome

    _Line = TypeVar("_Line")


def line_of(table: Mapping[tuple[str, str | None], _Line], outcome: Outcome) -> _Line:
    """The table's line for this status and cause, or for the status alone; ValueError when there is no verdict yet."""
    if outcome.status is None:
        raise ValueError("this run has no verdict yet: wait for one before asking how it ended")
    if (outcome.status, outcome.cause) in table:
        return table[outcome.status, outcome.cause]
    return table[outcome.status, None]


def detail(outcome: Outcome, run_id: str | None) -> dict[str, Any]:
    """What every surface carries in its metadata, because its own words lose some of it."""
    return {
        "run_id": run_id,
        "status": outcome.status,
        "cause": outcome.cause,
        "exit_code": outcome.exit_code,
        "signal": outcome.signal,
        "escalated": outcome.escalated,
    }


def sentence(outcome: Outcome) -> str:
    """The verdict for people: `timed_out (deadline): deadline of 5s passed; SIGTERM`; the state before there is one."""
    if outcome.status is None:
        return outcome.state
    return f"{outcome.status} ({outcome.cause}): {outcome.reason}"
