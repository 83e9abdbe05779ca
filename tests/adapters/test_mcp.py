"""The transport below mcp's own client: servers that do not want to end."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import anyio
import pytest
from mcp.client.stdio import stdio_client as plain_stdio_client

from holdfast.adapters.mcp import stdio_client
from mcp import ClientSession, StdioServerParameters

from ..support.processes import state_of
from .conftest import daemon_of, end_survivor

if TYPE_CHECKING:
    from pathlib import Path

    from ..support.children import Children

pytestmark = pytest.mark.anyio

# A server that starts a daemon, ignores SIGTERM, and goes on when its input ends.
SERVER = """
import os, signal, subprocess, sys, threading
from mcp.server.mcpserver import MCPServer

signal.signal(signal.SIGTERM, signal.SIG_IGN)
server = MCPServer("stubborn")

@server.tool()
def daemon() -> str:
    child = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    return child.stdout.readline()

@server.tool()
def environment() -> str:
    return " ".join(sorted(os.environ))

server.run("stdio")
threading.Event().wait()
"""


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    backend: str = request.param
    return backend


@pytest.fixture
def server(tmp_path: Path, child: Children) -> StdioServerParameters:
    script = tmp_path / "server.py"
    script.write_text(SERVER)
    return StdioServerParameters(command=sys.executable, args=[str(script), *child("daemonises", "stay")])


async def called(session: ClientSession, tool: str) -> str:
    result = await session.call_tool(tool, {})
    (content,) = result.content
    assert content.type == "text"
    return content.text


async def test_a_stubborn_server_ends_with_its_tree(server: StdioServerParameters, tmp_path: Path) -> None:
    with (tmp_path / "errors").open("w") as errors:
        async with stdio_client(server, errlog=errors, grace=0.2) as streams, ClientSession(*streams) as session:
            await session.initialize()
            daemon = daemon_of(await called(session, "daemon"))
            assert state_of(daemon) is not None
    assert state_of(daemon) is None


async def test_a_cancelled_client_ends_the_server(server: StdioServerParameters, tmp_path: Path) -> None:
    daemon = 0
    with (tmp_path / "errors").open("w") as errors, anyio.CancelScope() as scope:
        async with stdio_client(server, errlog=errors, grace=0.2) as streams, ClientSession(*streams) as session:
            await session.initialize()
            daemon = daemon_of(await called(session, "daemon"))
            scope.cancel()
            await anyio.sleep_forever()
    assert state_of(daemon) is None


async def test_the_server_gets_few_variables(
    server: StdioServerParameters, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_SECRET", "value")
    server.env = {"WANTED": "value"}
    with (tmp_path / "errors").open("w") as errors:
        async with stdio_client(server, errlog=errors, grace=0.2) as streams, ClientSession(*streams) as session:
            await session.initialize()
            names = (await called(session, "environment")).split()
    assert "WANTED" in names
    assert "PATH" in names
    assert "A_SECRET" not in names


async def test_a_server_that_dies_ends_the_session(tmp_path: Path) -> None:
    server = StdioServerParameters(command="sh", args=["-c", "read line; exit 3"])
    with (tmp_path / "errors").open("w") as errors:
        async with stdio_client(server, errlog=errors) as (read, write), ClientSession(read, write) as session:
            with pytest.raises(Exception, match=r"[Cc]losed"):
                await session.initialize()


async def test_no_such_server() -> None:
    with pytest.raises(FileNotFoundError, match="no such program"):
        async with stdio_client(StdioServerParameters(command="no-such-server")):
            pass


async def test_control_without_holdfast_the_daemon_stays(server: StdioServerParameters, tmp_path: Path) -> None:
    with (tmp_path / "errors").open("w") as errors:
        async with plain_stdio_client(server, errlog=errors) as streams, ClientSession(*streams) as session:
            await session.initialize()
            daemon = daemon_of(await called(session, "daemon"))
    end_survivor(daemon)
