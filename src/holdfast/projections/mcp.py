"""The outcome as the result of an MCP tool call, and as the state of an MCP task.

A model sees a tool's error result and can act on it, but never sees a protocol error. So every outcome but success is a
result with `isError`. Tasks differ by revision. Since 2026-07-28 a task with a result is `completed`, even when the
result is an error, and only a task without a result is `failed`. Before, a task whose result is an error was `failed`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .verdict_detail import detail, line_of, sentence

if TYPE_CHECKING:
    from typing import Any

    from ..outcome import Outcome

TASKS_2026 = "2026-07-28"
TASKS_2025 = "2025-11-25"

# The status of the task since 2026-07-28, and before.
_TASKS: dict[tuple[str, str | None], tuple[str, str]] = {
    ("succeeded", None): ("completed", "completed"),
    ("failed", None): ("completed", "failed"),
    ("timed_out", None): ("completed", "failed"),
    ("cancelled", None): ("cancelled", "cancelled"),
    ("lost", None): ("failed", "failed"),
}


class McpResult(NamedTuple):
    """The parts of a `CallToolResult`: `isError`, the text for the model, and `structuredContent`."""

    is_error: bool
    text: str
    structured: dict[str, Any]


def mcp_result(outcome: Outcome, run_id: str) -> McpResult:
    """The result of a tool call about the run; a run without a verdict is no error."""
    is_error = outcome.status not in (None, "succeeded")
    structured = {**detail(outcome, run_id), "state": outcome.state, "reason": outcome.reason}
    return McpResult(is_error, sentence(outcome), structured)


def mcp_task(outcome: Outcome, revision: str = TASKS_2026) -> str:
    """The task's status in this protocol revision: `working`, `completed`, `failed` or `cancelled`."""
    if outcome.status is None:
        return "working"
    since_2026, before = line_of(_TASKS, outcome)
    return since_2026 if revision >= TASKS_2026 else before
