"""Real MCP clients through `holdfast stdio`: the SDKs of Python and TypeScript with the reference server."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

import pytest

from ..support.evidence import BUSY_S, Stopwatch
from ..support.mcp_clients import CLIENTS, McpClient, everything
from ..support.processes import children_of, descendants, is_gone, wait_exited
from .console import HOLDFAST

if TYPE_CHECKING:
    from .kept_runs import Runs

# An MCP server that never ends by itself, with a grandchild in a session of its own.
STUBBORN = """
import json, signal, subprocess, sys
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
subprocess.Popen(["sleep", "600"], start_new_session=True, stdin=subprocess.DEVNULL)
TOOLS = [{"name": "echo", "inputSchema": {"type": "object"}}]
def answer(method, params):
    if method == "initialize":
        info = {"name": "stubborn", "version": "1"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        return {"content": [{"type": "text", "text": "Echo: " + params["arguments"]["message"]}]}
while True:
    if line := sys.stdin.readline():
        asked = json.loads(line)
        if "id" in asked:
            result = answer(asked["method"], asked.get("params") or {})
            end = {"error": {"code": -32601, "message": "unknown"}} if result is None else {"result": result}
            print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **end}), flush=True)
    else:
        signal.pause()
"""


def through_stdio(*server: str) -> list[str]:
    return [*HOLDFAST, "stdio", "--id", "server", "--", *server]


@pytest.mark.parametrize("language", CLIENTS)
def test_a_client_talks_to_the_reference_server_and_closes(language: str, runs: Runs) -> None:
    with McpClient(language, through_stdio(*everything())) as client:
        assert {"echo", "get-sum"} <= set(client.saw["tools"])
        assert client.saw["echo"] == "Echo: first"
        assert client.ask("żółw") == {"echo": "Echo: żółw"}
        below = descendants(client.process.pid)
        assert client.close() == 0
    assert all(map(is_gone, below))
    assert runs.report("server")["tree"] == "gone"


@pytest.mark.parametrize("language", CLIENTS)
@pytest.mark.parametrize("server", ["everything", "stubborn"])
def test_a_killed_client_leaves_nothing_within_three_seconds(
    language: str, server: str, contained: str, runs: Runs
) -> None:
    command = everything() if server == "everything" else [sys.executable, "-c", STUBBORN]
    with McpClient(language, through_stdio(*command)) as client:
        below = descendants(client.process.pid)
        assert len(below) >= 4, "the front, sentinel, guard and server"
        with Stopwatch() as watch:
            client.process.kill()
            assert all(wait_exited(pid, 3 + BUSY_S) for pid in below), contained
        assert watch.seconds < 3 + BUSY_S
    report = runs.report("server")
    assert (report["tree"], report["containment"]) == ("gone", contained)


@pytest.mark.parametrize("language", CLIENTS)
def test_a_client_that_closes_ends_a_server_that_ignores_it(language: str, runs: Runs) -> None:
    """The SDKs wait two seconds after the end of file, and two more after SIGTERM."""
    with McpClient(language, through_stdio(sys.executable, "-c", STUBBORN)) as client:
        below = descendants(client.process.pid)
        assert client.close() == 0
        assert all(wait_exited(pid, 3 + BUSY_S) for pid in below)
    assert runs.report("server")["status"] == "cancelled"


@pytest.mark.parametrize("language", CLIENTS)
def test_a_client_does_not_notice_that_an_idle_server_was_replaced(language: str) -> None:
    idle = ("--idle", "300ms", "--after-eof", "300ms")
    with McpClient(language, [*HOLDFAST, "stdio", *idle, "--", *everything(by_npx=False)]) as client:
        (front,) = children_of(client.process.pid)
        for pid in descendants(front):
            assert wait_exited(pid)
        assert client.ask("second") == {"echo": "Echo: second"}
        assert client.close() == 0


def test_control_without_holdfast_a_killed_client_leaves_its_server() -> None:
    with McpClient("python", [sys.executable, "-c", STUBBORN]) as client:
        below = descendants(client.process.pid)
        client.process.kill()
        assert not wait_exited(min(below), 0.5)
        for pid in below:
            os.kill(pid, signal.SIGKILL)
