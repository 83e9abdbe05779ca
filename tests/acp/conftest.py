"""An agent and a client of the `acp` package, connected by two pipes; the client's terminals are runs."""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from acp.agent.connection import AgentSideConnection

from acp import connect_to_agent
from holdfast.acp import Terminals

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

LIMIT = 50 << 20


@pytest.fixture
def anyio_backend() -> str:
    """The connections are asyncio's."""
    return "asyncio"


class EditorClient:
    """The client of an editor, with the five methods of `Terminals`."""

    def __init__(self, terminals: Terminals) -> None:
        self.create_terminal = terminals.create_terminal
        self.terminal_output = terminals.terminal_output
        self.wait_for_terminal_exit = terminals.wait_for_terminal_exit
        self.kill_terminal = terminals.kill_terminal
        self.release_terminal = terminals.release_terminal


class SilentAgent:
    """An agent that only asks."""


async def _pipe() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    loop = asyncio.get_running_loop()
    reading, writing = os.pipe()
    reader = asyncio.StreamReader(limit=LIMIT)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(reading, "rb"))
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.streams.FlowControlMixin(), os.fdopen(writing, "wb")
    )
    return reader, asyncio.StreamWriter(transport, protocol, None, loop)


@asynccontextmanager
async def connected(terminals: Terminals) -> AsyncIterator[AgentSideConnection]:
    """The connection on which the agent calls the client's methods."""
    from_agent, to_client = await _pipe()
    from_client, to_agent = await _pipe()
    agent: Any = SilentAgent()
    client: Any = EditorClient(terminals)
    async with (
        AgentSideConnection(agent, to_client, from_client) as connection,
        connect_to_agent(client, to_agent, from_agent),
    ):
        yield connection
    for writer in (to_client, to_agent):
        writer.close()
    await asyncio.sleep(0)  # the transports close their files in the next turn


@pytest.fixture
async def terminals() -> AsyncIterator[Terminals]:
    async with Terminals(grace=5) as terminals:
        yield terminals


@pytest.fixture
async def agent(terminals: Terminals) -> AsyncIterator[AgentSideConnection]:
    async with connected(terminals) as connection:
        yield connection
