"""Stream of the Responses API: the events of one response, made from the run's record.

Each event has a number, and a client that lost the stream goes on after the last number it has. The numbers need no
memory: an event follows from a fact or from a piece of output in the journal, so the same record gives the same events
every time, even when the next daemon reads it.
"""

from __future__ import annotations

from contextlib import aclosing
from itertools import count
from typing import TYPE_CHECKING, Any

from ....projections.report import outcome_of
from ...agents.answer import AgentAnswer, is_streamed
from ..wire.door_stream import event
from .response import message_of, response_of, text_part

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator, Mapping

    from ...agents.agent_runs import AgentRuns

STARTED = "started"
_QUEUED = ""  # no fact has this kind: `response_of` then shows the response before all facts
_LAST = {"completed": "response.completed", "failed": "response.failed", "cancelled": "response.failed"}


async def events_of(runs: AgentRuns, run_id: str, after: int = -1) -> AsyncGenerator[bytes]:
    """Yield the server-sent events after this number, until the run is settled or the daemon stops."""
    numbers = count()
    async with aclosing(_events(runs, run_id)) as events:
        async for made in events:
            number = next(numbers)
            if number > after:
                yield event({**made, "sequence_number": number}, made["type"])


async def _events(runs: AgentRuns, run_id: str) -> AsyncGenerator[dict[str, Any]]:
    report = await runs.report(run_id)
    for type_ in ("response.created", "response.queued"):
        yield {"type": type_, "response": response_of(report, upto=_QUEUED)}
    report = await runs.service.started(run_id)
    if any(fact["fact"] == STARTED for fact in report["evidence"]):
        yield {"type": "response.in_progress", "response": response_of(report, upto=STARTED)}
    is_open = False
    if is_streamed(runs.rule_of(report)):
        async with aclosing(runs.text(run_id, follow=True)) as pieces:
            async for piece in pieces:
                if not is_open:
                    is_open = True
                    for made in _opened(run_id):
                        yield made
                yield _delta(run_id, piece)
    report = await runs.service.wait(run_id, until="settled", timeout_s=1e9)
    if report["status"] is None:
        return  # the daemon stops: the client goes on at the next daemon
    answer = await runs.answer(report)
    if not is_open and answer.text:
        for made in (*_opened(run_id), _delta(run_id, answer.text)):
            yield made
    for made in _closed(report, answer):
        yield made
    final = response_of(report, answer)
    yield {"type": _LAST[final["status"]], "response": final}


def _opened(run_id: str) -> Iterator[dict[str, Any]]:
    item = {"id": f"msg_{run_id}", "type": "message", "role": "assistant", "status": "in_progress", "content": []}
    yield {"type": "response.output_item.added", "output_index": 0, "item": item}
    yield {"type": "response.content_part.added", **_place(run_id), "part": text_part("")}


def _delta(run_id: str, text: str) -> dict[str, Any]:
    return {"type": "response.output_text.delta", **_place(run_id), "delta": text, "logprobs": []}


def _closed(report: Mapping[str, Any], answer: AgentAnswer) -> Iterator[dict[str, Any]]:
    if answer.text:
        run_id = report["run_id"]
        yield {"type": "response.output_text.done", **_place(run_id), "text": answer.text, "logprobs": []}
        yield {"type": "response.content_part.done", **_place(run_id), "part": text_part(answer.text)}
        item = message_of(run_id, answer.text, outcome_of(report))
        yield {"type": "response.output_item.done", "output_index": 0, "item": item}


def _place(run_id: str) -> dict[str, Any]:
    return {"item_id": f"msg_{run_id}", "output_index": 0, "content_index": 0}
