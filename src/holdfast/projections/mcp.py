"""The outcome as the result of an MCP tool call, and as the state of an MCP task.

A model can act on a tool's error result and never sees a protocol error, so every outcome but success is a result
with `isError`. Tasks differ by revision: since 2026-07-28 a task that produced a result has `completed`, also when the
result is an error, and `failed` is for those without one; before that a task whose result is an error has `failed`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .verdicts import detail, line_of, sentence

if TYPE_CHECKING:
    from typing import Any

    from ..outcome import Outcome

TASKS_2026 = "2026-07-28"
TASKS_2025 = "2025-11-25"

# Status of the task since 2026-07-28, and before.
_TASKS: dict[tuple[str, str | None], tuple[str, str]] = {
    ("succeeded", None): ("completed", "completed"),
    ("failed", None): ("completed", "failed"),
    ("timed_out", None): ("completed", "failed"),
    ("cancelled", None): ("cancelled", "cancelled"),
    ("lost", None): ("failed", "failed"),
}


class McpResult(NamedTuple):
    """For `CallToolResult`: `isError`, the text for the model, `structuredContent`."""

    is_error: bool
    text: str
    structured: dict[str, Any]


def mcp_result(outcome: Outcome, run_id: str) -> McpResult:
    """The result of a call that waited for the run; one that did not wait long enough is no error and says so."""
    is_error = outcome.status not in (None, "succeeded")
    structured = {**detail(outcome, run_id), "state": outcome.state, "reason": outcome.reason}
    return McpResult(is_error, sentence(outcome), structured)


def mcp_task(outcome: Outcome, revision: str = TASKS_2026) -> str:
    """`working`, `completed`, `failed` or `cancelled`, in the words of that protocol revision."""
    if outcome.status is None:
        return "working"
    since_2026, before = line_of(_TASKS, outcome)
    return since_2026 if revision >= TASKS_2026 else before
