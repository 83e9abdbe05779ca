"""The outcome as the status of an A2A task. A2A spells it CANCELED."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .verdict_detail import detail, line_of, sentence

if TYPE_CHECKING:
    from typing import Any

    from ..outcome import Outcome

_STATES: dict[tuple[str, str | None], str] = {
    ("succeeded", None): "TASK_STATE_COMPLETED",
    ("failed", None): "TASK_STATE_FAILED",
    ("timed_out", None): "TASK_STATE_FAILED",
    ("cancelled", None): "TASK_STATE_CANCELED",
    ("lost", None): "TASK_STATE_FAILED",
}


def a2a_state(outcome: Outcome) -> str:
    """The state of the task, as the protocol's JSON spells it; submitted until the command runs, then working."""
    if outcome.status is not None:
        return line_of(_STATES, outcome)
    return "TASK_STATE_WORKING" if outcome.state == "running" else "TASK_STATE_SUBMITTED"


def a2a_task(outcome: Outcome, run_id: str) -> dict[str, Any]:
    """The `id`, `status` and `metadata` of a task that stands for the run."""
    return {"id": run_id, "status": _status(outcome, run_id), "metadata": detail(outcome, run_id)}


def a2a_status_update(outcome: Outcome, run_id: str, context_id: str) -> dict[str, Any]:
    """The event that tells the status of the task to a stream or a push target."""
    about = {"taskId": run_id, "contextId": context_id}
    return {**about, "status": _status(outcome, run_id), "metadata": detail(outcome, run_id)}


def _status(outcome: Outcome, run_id: str) -> dict[str, Any]:
    message = {"messageId": f"{run_id}-status", "role": "ROLE_AGENT", "parts": [{"text": sentence(outcome)}]}
    return {"state": a2a_state(outcome), "message": message}
