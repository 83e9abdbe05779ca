"""Shared parts of the projections: table lookup by status and cause, the verdict's detail, and its sentence."""

from __future__ import annotations

from ..values.fast_imports import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, TypeVar

    from ..outcome import Outcome

    _Line = TypeVar("_Line")


def line_of(table: Mapping[tuple[str, str | None], _Line], outcome: Outcome) -> _Line:
    """The table's line for this status and cause, else for the status alone. ValueError before the verdict."""
    if outcome.status is None:
        raise ValueError("this run has no verdict yet: wait for one before asking how it ended")
    if (outcome.status, outcome.cause) in table:
        return table[outcome.status, outcome.cause]
    return table[outcome.status, None]


def detail(outcome: Outcome, run_id: str | None) -> dict[str, Any]:
    """The verdict as metadata: every surface carries it, because its own words lose a part."""
    return {
        "run_id": run_id,
        "status": outcome.status,
        "cause": outcome.cause,
        "exit_code": outcome.exit_code,
        "signal": outcome.signal,
        "escalated": outcome.escalated,
    }


def sentence(outcome: Outcome) -> str:
    """The verdict as text: `timed_out (deadline): deadline of 5s passed; SIGTERM`; the state before the verdict."""
    if outcome.status is None:
        return outcome.state
    return f"{outcome.status} ({outcome.cause}): {outcome.reason}"
