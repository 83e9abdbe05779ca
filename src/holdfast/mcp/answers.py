"""Tool answers: a run, its output or a list of runs as the result of an MCP tool call."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
from mcp_types import CallToolResult, TextContent

from ..projections.mcp import mcp_result
from ..sessions.words import runs_in_words
from ..state.output_pages import read_page, read_tail
from .answer_models import ChangedRun, ChangesAnswer, ListAnswer, OutputAnswer, RunAnswer, RunLine

if TYPE_CHECKING:
    from typing import Any

    from pydantic import BaseModel

    from ..runs.supervisor import Run
    from ..sessions.changes import RunChange, SessionChanges
    from ..state.directory import StateDirectory
    from .runs import McpRuns


async def run_answer(runs: McpRuns, run: Run, max_bytes: int) -> CallToolResult:
    """The run as it is now, with the last bytes of its output; an error result when it ended but did not succeed.

    RunNotFoundError, JournalError: its record cannot be read.
    """
    # The outcome is taken before the output is read: then the output holds everything up to that outcome.
    outcome, report = run.outcome, run.report
    page = await anyio.to_thread.run_sync(read_tail, runs.state, run.run_id, max_bytes)
    result = mcp_result(outcome, run.run_id)
    counts = report["output"]
    answer = RunAnswer(
        **result.structured,
        argv=report["argv"],
        name=report["name"],
        started_at=report["started_at"],
        duration_s=report["duration_s"],
        waiting_for_input=run.waiting_for_input,
        tree=report["tree"],
        output=page.text,
        output_offset=page.offset,
        output_bytes=page.total,
        truncated=page.offset > 0,
        late_bytes=counts["late_bytes"] or 0,
        dropped_bytes=counts["dropped_bytes"] or 0,
    )
    return tool_result(answer, _in_words(answer, result.text, runs.parting), is_error=result.is_error)


async def output_answer(
    state: StateDirectory, run: Run, offset: int, max_bytes: int, stream: str | None
) -> CallToolResult:
    """A page of the output. Raises the errors of `run_answer`."""
    outcome = run.outcome
    page = await anyio.to_thread.run_sync(read_page, state, run.run_id, offset, max_bytes, stream)
    more = page.next_offset < page.total
    answer = OutputAnswer(
        **mcp_result(outcome, run.run_id).structured,
        text=page.text,
        offset=page.offset,
        next_offset=page.next_offset,
        total_bytes=page.total,
        more=more,
        complete=outcome.state == "settled" and not more,
    )
    follows = f"{page.total - page.next_offset} bytes follow" if more else answer.state
    note = f"[bytes {page.offset} to {page.next_offset}; {follows}]"
    return tool_result(answer, f"{page.text}\n{note}" if page.text else note)


def list_answer(reports: list[dict[str, Any]], cursor: str | None) -> CallToolResult:
    """A list of runs, one line each."""
    lines = [RunLine.model_validate({name: report.get(name) for name in RunLine.model_fields}) for report in reports]
    text = "\n".join(f"{line.run_id} {line.status or line.state}: {' '.join(line.argv or ['?'])}" for line in lines)
    return tool_result(ListAnswer(runs=lines, cursor=cursor), text or "no runs")


def changes_answer(changes: SessionChanges) -> CallToolResult:
    """The changes of a session."""
    runs = [_changed_run(change) for change in changes.runs]
    answer = ChangesAnswer(since=changes.since, runs=runs, left_out=changes.left_out)
    return tool_result(answer, runs_in_words(changes) or "nothing has changed")


def _changed_run(change: RunChange) -> ChangedRun:
    named = {name: change.report.get(name) for name in (*RunLine.model_fields, "reason")}
    tail = change.tail
    return ChangedRun.model_validate(
        {**named, "output": tail.text if tail else "", "truncated": bool(tail and tail.offset)}
    )


def tool_result(answer: BaseModel, text: str, *, is_error: bool = False) -> CallToolResult:
    """A tool result: text for models, and the same as data for programs."""
    content = TextContent(type="text", text=text)
    return CallToolResult(content=[content], structured_content=answer.model_dump(mode="json"), is_error=is_error)


def _in_words(answer: RunAnswer, verdict: str, parting: str | None) -> str:
    head = verdict
    if answer.status is None and parting is not None:
        head = f"{verdict}: the server is stopping, and run {answer.run_id} {parting}; ask the next server how it ended"
    elif answer.status is None:
        head = (
            f"{verdict}: run {answer.run_id} goes on in the background; `wait` or `poll` it, read `output` from offset "
            f"{answer.output_bytes}, or `cancel` it"
        )
        if answer.waiting_for_input:
            head += "\n[it is waiting for input now: `send_input` answers it]"
    elif answer.state != "settled":
        head = f"{verdict} (its processes are still being ended)"
    if answer.truncated:
        head += f"\n[{answer.output_offset} bytes of output before this are not shown: `output` has them from offset 0]"
    return f"{head}\n{answer.output}" if answer.output else head
