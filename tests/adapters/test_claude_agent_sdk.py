"""The transport below the SDK's own client, with a Claude Code of our own that speaks its protocol."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING

import anyio
import pytest
from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, CLIConnectionError, ResultMessage, query

from holdfast.adapters.claude_agent_sdk import HoldfastTransport

from ..support.processes import state_of
from .conftest import daemon_of, end_survivor

if TYPE_CHECKING:
    from pathlib import Path

    from ..support.children import Children

pytestmark = [
    pytest.mark.anyio,
    # The SDK does not close its own asynchronous generators; trio says so.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning"),
]

# It answers the SDK's first request, starts a daemon for the first prompt, and stays when its input ends.
CLAUDE = """
import json, signal, subprocess, sys, threading

signal.signal(signal.SIGTERM, signal.SIG_IGN)

def say(**message):
    print(json.dumps(message), flush=True)

for line in sys.stdin:
    message = json.loads(line)
    if message["type"] == "control_request":
        answer = {"subtype": "success", "request_id": message["request_id"], "response": {}}
        say(type="control_response", response=answer)
    elif sys.argv[1:] == ["fail"]:
        print("what went wrong", file=sys.stderr, flush=True)
        sys.exit(3)
    else:
        child = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        say(type="result", subtype="success", duration_ms=1, duration_api_ms=1, is_error=False, num_turns=1,
            session_id="s", result=child.stdout.readline())
threading.Event().wait()
"""


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    backend: str = request.param
    return backend


@pytest.fixture
def claude(tmp_path: Path) -> list[str]:
    script = tmp_path / "claude.py"
    script.write_text(CLAUDE)
    return [sys.executable, str(script)]


async def answer(client: ClaudeSDKClient) -> str:
    await client.query("go")
    results = [message.result async for message in client.receive_response() if isinstance(message, ResultMessage)]
    return results[0] or ""


async def test_a_stubborn_claude_ends_with_its_tree(
    claude: list[str], child: Children, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.adapters.claude_agent_sdk._EXIT_WAIT_S", 0.5)
    transport = HoldfastTransport(argv=[*claude, *child("daemonises", "stay")], grace=0.2)
    async with ClaudeSDKClient(transport=transport) as client:
        assert transport.is_ready()
        daemon = daemon_of(await answer(client))
        assert state_of(daemon) is not None
    assert state_of(daemon) is None
    assert not transport.is_ready()


async def test_a_cancelled_client_ends_claude(
    claude: list[str], child: Children, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.adapters.claude_agent_sdk._EXIT_WAIT_S", 0.5)
    transport = HoldfastTransport(argv=[*claude, *child("daemonises", "stay")], grace=0.2)
    daemon = 0
    with anyio.CancelScope() as scope:
        async with ClaudeSDKClient(transport=transport) as client:
            daemon = daemon_of(await answer(client))
            scope.cancel()
            await anyio.sleep_forever()
    assert state_of(daemon) is None


async def test_a_failure_has_its_exit_code_and_stderr(claude: list[str]) -> None:
    told: list[str] = []
    transport = HoldfastTransport(ClaudeAgentOptions(stderr=told.append), argv=[*claude, "fail"])
    with pytest.raises(Exception, match="failed") as caught:
        async for _ in query(prompt="go", transport=transport):
            pass
    assert getattr(caught.value, "exit_code", 3) == 3
    assert told == ["what went wrong"]


async def test_no_such_claude() -> None:
    with pytest.raises(CLIConnectionError, match="no such program"):
        await HoldfastTransport(argv=["no-such-claude"]).connect()


async def test_the_options_become_the_command_line_of_the_sdk(tmp_path: Path) -> None:
    """A program in the place of Claude Code writes down how the SDK's options reach it."""
    cli = tmp_path / "claude"
    cli.write_text(f'#!/bin/sh\necho "$CLAUDE_CODE_ENTRYPOINT $PWD $*" >{tmp_path}/seen\n')
    cli.chmod(0o755)
    options = ClaudeAgentOptions(cli_path=str(cli), model="opus", cwd=str(tmp_path))
    transport = HoldfastTransport(options)
    await transport.connect()
    async for _ in transport.read_messages():
        raise AssertionError("it says nothing")
    await transport.close()
    words = (tmp_path / "seen").read_text()
    assert words.startswith(f"sdk-py {tmp_path} ")
    assert "--model opus" in words
    assert "--output-format stream-json" in words


async def test_control_with_the_transport_of_the_sdk_the_daemon_stays(
    claude: list[str], child: Children, tmp_path: Path
) -> None:
    cli = tmp_path / "claude"
    cli.write_text(f"#!/bin/sh\nexec {shlex.join([*claude, *child('daemonises', 'exit')])}\n")
    cli.chmod(0o755)
    async with ClaudeSDKClient(ClaudeAgentOptions(cli_path=str(cli))) as client:
        daemon = daemon_of(await answer(client))
    end_survivor(daemon)
