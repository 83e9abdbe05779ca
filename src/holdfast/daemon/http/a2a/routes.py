"""Routes of the A2A door: the card of each agent, and the calls that send, show, cancel and follow its tasks.

A task goes on when its client leaves. A task takes exactly one message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from starlette.requests import Request
from starlette.routing import BaseRoute, Route

from ....access.caller import ABOUT, ABOUT_RUN, caller_of
from ....values.errors import HoldfastError
from ....web.problems import NO_RUN, ProblemError
from ....web.request_body import JSON, check_media_type, leave_unread, read
from ...agents.agent_runs import AGENT
from ...agents.push_notification import A2A_DOOR, CONTEXT
from ..access.run_access import check_own, owner_labels
from ..wire.door_stream import DoorStream
from ..wire.idempotency_key import idempotency_key
from ..wire.operation import OperationCall, answer
from .card import PROTOCOL_VERSION, card_of
from .errors import INVALID_REQUEST, NO_METHOD, NOT_CANCELABLE, PARSE, UNSUPPORTED, VERSION, A2aError, respond_in_words
from .request import A2aCall, OneTask, SendMessage, params_of
from .stream import events_of
from .task import task_of

if TYPE_CHECKING:
    from starlette.responses import Response

    from ....web.request_body import BodyBounds
    from ...agents.agent_runs import AgentRuns

PATH = "/a2a"


def routes(runs: AgentRuns, bounds: BodyBounds) -> list[BaseRoute]:
    """The routes of the door."""
    door = A2aDoor(runs, bounds)
    return [
        Route(f"{PATH}/{{agent}}/.well-known/agent-card.json", door.card, methods=["GET"]),
        Route(f"{PATH}/{{agent}}", door.call, methods=["POST"]),
        Route(f"{PATH}/{{agent}}/", door.call, methods=["POST"]),
    ]


class A2aDoor:
    """The operations of the door."""

    def __init__(self, runs: AgentRuns, bounds: BodyBounds) -> None:
        self._runs = runs
        self._bounds = bounds
        self._methods = {
            "SendMessage": self._send,
            "SendStreamingMessage": self._send_streaming,
            "GetTask": self._get,
            "CancelTask": self._cancel,
            "SubscribeToTask": self._subscribe,
        }

    async def card(self, request: Request) -> Response:
        """Show the card of an agent."""
        try:
            agent = self._runs.agent(request.path_params["agent"])
        except HoldfastError as error:
            return respond_in_words(error)
        return answer(card_of(agent, f"{request.base_url}{PATH[1:]}/{agent.name}"))

    async def call(self, request: Request) -> Response:
        """Answer a JSON-RPC call."""
        call_id: str | int | None = None
        try:
            check_media_type(request, (JSON,))
            # The body first: a client that still sends it when the connection is closed never reads the refusal.
            data = await read(request, self._bounds)
            _check_version(request)
            call = _decoded(data)
            call_id = call.id
            self._runs.agent(request.path_params["agent"])
            method = self._methods.get(call.method)
            if method is None:
                raise _unknown(call.method)
            request.scope["state"][ABOUT] = call.method
            return await method(request, call)
        except ProblemError as error:
            if error.unread:
                await leave_unread(request)
            return respond_in_words(error, call_id)
        except (HoldfastError, A2aError) as error:
            return respond_in_words(error, call_id)

    # The methods.

    async def _send(self, request: Request, call: A2aCall) -> Response:
        asked: SendMessage = params_of(call, SendMessage)
        report = await self._submitted(request, asked)
        if not asked.configuration.return_immediately:
            waiting = OperationCall(self._runs.service, request, None, None)
            report = await waiting.while_connected(self._runs.decided(report["run_id"]))
        return _result(call, {"task": await self._task(report)})

    async def _send_streaming(self, request: Request, call: A2aCall) -> Response:
        report = await self._submitted(request, params_of(call, SendMessage))
        return DoorStream(events_of(self._runs, report["run_id"], call.id))

    async def _get(self, request: Request, call: A2aCall) -> Response:
        return _result(call, await self._task(await self._found(request, call)))

    async def _cancel(self, request: Request, call: A2aCall) -> Response:
        report = await self._found(request, call)
        check_own(caller_of(request.scope), report)
        if report["status"] is not None:
            raise A2aError(NOT_CANCELABLE, f"the task is over: {report['status']} ({report['cause']})")
        return _result(
            call, await self._task(await self._runs.service.cancel(report["run_id"], reason="task canceled"))
        )

    async def _subscribe(self, request: Request, call: A2aCall) -> Response:
        report = await self._found(request, call)
        if report["state"] == "settled":
            raise A2aError(UNSUPPORTED, "the task is over: get it instead")
        return DoorStream(events_of(self._runs, report["run_id"], call.id))

    # Shared by the methods.

    async def _submitted(self, request: Request, asked: SendMessage) -> dict[str, Any]:
        message, target = asked.message, asked.configuration.task_push_notification_config
        if message.task_id is not None:
            await self._of_agent(request, message.task_id)
            raise A2aError(UNSUPPORTED, "a task takes one message: send a new one without taskId")
        report = await self._runs.submit(
            request.path_params["agent"],
            message.text,
            door=A2A_DOOR,
            labels={
                **({} if message.context_id is None else {CONTEXT: message.context_id}),
                **owner_labels(caller_of(request.scope)),
            },
            key=idempotency_key(request),
            url=None if target is None else target.url,
        )
        request.scope["state"][ABOUT_RUN] = report["run_id"]
        return report

    async def _found(self, request: Request, call: A2aCall) -> dict[str, Any]:
        asked: OneTask = params_of(call, OneTask)
        return await self._of_agent(request, asked.id)

    async def _of_agent(self, request: Request, run_id: str) -> dict[str, Any]:
        report = await self._runs.report(run_id)
        if report["labels"][AGENT] != request.path_params["agent"]:
            raise ProblemError(NO_RUN, "this is a task of another agent", run_id=run_id)
        request.scope["state"][ABOUT_RUN] = run_id
        return report

    async def _task(self, report: dict[str, Any]) -> dict[str, Any]:
        if report["status"] is not None:
            report = await self._runs.decided(report["run_id"])
        return task_of(report, await self._runs.answer(report))


def _decoded(data: bytes) -> A2aCall:
    try:
        return msgspec.json.decode(data, type=A2aCall)
    except msgspec.ValidationError as error:
        raise A2aError(INVALID_REQUEST, str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise A2aError(PARSE, "the body is not JSON") from None


def _check_version(request: Request) -> None:
    asked = request.headers.get("a2a-version")
    if asked is not None and asked.split(".")[0] != PROTOCOL_VERSION.split(".")[0]:
        raise A2aError(VERSION, f"this door speaks A2A {PROTOCOL_VERSION}")


def _unknown(method: str) -> A2aError:
    if method.endswith(("PushNotificationConfig", "PushNotificationConfigs")):
        return A2aError(UNSUPPORTED, "the target of push notifications is given with the message")
    if method in ("ListTasks", "GetExtendedAgentCard"):
        return A2aError(UNSUPPORTED, f"this door has no {method}")
    return A2aError(NO_METHOD, f"there is no method {method[:80]!r}")


def _result(call: A2aCall, result: dict[str, Any]) -> Response:
    return answer({"jsonrpc": "2.0", "id": call.id, "result": result})
