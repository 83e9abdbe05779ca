"""The A2A door, driven by the `a2a-sdk`: a task is a run, and its state says how the run ended."""

from __future__ import annotations

from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import anyio
import httpx
import pytest
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.client.errors import A2AClientError
from a2a.types import a2a_pb2 as a2a
from a2a.utils import errors
from google.protobuf.json_format import MessageToDict

from ....support.agents import listening, token_of, url_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from a2a.client import Client

    from ....support.agents import TurnedAgent
    from ....support.daemons import Daemon
    from ....support.hooks import Hook

pytestmark = pytest.mark.anyio
COMPLETED, FAILED, CANCELED, WORKING = (
    a2a.TASK_STATE_COMPLETED,
    a2a.TASK_STATE_FAILED,
    a2a.TASK_STATE_CANCELED,
    a2a.TASK_STATE_WORKING,
)


@pytest.fixture
def anyio_backend() -> str:
    """The SDK is asyncio's."""
    return "asyncio"


@asynccontextmanager
async def client_of(running: Daemon, agent: str, *, token: str | None = None, **config: Any) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {token_of(running) if token is None else token}"}
    async with httpx.AsyncClient(headers=headers, timeout=60) as http:
        card = await A2ACardResolver(http, url_of(running, f"/a2a/{agent}")).get_agent_card()
        yield ClientFactory(ClientConfig(httpx_client=http, **config)).create(card)


def message(*texts: str, **more: Any) -> a2a.SendMessageRequest:
    parts = [a2a.Part(text=text) for text in texts]
    sent = a2a.Message(message_id=str(uuid4()), role=a2a.ROLE_USER, parts=parts, **more)
    return a2a.SendMessageRequest(message=sent)


async def sent(client: Client, request: a2a.SendMessageRequest) -> a2a.Task:
    (answer,) = [answer async for answer in client.send_message(request)]
    return answer.task


def answer_of(task: a2a.Task) -> str:
    return "".join(part.text for artifact in task.artifacts for part in artifact.parts)


def detail_of(task: a2a.Task) -> dict[str, Any]:
    found: dict[str, Any] = MessageToDict(task)["metadata"]
    return found


async def in_thread(function: Any, *arguments: Any) -> Any:
    return await anyio.to_thread.run_sync(function, *arguments)


async def test_a_message_becomes_a_task_with_an_answer(state_dir: Path) -> None:
    with listening(state_dir) as running:
        async with client_of(running, "reader", streaming=False) as client:
            assert client._card.description == "reads its prompt"  # type: ignore[attr-defined] # noqa: SLF001
            done = await sent(client, message("one", "two", context_id="talk"))
            assert (done.status.state, answer_of(done), done.context_id) == (COMPLETED, "one\n\ntwo", "talk")
            assert detail_of(done) | {"status": "succeeded", "cause": "exit", "exit_code": 0} == detail_of(done)
            again = await client.get_task(a2a.GetTaskRequest(id=done.id))
            assert again == done
        async with client_of(running, "echo", streaming=False) as client:
            other = await sent(client, message("-x"))
            assert (answer_of(other), other.context_id) == ("you said:  -x", other.id)
            with pytest.raises(errors.TaskNotFoundError):
                await client.get_task(a2a.GetTaskRequest(id=done.id))


@pytest.mark.parametrize(
    ("agent", "detail"),
    [
        ("failing", {"status": "failed", "cause": "exit", "exit_code": 3}),
        ("missing", {"status": "failed", "cause": "spawn"}),
        ("late", {"status": "timed_out", "cause": "deadline"}),
    ],
)
async def test_failures_after_a_restart_too(state_dir: Path, agent: str, detail: dict[str, Any]) -> None:
    def check(task: a2a.Task) -> None:
        assert task.status.state == FAILED
        assert task.status.message.parts[0].text.startswith(f"{detail['status']} ({detail['cause']}): ")
        assert detail.items() <= detail_of(task).items()

    with listening(state_dir) as running:
        async with client_of(running, agent, streaming=False) as client:
            task = await sent(client, message("x"))
            check(task)
            await in_thread(running.wait, task.id)  # settled: a late exit 0 is on record
            check(await client.get_task(a2a.GetTaskRequest(id=task.id)))
    with listening(state_dir) as running:
        async with client_of(running, agent) as client:
            check(await client.get_task(a2a.GetTaskRequest(id=task.id)))
            with pytest.raises(errors.TaskNotCancelableError, match=detail["status"]):
                await client.cancel_task(a2a.CancelTaskRequest(id=task.id))


async def test_cancel(state_dir: Path, waiting: TurnedAgent) -> None:
    with listening(state_dir) as running:
        async with client_of(running, "waiting", streaming=False, polling=True) as client:
            task = await sent(client, message("x"))
            waiting.say("word")
            await in_thread(running.until_output, task.id, b"word")
            assert (await client.get_task(a2a.GetTaskRequest(id=task.id))).status.state == WORKING
            canceled = await client.cancel_task(a2a.CancelTaskRequest(id=task.id))
            assert (canceled.status.state, detail_of(canceled)["cause"]) == (CANCELED, "user")
            with pytest.raises(errors.TaskNotCancelableError):
                await client.cancel_task(a2a.CancelTaskRequest(id=task.id))
            assert (await in_thread(running.wait, task.id))["escalated"] is False


async def test_a_stream_and_a_second_reader(state_dir: Path, waiting: TurnedAgent) -> None:
    with listening(state_dir) as running:
        async with client_of(running, "waiting") as client:
            kinds: list[Any] = []
            texts: list[tuple[str, bool]] = []
            async for update in client.send_message(message("x")):
                kinds.append(update.WhichOneof("payload"))
                if update.HasField("task"):
                    task_id = update.task.id
                    waiting.say("one")
                if update.HasField("artifact_update"):
                    text = update.artifact_update.artifact.parts[0].text
                    texts.append((text, update.artifact_update.append))
                    if text == "one ":
                        # Somebody else who comes later gets all of it, too.
                        follower = client.subscribe(a2a.SubscribeToTaskRequest(id=task_id))
                        first = await anext(follower)
                        assert (first.task.id, first.task.status.state) == (task_id, WORKING)
                    waiting.say("two" if text == "one " else "end")
            assert [kind for kind in kinds if kind != "status_update"] == ["task", "artifact_update", "artifact_update"]
            assert kinds[-1] == "status_update"
            assert (update.status_update.status.state, update.status_update.task_id) == (COMPLETED, task_id)
            assert texts == [("one ", False), ("two ", True)]
            rest = [update async for update in follower]
            assert [update.WhichOneof("payload") for update in rest] == [*["artifact_update"] * 2, "status_update"]
            with pytest.raises(errors.UnsupportedOperationError):
                await anext(client.subscribe(a2a.SubscribeToTaskRequest(id=task_id)))
        async with client_of(running, "late") as client:
            last = [update async for update in client.send_message(message("x"))][-1]
            assert last.status_update.status.state == FAILED
            assert MessageToDict(last)["statusUpdate"]["metadata"]["status"] == "timed_out"


async def test_a_task_goes_on_without_its_client_and_after_a_restart(state_dir: Path, waiting: TurnedAgent) -> None:
    with listening(state_dir, "--on-shutdown", "handoff") as running:
        async with client_of(running, "waiting") as client:
            async with aclosing(client.send_message(message("x"))) as stream:  # type: ignore[type-var]
                task_id = (await anext(stream)).task.id
            waiting.say("one")
            await in_thread(running.until_output, task_id, b"one")
            running.signal()
            assert await in_thread(running.exit_code) == 0
    with listening(state_dir) as running:
        async with client_of(running, "waiting") as client:
            updates = []
            async for update in client.subscribe(a2a.SubscribeToTaskRequest(id=task_id)):
                updates.append(update)
                if update.HasField("artifact_update"):
                    waiting.say("end")
            assert updates[-1].status_update.status.state == COMPLETED


async def test_push_notifications(state_dir: Path, hook: Hook) -> None:
    target = a2a.TaskPushNotificationConfig(url=hook.url)
    with listening(state_dir) as running:
        async with client_of(running, "late", streaming=False, push_notification_config=target) as client:
            task = await sent(client, message("x", context_id="talk"))
            pushed = await in_thread(hook.next)
            update = pushed["statusUpdate"]
            assert (update["taskId"], update["contextId"]) == (task.id, "talk")
            assert update["status"]["state"] == "TASK_STATE_FAILED"
            assert update["metadata"]["status"] == "timed_out"
        secret = a2a.TaskPushNotificationConfig(url=hook.url, token="t")
        async with client_of(running, "echo", streaming=False, push_notification_config=secret) as client:
            with pytest.raises(errors.InvalidParamsError, match="token"):
                await sent(client, message("x"))
            with pytest.raises(errors.UnsupportedOperationError):
                await client.create_task_push_notification_config(target)


async def test_refusals_in_the_words_of_the_protocol(state_dir: Path) -> None:
    with listening(state_dir) as running:
        async with client_of(running, "echo", streaming=False) as client:
            with pytest.raises(errors.TaskNotFoundError):
                await client.get_task(a2a.GetTaskRequest(id="nothing"))
            with pytest.raises(errors.TaskNotFoundError):
                await client.get_task(a2a.GetTaskRequest(id="../x"))
            with pytest.raises(errors.InvalidParamsError, match="empty"):
                await sent(client, message(" "))
            picture = message()
            picture.message.parts.append(a2a.Part(url="https://example.com/x.png"))
            with pytest.raises(errors.ContentTypeNotSupportedError):
                await sent(client, picture)
            done = await sent(client, message("x"))
            with pytest.raises(errors.UnsupportedOperationError):
                await sent(client, message("more", task_id=done.id))
            with pytest.raises(errors.UnsupportedOperationError):
                await client.list_tasks(a2a.ListTasksRequest())

        def call(body: Any, **headers: str) -> tuple[int, int]:
            answer = running.request("POST", "/a2a/echo", body, headers)
            return answer.status, answer.body["error"]["code"]

        rpc = {"jsonrpc": "2.0", "id": 1}
        assert call({**rpc, "method": "Nothing"}) == (200, -32601)
        assert call({**rpc}) == (200, -32600)
        assert call([]) == (200, -32600)
        assert call({**rpc, "method": "GetTask", "params": {"id": "x", "other": 1}}) == (200, -32602)
        assert call({**rpc, "method": "GetTask", "params": {"id": "x"}}, **{"A2A-Version": "0.3"}) == (200, -32009)
        answer = running.request("POST", "/a2a/nobody", {**rpc, "method": "GetTask", "params": {"id": "x"}})
        assert (answer.status, answer.body["id"]) == (404, 1)
        assert running.request("GET", "/a2a/nobody/.well-known/agent-card.json").status == 404


async def test_who_may_ask_a_full_queue_and_a_draining_daemon(state_dir: Path, waiting: TurnedAgent) -> None:
    with listening(state_dir, "--max-runs", "1", "--queue-limit", "0") as running:
        with pytest.raises(Exception, match="401"):
            async with client_of(running, "echo", token="wrong"):
                pass
        rpc = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "x"}}
        async with httpx.AsyncClient() as http:
            refused = await http.post(url_of(running, "/a2a/echo"), json=rpc)
        assert (refused.status_code, refused.json()["error"]["code"]) == (401, -32600)
        async with client_of(running, "waiting", streaming=False, polling=True) as client:
            task = await sent(client, message("x"))
            waiting.say("word")
            await in_thread(running.until_output, task.id, b"word")
            with pytest.raises(A2AClientError, match="429"):
                await sent(client, message("x"))
            running.signal()
            await in_thread(running.until_line, "draining")
            with pytest.raises(A2AClientError, match="503"):
                await sent(client, message("x"))
            body = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]}}
            answer = running.request("POST", "/a2a/echo", {**rpc, "method": "SendMessage", "params": body})
            assert (answer.status, answer.body["error"]["code"]) == (503, -32603)
            assert int(answer.headers["retry-after"]) >= 1
            waiting.say("end")
            assert await in_thread(running.exit_code) == 0
