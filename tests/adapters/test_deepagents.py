"""The backend below deepagents' own agent, with a model that calls its `execute` tool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest
from deepagents import create_deep_agent
from deepagents.backends import LocalShellBackend
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage

from holdfast.adapters.deepagents import HoldfastBackend

from ..support.processes import state_of
from .conftest import daemon_of, end_survivor, first_line

if TYPE_CHECKING:
    from pathlib import Path


class Scripted(GenericFakeChatModel):
    """A model that says what it was given, and takes any tools."""

    def bind_tools(self, *_: Any, **__: Any) -> Scripted:
        return self


def executed(backend: HoldfastBackend | LocalShellBackend, command: str, **arguments: Any) -> ToolMessage:
    """What deepagents tells the model of this command."""
    call = {"name": "execute", "args": {"command": command, **arguments}, "id": "1", "type": "tool_call"}
    script = iter([AIMessage(content="", tool_calls=[call]), AIMessage(content="done")])
    agent = create_deep_agent(Scripted(messages=script), backend=backend)
    messages = agent.invoke({"messages": [("user", "go")]})["messages"]
    (told,) = (message for message in messages if isinstance(message, ToolMessage))
    return told


def test_a_command_of_an_agent(tmp_path: Path) -> None:
    told = executed(HoldfastBackend(tmp_path), "pwd; exit 3")
    assert str(tmp_path) in told.content
    assert told.artifact["exit_code"] == 3


def test_a_timeout_ends_the_tree_and_says_so(tmp_path: Path, stubborn: str) -> None:
    told = executed(HoldfastBackend(tmp_path, grace=0.2), stubborn, timeout=5)
    assert told.artifact["exit_code"] == 124
    assert "timed_out: " in told.content
    assert state_of(daemon_of(str(told.content))) is None


def test_a_daemon_that_a_command_leaves_is_ended(tmp_path: Path, leaves_daemon: str) -> None:
    told = executed(HoldfastBackend(tmp_path, grace=0.2), leaves_daemon)
    assert state_of(daemon_of(str(told.content))) is None


def test_control_with_the_backend_of_deepagents_the_daemon_stays(tmp_path: Path, leaves_daemon: str) -> None:
    told = executed(LocalShellBackend(tmp_path), leaves_daemon)
    end_survivor(daemon_of(str(told.content)))


def test_long_output_is_cut_and_marked(tmp_path: Path) -> None:
    response = HoldfastBackend(tmp_path, max_output=8192).execute("seq 100000")
    assert response.truncated
    assert response.output.startswith("1\n2\n")
    assert response.output.endswith("100000\n")


@pytest.mark.anyio
async def test_a_cancelled_agent_ends_its_command(tmp_path: Path, stubborn_in_file: tuple[str, Path]) -> None:
    line, path = stubborn_in_file
    backend = HoldfastBackend(tmp_path, grace=0.2)
    async with anyio.create_task_group() as group:
        group.start_soon(backend.aexecute, f"{line} wait")
        daemon = daemon_of(await anyio.to_thread.run_sync(first_line, path))
        group.cancel_scope.cancel()
    assert state_of(daemon) is None
