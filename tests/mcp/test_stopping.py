"""A server that is asked to end while calls wait: it answers them, ends the connections, and logs nothing."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from typing import TYPE_CHECKING, Any

import anyio
import httpx2
import pytest
from mcp_types import CallToolResult

from holdfast import Supervisor
from holdfast.mcp.limits import ServerLimits
from holdfast.mcp.runs import McpRuns
from holdfast.mcp.server import make_server
from holdfast.state.directory import StateDirectory
from mcp import Client

from ..cli.console import read_until, start
from .serving import BOUND_S, Caller, HttpServer, answer_of, report_of

if TYPE_CHECKING:
    from pathlib import Path

    from .serving import Answer

pytestmark = pytest.mark.anyio
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}},
}
SLOW = (
    "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
    "Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n"
    "Content-Length: 10\r\nExpect: 100-continue\r\n\r\n"
)
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


class Gate:
    """A command that lives until it is ended, and says when it runs."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / "gate"
        os.mkfifo(self._path)
        self.arguments = {"command": f"read line <{self._path}; sleep 600", "wait_s": 600}
        params = {"name": "exec", "arguments": self.arguments}
        self.call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}

    def wait_running(self) -> None:
        """Return when the command runs: then the call that started it is waiting, or about to."""
        os.close(os.open(self._path, os.O_WRONLY))


def check(answer: Answer, state: Path) -> None:
    """Check that the answer shows the run as it was, and that the run ended with the server's stop."""
    assert (answer["status"], answer["exit_code"], answer.is_error) == (None, None, False)
    assert f"the server is stopping, and run {answer['run_id']} ends with it" in answer.text
    report = report_of(state, answer["run_id"])
    verdict = (report["state"], report["status"], report["cause"], report["tree"])
    assert verdict == ("settled", "cancelled", "shutdown", "gone")


@pytest.mark.parametrize(
    ("settings", "end"), [({}, signal.SIGTERM), ({}, signal.SIGINT), ({"mode": "legacy"}, signal.SIGTERM)]
)
async def test_a_waiting_call_is_answered(tmp_path: Path, settings: dict[str, Any], end: signal.Signals) -> None:
    gate, server, answers = Gate(tmp_path), HttpServer(tmp_path / "state"), []
    with server:
        async with server.client(**settings) as call, anyio.create_task_group() as group:

            async def ask() -> None:
                answers.append(await call("exec", **gate.arguments))

            await call.client.list_tools()  # the client checks answers against these schemas
            group.start_soon(ask)
            await anyio.to_thread.run_sync(gate.wait_running)
            server.process.send_signal(end)
        assert await anyio.to_thread.run_sync(server.process.wait, BOUND_S) == 0
    assert server.last_words == b""
    check(answers[0], server.state)


async def test_streams_and_requests_that_never_come_are_ended(tmp_path: Path) -> None:
    gate, server = Gate(tmp_path), HttpServer(tmp_path / "state")
    told: dict[str, bytes] = {}
    with server, socket.create_connection(server.address, timeout=BOUND_S) as slow:
        headers = {"Authorization": f"Bearer {server.token}", "Accept": "application/json, text/event-stream"}
        async with httpx2.AsyncClient(headers=headers, timeout=BOUND_S) as http, anyio.create_task_group() as group:
            opened = await http.post(server.url, json=INITIALIZE)
            http.headers |= {"Mcp-Session-Id": opened.headers["mcp-session-id"], "MCP-Protocol-Version": "2025-06-18"}
            assert (await http.post(server.url, json=INITIALIZED)).status_code == 202
            listening = anyio.Event()

            async def listen() -> None:
                async with http.stream("GET", server.url) as stream:
                    listening.set()
                    told["stream"] = await stream.aread()  # an error when it is torn instead of ended

            async def ask() -> None:
                told["call"] = (await http.post(server.url, json=gate.call)).content

            group.start_soon(listen)
            await listening.wait()
            group.start_soon(ask)
            await anyio.to_thread.run_sync(gate.wait_running)
            slow.sendall(SLOW.format(token=server.token).encode())
            assert b"100 Continue" in read_until(slow.fileno(), b"\r\n\r\n")  # so the server waits for its body
            server.process.terminate()
        refused = b"".join(iter(lambda: slow.recv(65536), b""))
        assert await anyio.to_thread.run_sync(server.process.wait, BOUND_S) == 0
    assert server.last_words == b""
    assert refused.startswith(b"HTTP/1.1 503 ")
    assert b"The server is stopping" in refused
    assert b"data: {" not in told["stream"]
    check(answer_in(told["call"].split(b"data: ")[1]), server.state)


async def test_waiting_calls_are_answered_over_stdio(tmp_path: Path) -> None:
    gate, state = Gate(tmp_path), tmp_path / "state"
    server = start("mcp", "--state-dir", str(state), stdin=subprocess.PIPE)
    assert server.stdin is not None
    assert server.stdout is not None
    wire = server.stdout.fileno()

    def say(message: dict[str, Any]) -> None:
        assert server.stdin is not None
        server.stdin.write(json.dumps(message).encode() + b"\n")
        server.stdin.flush()

    def call(number: int, tool: str, **arguments: Any) -> None:
        params = {"name": tool, "arguments": arguments}
        say({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})

    say(INITIALIZE)
    read_until(wire, b"\n")
    say(INITIALIZED)
    say(gate.call)
    await anyio.to_thread.run_sync(gate.wait_running)
    call(3, "list")
    run_id = answer_in(read_until(wire, b"\n"))["runs"][0]["run_id"]
    call(4, "wait", run_id=run_id, wait_s=600)
    call(5, "output", run_id=run_id, wait_s=600)
    call(6, "poll", run_id=run_id)
    read_until(wire, b"\n")  # in order: when this call is answered, the calls before it wait
    server.terminate()
    assert await anyio.to_thread.run_sync(server.wait, BOUND_S) == 0  # and its stdin is still open
    out, said = server.communicate()
    assert said == b""
    answers = {json.loads(line)["id"]: answer_in(line) for line in out.splitlines()}
    assert sorted(answers) == [2, 4, 5]
    check(answers[2], state)
    check(answers[4], state)
    assert (answers[5]["text"], answers[5]["offset"], answers[5]["status"]) == ("", 0, None)


async def test_detached_runs_go_on_and_nothing_is_started_any_more(tmp_path: Path) -> None:
    state = StateDirectory.open(str(tmp_path / "state"))
    async with Supervisor(state_dir=state.path) as supervisor:
        runs = McpRuns(supervisor, state, ServerLimits(("/",)), session="s", detached=True)
        async with Client(make_server(runs)) as client:
            call = Caller(client)
            run_id = (await call("exec", argv=["sleep", "600"], wait_s=0))["run_id"]
            runs.end_waits()
            waited = await call("wait", run_id=run_id, wait_s=600)
            assert f"the server is stopping, and run {run_id} goes on without it" in waited.text
            refused = await call("exec", argv=["true"])
            assert (refused.is_error, refused.data) == (True, {})
            assert "this server is stopping and starts nothing: ask again when it is back" in refused.text
            await call("cancel", run_id=run_id, now=True)
            async with runs.find(run_id) as run:
                await run.settled()


def answer_in(message: bytes) -> Answer:
    """The answer in a line of the wire, or in the data of an event."""
    return answer_of(CallToolResult.model_validate(json.loads(message)["result"]))
