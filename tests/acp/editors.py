"""Editors that talk to an agent through `holdfast acp`: a client of the public SDK, and lines of version 2."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from acp.exceptions import RequestError
from acp.schema import ClientCapabilities

import acp

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_AGENTS = Path(__file__).parent / "agents"
AGENT = [sys.executable, str(_AGENTS / "scripted.py")]
AGENT_2 = [sys.executable, str(_AGENTS / "version_2.py")]
HOLDFAST = [sys.executable, "-m", "holdfast.cli.main", "acp"]
BOUND_S = 60.0


class Editor:
    """A client of the SDK; it keeps what the agent says, and answers no permission until it is told to."""

    def __init__(self) -> None:
        self.said = ""
        self._news = asyncio.Event()
        self.asked, self.allowed = asyncio.Event(), asyncio.Event()

    async def session_update(self, update: Any, **_: Any) -> None:
        self.said += update.content.text + "\n"
        self._news.set()

    async def request_permission(self, **_: Any) -> Any:
        self.asked.set()
        await self.allowed.wait()
        return acp.schema.RequestPermissionResponse(
            outcome=acp.schema.AllowedOutcome(outcome="selected", option_id="yes")
        )

    async def hears(self, pattern: str) -> list[str]:
        """Wait until the agent has said something that matches; all matches."""
        async with asyncio.timeout(BOUND_S):
            while not (found := re.findall(pattern, self.said)):
                self._news.clear()
                await self._news.wait()
        return found


class Session:
    """One editor, its connection through `holdfast acp`, and a session."""

    def __init__(self, editor: Editor, connection: Any, process: asyncio.subprocess.Process) -> None:
        self.editor = editor
        self.connection = connection
        self.process = process
        self.session_id = ""

    async def prompt(self, text: str) -> Any:
        async with asyncio.timeout(BOUND_S):
            return await self.connection.prompt(session_id=self.session_id, prompt=[acp.text_block(text)])


@asynccontextmanager
async def proxied(
    state: Path, *options: str, terminal: bool = False, agent: list[str] = AGENT, is_wrapped: bool = True
) -> AsyncIterator[Session]:
    """An editor connected to the agent by `holdfast acp`; its process is gone at the end."""
    editor: Any = Editor()
    command = [*HOLDFAST, "--state-dir", str(state), *options, "--", *agent] if is_wrapped else agent
    async with acp.spawn_agent_process(editor, command[0], *command[1:], env=dict(os.environ)) as (connection, process):
        session = Session(editor, connection, process)
        async with asyncio.timeout(BOUND_S):
            await connection.initialize(protocol_version=1, client_capabilities=ClientCapabilities(terminal=terminal))
            session.session_id = (await connection.new_session(cwd="/", mcp_servers=[])).session_id
        yield session
        await connection.close()
        assert process.stdin is not None
        process.stdin.close()
        async with asyncio.timeout(BOUND_S):
            await process.wait()


class Wire:
    """An agent of version 2, which the SDK does not have yet, through the proxy: lines as they are."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process, self._in, self._out = process, process.stdin, process.stdout

    def send(self, method: str, number: int | None = None, **params: Any) -> None:
        body = {"jsonrpc": "2.0", "method": method, "params": params}
        self._in.write(json.dumps(body if number is None else {**body, "id": number}).encode() + b"\n")

    async def read(self) -> dict[str, Any]:
        async with asyncio.timeout(BOUND_S):
            return dict(json.loads(await self._out.readline()))

    async def end_of(self, text: str, *, cancel: bool = False) -> dict[str, Any]:
        """The state update that ends a prompt."""
        await self.begin(text)
        if cancel:
            self.send("session/cancel", sessionId="s")
        return await self.end()

    async def begin(self, text: str) -> None:
        """Prompt, and wait until the agent works."""
        self.send("session/prompt", 2, sessionId="s", prompt=[{"type": "text", "text": text}])
        assert await self.read() == {"jsonrpc": "2.0", "id": 2, "result": {}}
        assert (await self.read())["params"]["update"]["state"] == "running"

    async def end(self) -> dict[str, Any]:
        """The state update that ends the prompt which has begun."""
        update = (await self.read())["params"]["update"]
        assert update["state"] == "idle"
        return dict(update)


@asynccontextmanager
async def wired(state: Path, *options: str, agent: list[str] = AGENT_2) -> AsyncIterator[Wire]:
    """Version 2 through `holdfast acp`; its process is gone at the end. RequestError: `initialize` got an error."""
    command = [*HOLDFAST, "--state-dir", str(state), *options, "--", *agent]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
    wire = Wire(process)
    wire.send("initialize", 1, protocolVersion=2, capabilities={})
    try:
        answer = await wire.read()
        if "error" in answer:
            raise RequestError(**answer["error"])
        assert answer["result"] == {"protocolVersion": 2}
        yield wire
    finally:
        assert process.stdin is not None
        process.stdin.close()
        async with asyncio.timeout(BOUND_S):
            await process.wait()
