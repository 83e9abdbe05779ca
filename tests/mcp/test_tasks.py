"""The tasks extension, with a client that declares it and with one that does not."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import anyio
import pytest
from mcp.shared.exceptions import MCPError

from holdfast.mcp.tasks import IDENTIFIER

from .serving import BOUND_S, answer_of, report_of
from .tasking import NewTask, TasksClient, about

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from ..support.children import Children
    from .serving import Caller, HttpServer

pytestmark = pytest.mark.anyio


@pytest.fixture
def extension() -> TasksClient:
    return TasksClient()


@pytest.fixture
async def tasks(server: HttpServer, extension: TasksClient) -> AsyncIterator[Caller]:
    async with server.client(extensions=[extension]) as caller:
        yield caller


async def slow(caller: Caller, gate: Path) -> str:
    """A task of a command that waits for the gate."""
    os.mkfifo(gate)
    arguments = {"command": f"echo begun; read line <{gate}; exit 5", "wait_s": 0.1}
    task = await caller.client.session.call_tool("exec", arguments, allow_claimed=True)
    assert isinstance(task, NewTask)
    return str(task["taskId"])


async def test_a_command_that_ends_in_time_is_no_task(tasks: Caller, extension: TasksClient) -> None:
    assert IDENTIFIER in (tasks.client.server_capabilities.extensions or {})
    assert (await tasks("exec", argv=["true"])).verdict == ("succeeded", "exit", 0)
    assert extension.seen == []


async def test_one_that_takes_longer_is(
    tasks: Caller, extension: TasksClient, server: HttpServer, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    answers = []
    async with anyio.create_task_group() as group:

        async def run() -> None:
            command = f"echo begun; read line <{gate}; exit 5"
            answers.append(answer_of(await tasks.client.call_tool("exec", {"command": command, "wait_s": 0.1})))

        group.start_soon(run)
        with anyio.fail_after(BOUND_S):
            await extension.created.wait()
        (task,) = extension.seen
        assert (task["status"], task["ttlMs"], task["pollIntervalMs"]) == ("working", None, 1000)
        assert report_of(server.state, task["taskId"])["state"] == "running"  # the task exists before its id is sent
        os.close(await anyio.to_thread.run_sync(os.open, gate, os.O_WRONLY))
    assert answers[0].verdict == ("failed", "exit", 5)
    assert answers[0].is_error
    assert answers[0]["run_id"] == task["taskId"]
    assert answers[0]["output"] == "begun\n"


async def test_cancelling_a_task_ends_the_run(tasks: Caller, call: Caller, tmp_path: Path) -> None:
    task_id = await slow(tasks, tmp_path / "gate")
    session = tasks.client.session
    assert (await about(session, "tasks/update", task_id)).result_type == "complete"
    await about(session, "tasks/cancel", task_id)
    waited = await call("wait", run_id=task_id)
    assert (waited["status"], waited["cause"]) == ("cancelled", "user")
    task = await about(session, "tasks/get", task_id)
    assert task["status"] == "cancelled"
    assert "result" not in task.model_dump()
    assert task["_meta"]["holdfast"]["cause"] == "user"


async def test_a_lost_run_is_a_failed_task(tasks: Caller, call: Caller, server: HttpServer, tmp_path: Path) -> None:
    task_id = await slow(tasks, tmp_path / "gate")
    started = next(fact for fact in report_of(server.state, task_id)["evidence"] if fact["fact"] == "started")
    os.kill(started["guard_pid"], signal.SIGKILL)
    assert (await call("wait", run_id=task_id))["status"] == "lost"
    task = await about(tasks.client.session, "tasks/get", task_id)
    assert (task["status"], task["error"]["code"]) == ("failed", -32603)


async def test_a_timed_out_run_is_a_completed_task_with_an_error_result(tasks: Caller, child: Children) -> None:
    answer = await tasks("exec", argv=child("exits_on_term", 0), timeout_s=1, wait_s=0)
    assert answer.verdict == ("timed_out", "deadline", 0)
    assert answer.is_error


async def test_tasks_that_are_none(tasks: Caller) -> None:
    for method in ("tasks/get", "tasks/update", "tasks/cancel"):
        with pytest.raises(MCPError, match="there is no run 'nonsense' here") as caught:
            await about(tasks.client.session, method, "nonsense")
        assert caught.value.code == -32602


async def test_clients_that_do_not_declare_it_get_no_task(call: Caller, tasks: Caller) -> None:
    answer = await call("exec", argv=["sleep", "600"], wait_s=0)
    assert (answer["status"], answer.is_error) == (None, False)
    with pytest.raises(MCPError) as caught:
        await about(call.client.session, "tasks/get", answer["run_id"])
    assert caught.value.code == -32021
    # The control: the same run, asked about by a client that declares the extension.
    assert (await about(tasks.client.session, "tasks/get", answer["run_id"]))["status"] == "working"
    await call("cancel", run_id=answer["run_id"])
