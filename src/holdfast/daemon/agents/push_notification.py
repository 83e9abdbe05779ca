"""Push notification of an A2A task: what the webhook outbox posts when the run of the task has its verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...projections.a2a import a2a_status_update
from ...projections.report import outcome_of
from .agent_runs import DOOR

if TYPE_CHECKING:
    from collections.abc import Mapping

A2A_DOOR = "a2a"
CONTEXT = "a2a.context"


def context_of(report: Mapping[str, Any]) -> str:
    """The context of the task; a task that was sent without one has a context of its own."""
    found: str = report["labels"].get(CONTEXT) or report["run_id"]
    return found


def push_notification(report: Mapping[str, Any]) -> dict[str, Any] | None:
    """The body to post for this verdict; None for a run that is no A2A task."""
    if report["labels"].get(DOOR) != A2A_DOOR:
        return None
    return {"statusUpdate": a2a_status_update(outcome_of(report), report["run_id"], context_of(report))}
