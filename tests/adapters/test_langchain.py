"""The policy below LangChain's own agent and shell tool."""

from __future__ import annotations

import gc
import subprocess as standard
import time
import warnings
from typing import TYPE_CHECKING, Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HostExecutionPolicy, ShellToolMiddleware
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage

from holdfast.adapters.langchain import HoldfastExecutionPolicy
from holdfast.compat import child, subprocess

from ..support.processes import wait_exited
from .conftest import daemon_of, end_survivor, first_line

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")


class Scripted(GenericFakeChatModel):
    """A model that says what it was given, and takes any tools."""

    def bind_tools(self, *_: Any, **__: Any) -> Scripted:
        return self


@pytest.fixture(autouse=True)
def waited_for(nothing_left_behind: None) -> Iterator[None]:  # noqa: ARG001 - this ends before that one looks
    """Take in the ends of shells that LangChain killed and did not wait for, as the next process would."""
    yield
    gc.collect()
    end = time.monotonic() + 30
    while (child._ending or standard._active) and time.monotonic() < end:  # type: ignore[attr-defined]  # noqa: SLF001
        subprocess.run(["true"], check=True)


def told(policy: HoldfastExecutionPolicy | HostExecutionPolicy, workspace: Path, *commands: str) -> list[ToolMessage]:
    """What LangChain tells the model of these commands, which share one shell."""
    calls = [
        AIMessage(
            content="", tool_calls=[{"name": "shell", "args": {"command": each}, "id": each, "type": "tool_call"}]
        )
        for each in commands
    ]
    middleware = ShellToolMiddleware(workspace, execution_policy=policy)
    model = Scripted(messages=iter([*calls, AIMessage(content="done")]))
    agent = create_agent(model, middleware=[middleware])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        messages = agent.invoke({"messages": [("user", "go")]})["messages"]
    return [message for message in messages if isinstance(message, ToolMessage)]


def test_commands_share_a_shell(tmp_path: Path) -> None:
    _, last = told(HoldfastExecutionPolicy(), tmp_path, "word=hello", "echo $word; pwd")
    assert f"hello\n{tmp_path}" in last.content


def test_what_a_command_leaves_ends_with_the_shell(tmp_path: Path, leaves_daemon: str) -> None:
    (only,) = told(HoldfastExecutionPolicy(grace=0.2), tmp_path, leaves_daemon)
    assert wait_exited(daemon_of(str(only.content)))  # LangChain waits for the shell only


def test_control_with_the_policy_of_langchain_the_daemon_stays(tmp_path: Path, leaves_daemon: str) -> None:
    (only,) = told(HostExecutionPolicy(), tmp_path, leaves_daemon)
    end_survivor(daemon_of(str(only.content)))


def test_a_timeout_ends_the_tree(tmp_path: Path, stubborn: str) -> None:
    said = tmp_path / "said"
    (only,) = told(HoldfastExecutionPolicy(command_timeout=5, grace=0.2), tmp_path, f"({stubborn}) >{said}")
    assert "timed out" in str(only.content).lower()
    assert wait_exited(daemon_of(first_line(said)))
