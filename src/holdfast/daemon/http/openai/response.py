"""Response object of the Responses API: the run's outcome in its words, and the agent's answer as its output."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from ....outcome import decide
from ....projections.report import facts_of
from ....projections.responses import responses
from ...agents.agent_runs import AGENT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ....outcome import Outcome
    from ...agents.answer import AgentAnswer

PREFIX = "resp_"
BACKGROUND, METADATA = "responses.background", "metadata."


def response_id(run_id: str) -> str:
    """The id of the response that stands for this run."""
    return f"{PREFIX}{run_id}"


def run_of(found: str) -> str:
    """The run id in the id of a response: the id without its prefix. Whether there is such a run is not checked."""
    return found.removeprefix(PREFIX)


def response_of(
    report: Mapping[str, Any], answer: AgentAnswer | None = None, upto: str | None = None
) -> dict[str, Any]:
    """The response for this report. With `upto`, its status is that right after this fact, as in an earlier event."""
    outcome = _outcome(report, upto)
    run_id, labels = report["run_id"], report["labels"]
    projected = responses(outcome, run_id)
    asked = {name.removeprefix(METADATA): text for name, text in labels.items() if name.startswith(METADATA)}
    problem = {} if answer is None or answer.problem is None else {"answer_problem": answer.problem}
    return {
        "id": response_id(run_id),
        "object": "response",
        "created_at": _seconds(report["queued_at"] or report["started_at"]),
        "completed_at": _seconds(report["verdict_at"]) if projected["status"] == "completed" else None,
        "model": labels[AGENT],
        "status": projected["status"],
        "background": labels.get(BACKGROUND) == "true",
        "error": projected["error"],
        "incomplete_details": None,
        "instructions": None,
        "metadata": {**asked, **problem, **projected["metadata"]},
        "output": [] if answer is None or not answer.text else [message_of(run_id, answer.text, outcome)],
        "parallel_tool_calls": False,
        "tool_choice": "none",
        "tools": [],
    }


def message_of(run_id: str, text: str, outcome: Outcome) -> dict[str, Any]:
    """The answer as an output item. Only the answer of a run that succeeded is complete."""
    status = "in_progress" if outcome.status is None else "completed" if outcome.status == "succeeded" else "incomplete"
    item = {"id": f"msg_{run_id}", "type": "message", "role": "assistant", "status": status}
    return {**item, "content": [text_part(text)]}


def text_part(text: str) -> dict[str, Any]:
    """The text as the content of a message."""
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _outcome(report: Mapping[str, Any], upto: str | None) -> Outcome:
    facts = facts_of(report)
    if upto is not None:
        place = next((place for place, fact in enumerate(facts) if fact.kind == upto), -1)
        facts = facts[: place + 1]
    return decide(facts)


def _seconds(text: str | None) -> float:
    return 0.0 if text is None else datetime.fromisoformat(text).timestamp()
