"""Real servers for real clients: `holdfast mcp` as a process, over stdio and over HTTP."""

from __future__ import annotations

import os
import re
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx2
from mcp.client.streamable_http import streamable_http_client

import holdfast
from holdfast.mcp.limits import ServerLimits
from holdfast.mcp.runs import McpRuns
from holdfast.mcp.server import make_server
from holdfast.state.directory import StateDirectory
from holdfast.state.record import RunRecord
from mcp import Client, StdioServerParameters

from ..cli.console import HOLDFAST, read_until, start

if TYPE_CHECKING:
    import subprocess
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path
    from typing import Self

    from mcp_types import CallToolResult

BOUND_S = 60.0


class Answer:
    """The answer of a tool: the data, the text, and whether it is an error."""

    def __init__(self, data: dict[str, Any], text: str, is_error: bool) -> None:
        self.data = data
        self.text = text
        self.is_error = is_error

    def __getitem__(self, name: str) -> Any:
        return self.data[name]

    @property
    def verdict(self) -> tuple[Any, Any, Any]:
        """Status, cause and exit code."""
        return self["status"], self["cause"], self["exit_code"]


def answer_of(result: CallToolResult) -> Answer:
    """The answer in a result."""
    text = "".join(getattr(block, "text", "") for block in result.content)
    return Answer(dict(result.structured_content or {}), text, bool(result.is_error))


class Caller:
    """A client that calls tools."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def __call__(self, tool: str, **arguments: Any) -> Answer:
        return answer_of(await self.client.call_tool(tool, arguments, read_timeout_seconds=BOUND_S))


def stdio_parameters(state: Path, *options: str) -> StdioServerParameters:
    """How a client starts the server."""
    arguments = [*HOLDFAST[1:], "mcp", "--state-dir", str(state), *options]
    # The client passes only some variables on; the token of the test marks its processes.
    return StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ))


@asynccontextmanager
async def over_stdio(state: Path, *options: str, **settings: Any) -> AsyncIterator[Caller]:
    """A client with a server of its own, which ends with it."""
    async with Client(stdio_parameters(state, *options), **settings) as client:
        yield Caller(client)


@asynccontextmanager
async def in_process(state: Path, *, session: str) -> AsyncIterator[Caller]:
    """A client and a server in this process, for tests that do not depend on the wire."""
    directory = StateDirectory.open(str(state))
    async with holdfast.Supervisor(state_dir=state) as supervisor:
        runs = McpRuns(supervisor, directory, ServerLimits(("/",)), session=session)
        await runs.adopt_session()
        async with Client(make_server(runs)) as client:
            yield Caller(client)


class HttpServer:
    """A server on a free port of the loopback interface. On leaving it is asked to end, and must end."""

    def __init__(self, state: Path, *options: str, through: Sequence[str] = (), before: str = "") -> None:
        """`through` starts the server through another program, `before` is Python code that runs before it."""
        words = ["-c", f"{before}\nfrom holdfast.cli.main import main\nraise SystemExit(main())"]
        self._program = [*through, sys.executable, *words] if through or before else HOLDFAST
        self.state = state
        self.is_killed = False
        self.last_words = b""
        self._arguments = ["mcp", "--http", "127.0.0.1:0", "--state-dir", str(state), *options]

    def __enter__(self) -> Self:
        self.process: subprocess.Popen[bytes] = start(*self._arguments, program=self._program)
        assert self.process.stderr is not None
        self.said = read_until(self.process.stderr.fileno(), b"\n").decode()
        found = re.match(r"holdfast mcp: (http://127\.0\.0\.1:\d+/mcp), bearer token in (.*)\n", self.said)
        assert found is not None, self.said
        self.url, self.token_file = found.groups()
        with open(self.token_file) as file:
            self.token = file.read().strip()
        return self

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        host, port = self.url.removeprefix("http://").removesuffix("/mcp").split(":")
        return host, int(port)

    def kill(self) -> None:
        """Kill the server, which then cannot clean up."""
        self.is_killed = True
        self.process.kill()

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        _out, self.last_words = self.process.communicate(timeout=BOUND_S)
        assert self.process.returncode == (-9 if self.is_killed else 0)
        # A server that lives as long as the suite may warn about other tests; never about this.
        assert b"Traceback" not in self.last_words, self.last_words.decode()
        assert self.token.encode() not in self.last_words

    @asynccontextmanager
    async def client(self, **settings: Any) -> AsyncIterator[Caller]:
        """A client with the token."""
        headers = {"Authorization": f"Bearer {self.token}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=BOUND_S) as http,
            Client(streamable_http_client(self.url, http_client=http), **settings) as client,
        ):
            yield Caller(client)


def report_of(state: Path, run_id: str) -> dict[str, Any]:
    """The report of a run from its directory, without a server."""
    with RunRecord(StateDirectory.open(str(state), create=False), run_id) as record:
        return record.read().report()
