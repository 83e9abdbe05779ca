"""Fixtures of the adapters' tests. A test needs the framework's real package; `make adapters` installs all of them."""

from __future__ import annotations

import importlib.util
import os
import signal
from typing import TYPE_CHECKING

import pytest

from ..support.processes import state_of, wait_exited

if TYPE_CHECKING:
    from pathlib import Path

    from ..support.children import Children

# The frameworks that are too heavy for the dev extra. Without one of them its test is not collected; HOLDFAST_ADAPTERS
# is set by `make adapters`, and then a missing one is an error.
_HEAVY = {
    "test_claude_agent_sdk.py": "claude_agent_sdk",
    "test_deepagents.py": "deepagents",
    "test_inspect_ai.py": "inspect_ai",
    "test_langchain.py": "langchain",
    "test_mini_swe_agent.py": "minisweagent",
}
collect_ignore = [
    name
    for name, package in _HEAVY.items()
    if not os.environ.get("HOLDFAST_ADAPTERS") and importlib.util.find_spec(package) is None
]


@pytest.fixture
def anyio_backend() -> str:
    """Most of the frameworks know asyncio only."""
    return "asyncio"


@pytest.fixture
def stubborn(child: Children) -> str:
    """A shell line that says `ready daemon=PID` and stays: a shell and a daemon with its own session ignore TERM."""
    return f"trap '' TERM; {child('daemonises', 'stay')[0]} stay; :"


@pytest.fixture
def stubborn_in_file(stubborn: str, tmp_path: Path) -> tuple[str, Path]:
    """As `stubborn`, in the background of a shell; the word with the daemon's number is in a file, which is a pipe."""
    path = tmp_path / "ready"
    os.mkfifo(path)
    return f"({stubborn}) >{path} 2>&1 &", path


@pytest.fixture
def leaves_daemon(child: Children) -> str:
    """A shell line that says `ready daemon=PID` and ends: a daemon with its own session, which ignores TERM, stays."""
    return f"{child('daemonises', 'exit')[0]} exit"


def end_survivor(pid: int) -> None:
    """Control: without Holdfast this process is alive after the end. Ends it."""
    assert state_of(pid) is not None
    os.kill(pid, signal.SIGKILL)
    assert wait_exited(pid)


def daemon_of(output: str) -> int:
    """The number of the daemon from what `stubborn` wrote."""
    return int(output.split("ready daemon=")[1].split()[0])


def first_line(path: Path) -> str:
    """The first line that is written to a pipe; waits for it."""
    with path.open() as file:
        return file.readline()
