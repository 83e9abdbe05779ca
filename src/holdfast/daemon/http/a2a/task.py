"""A2A task: the run's outcome as its status, and the agent's answer as its artifact."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....projections.a2a import a2a_status_update, a2a_task
from ....projections.report import outcome_of
from ...agents.push_notification import context_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...agents.answer import AgentAnswer


def task_of(report: Mapping[str, Any], answer: AgentAnswer | None = None) -> dict[str, Any]:
    """The task for this report; with its answer, if there is one."""
    run_id = report["run_id"]
    task = {**a2a_task(outcome_of(report), run_id), "contextId": context_of(report)}
    at = report["verdict_at"] or report["started_at"] or report["queued_at"]
    task["status"] |= {} if at is None else {"timestamp": at}
    if answer is not None and answer.problem is not None:
        task["metadata"]["answer_problem"] = answer.problem
    if answer is not None and answer.text:
        task["artifacts"] = [artifact_of(run_id, answer.text)]
    return task


def artifact_of(run_id: str, text: str) -> dict[str, Any]:
    """The answer, or a piece of it, as an artifact."""
    return {"artifactId": f"{run_id}-answer", "name": "answer", "parts": [{"text": text}]}


def status_update(report: Mapping[str, Any]) -> dict[str, Any]:
    """The update that says how the task is now."""
    return {"statusUpdate": a2a_status_update(outcome_of(report), report["run_id"], context_of(report))}


def artifact_update(report: Mapping[str, Any], text: str, *, append: bool, last: bool = False) -> dict[str, Any]:
    """The update that carries a piece of the answer."""
    run_id = report["run_id"]
    about = {"taskId": run_id, "contextId": context_of(report), "append": append, "lastChunk": last}
    return {"artifactUpdate": {**about, "artifact": artifact_of(run_id, text)}}
