"""Stream of an A2A task: the task, then its status when it changes and its answer as it is written."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from ...agents.answer import is_streamed
from ..wire.door_stream import event
from .task import artifact_update, status_update, task_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from ...agents.agent_runs import AgentRuns


async def events_of(runs: AgentRuns, run_id: str, call_id: str | int | None) -> AsyncGenerator[bytes]:
    """Yield the answers to the call as server-sent events, until the run is settled or the daemon stops."""
    async with aclosing(_updates(runs, run_id)) as updates:
        async for update in updates:
            yield event({"jsonrpc": "2.0", "id": call_id, "result": update})


async def _updates(runs: AgentRuns, run_id: str) -> AsyncGenerator[dict[str, Any]]:
    report = await runs.report(run_id)
    yield {"task": task_of(report)}
    was_running = report["started_at"] is not None
    report = await runs.service.started(run_id)
    if not was_running and report["status"] is None:
        yield status_update(report)
    is_open = False
    if is_streamed(runs.rule_of(report)):
        async with aclosing(runs.text(run_id, follow=True)) as pieces:
            async for piece in pieces:
                yield artifact_update(report, piece, append=is_open)
                is_open = True
    report = await runs.service.wait(run_id, until="settled", timeout_s=1e9)
    if report["status"] is None:
        return  # the daemon stops: the client subscribes again at the next daemon
    answer = await runs.answer(report)
    if not is_open and answer.text:
        yield artifact_update(report, answer.text, append=False, last=True)
    yield status_update(report)
