"""Routes of the OpenAI door: models are agents; create, retrieve, cancel and stream responses.

A response without `background` ends with its connection, as that API has it: a client that leaves cancels the run. A
background response goes on without its client.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from starlette.requests import ClientDisconnect, Request
from starlette.routing import BaseRoute, Route

from ....access.caller import ABOUT_RUN, caller_of
from ....values.errors import HoldfastError, SpecError
from ....web.problems import INVALID, NOT_FOUND, ProblemError
from ....web.request_body import JSON, check_media_type, decode, leave_unread, read
from ..access.run_access import check_own, owner_labels
from ..wire.door_stream import DoorStream
from ..wire.idempotency_key import idempotency_key
from ..wire.operation import OperationCall, answer
from .errors import respond_in_words
from .request import CreateResponse
from .response import BACKGROUND, METADATA, response_of, run_of
from .stream import events_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.responses import Response

    from ....config import Agent
    from ....web.request_body import BodyBounds
    from ...agents.agent_runs import AgentRuns

PATH = "/openai/v1"
DOOR = "responses"
_LEFT = "the client of the response disconnected"


def routes(runs: AgentRuns, bounds: BodyBounds) -> list[BaseRoute]:
    """The routes of the door."""
    door = OpenAiDoor(runs, bounds)
    return [
        Route(f"{PATH}/models", _in_words(door.models), methods=["GET"]),
        Route(f"{PATH}/models/{{name}}", _in_words(door.model), methods=["GET"]),
        Route(f"{PATH}/responses", _in_words(door.create), methods=["POST"]),
        Route(f"{PATH}/responses/{{response}}", _in_words(door.retrieve), methods=["GET"]),
        Route(f"{PATH}/responses/{{response}}/cancel", _in_words(door.cancel), methods=["POST"]),
        Route(f"{PATH}/{{rest:path}}", _in_words(door.nothing), methods=["GET", "POST", "PUT", "PATCH", "DELETE"]),
    ]


def _in_words(handler: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        try:
            return await handler(request)
        except ProblemError as error:
            if error.unread:
                await leave_unread(request)
            return respond_in_words(error)
        except HoldfastError as error:
            return respond_in_words(error)

    return endpoint


class OpenAiDoor:
    """The operations of the door."""

    def __init__(self, runs: AgentRuns, bounds: BodyBounds) -> None:
        self._runs = runs
        self._bounds = bounds

    async def models(self, _request: Request) -> Response:
        """List the agents."""
        return answer({"object": "list", "data": [_model(agent) for agent in self._runs.agents()]})

    async def model(self, request: Request) -> Response:
        """Show an agent."""
        return answer(_model(self._runs.agent(request.path_params["name"])))

    async def create(self, request: Request) -> Response:
        """Queue a run of the agent; answer at once, at its end, or with its events."""
        check_media_type(request, (JSON,))
        asked: CreateResponse = decode(await read(request, self._bounds), CreateResponse)
        if asked.store is False:
            raise ProblemError(INVALID, "every run is on record", field="store", remedy="leave store out")
        labels = {f"{METADATA}{name}": text for name, text in (asked.metadata or {}).items()}
        labels |= {BACKGROUND: "true" if asked.background else "false", **owner_labels(caller_of(request.scope))}
        key = idempotency_key(request)
        report = await self._runs.submit(asked.model, asked.prompt, door=DOOR, labels=labels, key=key)
        run_id = request.scope["state"][ABOUT_RUN] = report["run_id"]
        if asked.stream:
            on_leave = None if asked.background else lambda: self._left(run_id)
            return DoorStream(events_of(self._runs, run_id), on_leave)
        if asked.background:
            return answer(response_of(report))
        return await self._finished(request, run_id)

    async def retrieve(self, request: Request) -> Response:
        """Show a response, or send its events from the start or after a number."""
        report = await self._runs.report(run_of(request.path_params["response"]))
        query = request.query_params
        if query.get("stream") == "true":
            return DoorStream(events_of(self._runs, report["run_id"], _number(query.get("starting_after"))))
        return await self._shown(report)

    async def cancel(self, request: Request) -> Response:
        """Ask the run to end. A run that has its verdict keeps its outcome and its grace."""
        await read(request, self._bounds)  # there is nothing in it, but a client that sends it must get rid of it
        report = await self._runs.report(run_of(request.path_params["response"]))
        request.scope["state"][ABOUT_RUN] = report["run_id"]
        check_own(caller_of(request.scope), report)
        if report["status"] is None:
            report = await self._runs.service.cancel(report["run_id"], reason="cancelled as a response")
        return await self._shown(report)

    async def nothing(self, request: Request) -> Response:
        """Say that there is no such operation."""
        raise ProblemError(NOT_FOUND, f"this door has no {request.method} {request.url.path[:200]}", unread=True)

    async def _shown(self, report: dict[str, Any]) -> Response:
        if report["status"] is not None:
            report = await self._runs.decided(report["run_id"])
        return answer(response_of(report, await self._runs.answer(report)))

    async def _finished(self, request: Request, run_id: str) -> Response:
        try:
            call = OperationCall(self._runs.service, request, None, None)
            return await self._shown(await call.while_connected(self._runs.decided(run_id)))
        except ClientDisconnect:
            await self._left(run_id)
            raise

    async def _left(self, run_id: str) -> None:
        # Connections also end when the daemon stops: then the run belongs to the next daemon.
        if await self._runs.service.pause(0.0):
            await asyncio.shield(self._runs.service.cancel(run_id, reason=_LEFT))


def _model(agent: Agent) -> dict[str, Any]:
    return {"id": agent.name, "object": "model", "created": 0, "owned_by": "holdfast"}


def _number(text: str | None) -> int:
    if text is None:
        return -1
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise SpecError("starting_after is not a number", field="starting_after", remedy="give a sequence_number")
    return int(text)
