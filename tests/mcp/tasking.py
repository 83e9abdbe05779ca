"""A client of the tasks extension."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import anyio
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp_types import CallToolResult, Request, RequestParams, Result
from pydantic import ConfigDict

from holdfast.mcp.tasks import IDENTIFIER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp.client.session import ClientSession


class TaskId(RequestParams):
    task_id: str


class About(Request[TaskId, str]):
    """`tasks/get` and similar requests: over HTTP they carry the task's id in a header."""

    name_param = "taskId"


class Task(Result):
    """A task as the wire has it."""

    model_config = ConfigDict(extra="allow")
    result_type: Literal["task", "complete"] = "complete"

    def __getitem__(self, name: str) -> Any:
        return self.model_dump(by_alias=True)[name]


class NewTask(Task):
    result_type: Literal["task"] = "task"


async def about(session: ClientSession, method: str, task_id: str) -> Task:
    return await session.send_request(About(method=method, params=TaskId(task_id=task_id)), Task)


class TasksClient(ClientExtension):
    """A client that declares the extension; `seen` has every task that it got, and it waits for each to its end."""

    identifier = IDENTIFIER

    def __init__(self) -> None:
        self.seen: list[NewTask] = []
        self.created = anyio.Event()

    def claims(self) -> Sequence[ResultClaim[Any]]:
        return [ResultClaim(result_type="task", model=NewTask, resolve=self._resolve)]

    async def _resolve(self, task: NewTask, ctx: ClaimContext) -> CallToolResult:
        self.seen.append(task)
        self.created.set()
        while True:
            now = await about(ctx.session, "tasks/get", task["taskId"])
            if now["status"] == "completed":
                return CallToolResult.model_validate(now["result"])
            if now["status"] != "working":
                raise RuntimeError(now["statusMessage"])
            with anyio.move_on_after(0.05):  # for this test; a real client waits pollIntervalMs
                await anyio.sleep_forever()
