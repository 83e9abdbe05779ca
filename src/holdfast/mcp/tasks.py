"""MCP tasks extension: for clients that declare it, an `exec` that goes on in the background becomes a task.

A task is another view of a run: its id is the run id, and its state is a projection of the outcome. Nothing else is
stored, so tasks are as durable as runs. Clients that do not declare the extension never see a task.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver import require_client_extension
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, CallToolResult, RequestParams
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from ..projections.json_rpc import INTERNAL_ERROR
from ..projections.mcp import mcp_task
from ..projections.verdict_detail import detail, sentence
from ..values.errors import HoldfastError
from ..values.timestamps import format_timestamp
from . import limits
from .answers import run_answer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
    from mcp_types import CallToolRequestParams

    from ..runs.supervisor import Run
    from .runs import McpRuns

IDENTIFIER = "io.modelcontextprotocol/tasks"
_MODERN = frozenset(MODERN_PROTOCOL_VERSIONS)
_POLL_MS = 1000


class TaskParams(RequestParams):
    """The id of a task. Other parameters of `tasks/update` answer questions, and a run asks none."""

    task_id: str


class TasksExtension(Extension):
    """`tasks/get`, `tasks/update`, `tasks/cancel`, and a task as the answer of an `exec` that goes on."""

    identifier = IDENTIFIER

    def __init__(self, runs: McpRuns) -> None:
        self._runs = runs

    def methods(self) -> Sequence[MethodBinding]:
        """The methods of the extension, for the protocol revisions that have it."""
        handlers = {"tasks/get": self.get, "tasks/update": self.update, "tasks/cancel": self.cancel}
        return [MethodBinding(method, TaskParams, handler, _MODERN) for method, handler in handlers.items()]

    async def intercept_tool_call(
        self, params: CallToolRequestParams, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        """Answer an `exec` that did not end in time with a task."""
        result = await call_next(ctx)
        if params.name != "exec" or not isinstance(result, CallToolResult) or not _is_declared(ctx):
            return result
        answer = result.structured_content or {}
        if result.is_error or answer.get("status") is not None:
            return result
        async with self._runs.find(answer["run_id"]) as run:
            return {**_task(run), "resultType": "task"}

    async def get(self, ctx: ServerRequestContext[Any, Any], params: TaskParams) -> HandlerResult:
        """The task as it is now, with its result when it is completed."""
        require_client_extension(ctx, IDENTIFIER)
        try:
            async with self._runs.find(params.task_id) as run:
                task = _task(run)
                if task["status"] == "completed":
                    answer = await run_answer(self._runs, run, limits.ANSWER_BYTES)
                    task["result"] = answer.model_dump(mode="json", by_alias=True, exclude_none=True)
                return task
        except HoldfastError as error:
            raise _unknown(error) from error

    async def update(self, ctx: ServerRequestContext[Any, Any], params: TaskParams) -> HandlerResult:
        """Acknowledge the update and do nothing: a run asks no questions. The tool `send_input` gives a run input."""
        require_client_extension(ctx, IDENTIFIER)
        try:
            async with self._runs.find(params.task_id):
                return {}
        except HoldfastError as error:
            raise _unknown(error) from error

    async def cancel(self, ctx: ServerRequestContext[Any, Any], params: TaskParams) -> HandlerResult:
        """Ask the run to end, without waiting for its end."""
        require_client_extension(ctx, IDENTIFIER)
        try:
            async with self._runs.find(params.task_id) as run:
                await run.cancel("the task was cancelled")
                return {}
        except HoldfastError as error:
            raise _unknown(error) from error


def _task(run: Run) -> dict[str, Any]:
    outcome, report = run.outcome, run.report
    status = mcp_task(outcome)
    now = format_timestamp(time.time_ns())  # for a run that is being started at this moment
    created = report["started_at"] or report["verdict_at"] or now
    updated = report["settled_at"] or report["exited_at"] or report["verdict_at"] or created
    task = {
        "taskId": run.run_id,
        "status": status,
        "statusMessage": sentence(outcome),
        "createdAt": created,
        "lastUpdatedAt": updated,
        "ttlMs": None,  # a task lives as long as its run, which lives until it is pruned
        "pollIntervalMs": _POLL_MS,
        "_meta": {"holdfast": detail(outcome, run.run_id)},
    }
    if status == "failed":
        task["error"] = {"code": INTERNAL_ERROR, "message": sentence(outcome), "data": detail(outcome, run.run_id)}
    return task


def _is_declared(ctx: ServerRequestContext[Any, Any]) -> bool:
    capabilities = ctx.session.client_capabilities
    declared = (capabilities.extensions if capabilities else None) or {}
    return ctx.protocol_version in _MODERN and IDENTIFIER in declared


def _unknown(error: HoldfastError) -> MCPError:
    return MCPError(code=INVALID_PARAMS, message=str(error))
