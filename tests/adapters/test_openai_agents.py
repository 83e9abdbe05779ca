"""The executor inside the SDK's own runner, with a model that asks for shell calls."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from agents import (
    Agent,
    ModelResponse,
    RunConfig,
    Runner,
    ShellCallOutcome,
    ShellCommandOutput,
    ShellCommandRequest,
    ShellResult,
    ShellTool,
    Usage,
)
from agents.models.interface import Model, ModelProvider
from openai.types.responses import ResponseOutputMessage, ResponseOutputText
from openai.types.responses.response_function_shell_tool_call import Action, ResponseFunctionShellToolCall

from holdfast.adapters.openai_agents import ShellExecutor

from ..support.processes import state_of
from .conftest import daemon_of, end_survivor

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from agents import TResponseStreamEvent

pytestmark = pytest.mark.anyio


class AsksOnce(Model, ModelProvider):
    """A model that asks for one shell call, reads its output, and ends."""

    def __init__(self, action: Action) -> None:
        self.action = action
        self.told: list[Any] = []

    def get_model(self, model_name: str | None) -> Model:  # noqa: ARG002
        return self

    async def get_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> ModelResponse:  # noqa: A002, ARG002
        self.told = input
        call = ResponseFunctionShellToolCall(
            id="item", call_id="call", type="shell_call", status="completed", action=self.action
        )
        text = ResponseOutputText(text="done", type="output_text", annotations=[])
        end = ResponseOutputMessage(id="end", content=[text], role="assistant", status="completed", type="message")
        is_first = isinstance(input, str) or len(input) == 1
        return ModelResponse(output=[call if is_first else end], usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[TResponseStreamEvent]:
        raise NotImplementedError

    async def ask(self, executor: Any) -> list[dict[str, Any]]:
        """What the SDK tells the model of the shell call."""
        agent = Agent(name="agent", tools=[ShellTool(executor=executor)])
        run_config = RunConfig(model_provider=self, tracing_disabled=True)
        await Runner.run(agent, "go", run_config=run_config)
        (told,) = (item for item in self.told if item.get("type") == "shell_call_output")
        output: list[dict[str, Any]] = told["output"]
        return output


async def test_an_exit() -> None:
    model = AsksOnce(Action(commands=["echo out; echo err >&2; exit 3", "pwd"]))
    first, second = await model.ask(ShellExecutor(cwd="/"))
    assert first["stdout"] == "out\n"
    assert first["stderr"] == "err\n"
    assert first["outcome"] == {"type": "exit", "exit_code": 3}
    assert second["stdout"] == "/\n"


async def test_a_timeout_ends_the_tree_and_keeps_the_output(stubborn: str) -> None:
    model = AsksOnce(Action(commands=[stubborn, "echo never"], timeout_ms=5000))
    (only,) = await model.ask(ShellExecutor(grace=0.2))
    assert only["outcome"]["type"] == "timeout"
    assert state_of(daemon_of(only["stdout"])) is None


async def test_a_command_that_never_starts_is_told_to_the_model() -> None:
    (only,) = await AsksOnce(Action(commands=["true"])).ask(ShellExecutor(cwd="/no/such/directory"))
    assert only["outcome"]["type"] == "exit"
    assert only["outcome"]["exit_code"] != 0


async def test_control_with_an_executor_that_kills_the_process_the_daemon_stays(stubborn: str) -> None:
    """The SDK has no executor of its own. This one does what its documentation shows."""

    async def execute(request: ShellCommandRequest) -> ShellResult:
        (command,) = request.data.action.commands
        process = await asyncio.create_subprocess_shell(command, stdout=asyncio.subprocess.PIPE)
        assert process.stdout is not None
        said = await process.stdout.readline()
        process.kill()
        await process.wait()
        outcome = ShellCallOutcome(type="timeout")
        return ShellResult(output=[ShellCommandOutput(stdout=said.decode(), outcome=outcome)])

    (only,) = await AsksOnce(Action(commands=[f"exec {stubborn.split('; ')[1]}"])).ask(execute)
    end_survivor(daemon_of(only["stdout"]))
