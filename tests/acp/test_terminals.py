"""`terminal/*` as an agent sees it, through a real connection."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from acp.exceptions import RequestError
from acp.schema import EnvVariable

import holdfast
from holdfast.acp import Terminals
from holdfast.acp.terminal import is_past_exec

from ..support.processes import wait_exited
from ..support.readiness import until_ready
from ..support.silent_filesystem import SilentFilesystem, why_no_fuse
from .conftest import connected

if TYPE_CHECKING:
    from pathlib import Path

    from acp.agent.connection import AgentSideConnection

    from ..support.children import Children

pytestmark = pytest.mark.anyio
SESSION = "session-1"


async def create(agent: AgentSideConnection, command: str, *args: str, **options: Any) -> str:
    created = await agent.create_terminal(session_id=SESSION, command=command, args=list(args), **options)
    return str(created.terminal_id)


async def shell(agent: AgentSideConnection, line: str, **options: Any) -> str:
    return await create(agent, "sh", "-c", line, **options)


async def exit_of(agent: AgentSideConnection, terminal: str) -> tuple[int | None, str | None]:
    ended = await agent.wait_for_terminal_exit(session_id=SESSION, terminal_id=terminal)
    return ended.exit_code, ended.signal


async def shown(agent: AgentSideConnection, terminal: str) -> str:
    return str((await agent.terminal_output(session_id=SESSION, terminal_id=terminal)).output)


async def ready_pid(agent: AgentSideConnection, terminal: str) -> int:
    """The pid that the command prints; returns when its handlers are in place."""
    text = ""
    with anyio.fail_after(60):
        while "pid=" not in text:  # each question is a round trip; the protocol has no other way to learn of output
            text = await shown(agent, terminal)
    return int(text.split("pid=")[1].split()[0])


async def test_output_and_exit_code(agent: AgentSideConnection) -> None:
    terminal = await shell(agent, "echo out; echo err >&2; echo ü; exit 3")
    assert await exit_of(agent, terminal) == (3, None)
    answer = await agent.terminal_output(session_id=SESSION, terminal_id=terminal)
    assert (answer.output, answer.truncated) == ("out\nerr\nü\n", False)
    assert answer.exit_status is not None
    assert (answer.exit_status.exit_code, answer.exit_status.signal) == (3, None)
    assert answer.exit_status.field_meta is not None
    assert (answer.exit_status.field_meta["status"], answer.exit_status.field_meta["cause"]) == ("failed", "exit")
    await agent.release_terminal(session_id=SESSION, terminal_id=terminal)


async def test_output_while_it_runs(agent: AgentSideConnection, child: Children) -> None:
    terminal = await create(agent, child("exits_on_term", 0)[0])
    await ready_pid(agent, terminal)
    answer = await agent.terminal_output(session_id=SESSION, terminal_id=terminal)
    assert answer.output.startswith("ready")
    assert answer.exit_status is None


async def test_directory_and_environment(agent: AgentSideConnection, tmp_path: Path) -> None:
    variables = [EnvVariable(name="COLOUR", value="green")]
    terminal = await shell(agent, 'pwd; echo "$COLOUR"', cwd=str(tmp_path), env=variables)
    assert await exit_of(agent, terminal) == (0, None)
    assert await shown(agent, terminal) == f"{tmp_path}\ngreen\n"
    with pytest.raises(RequestError, match="is not absolute") as caught:
        await shell(agent, "pwd", cwd="here")
    assert caught.value.code == -32602


@pytest.mark.parametrize("limit", range(12))
async def test_the_limit_keeps_the_end_and_cuts_between_characters(agent: AgentSideConnection, limit: int) -> None:
    whole = "aä€😀b"  # 1 + 2 + 3 + 4 + 1 bytes
    terminal = await create(agent, "printf", "%s", whole, output_byte_limit=limit)
    await exit_of(agent, terminal)
    answer = await agent.terminal_output(session_id=SESSION, terminal_id=terminal)
    fits = next(whole[at:] for at in range(len(whole) + 1) if len(whole[at:].encode()) <= limit)
    assert answer.output == fits
    assert answer.truncated == (limit < len(whole.encode()))


async def test_much_more_than_the_limit(agent: AgentSideConnection) -> None:
    terminal = await shell(agent, "yes 0123456 | head -c 8000000; echo end", output_byte_limit=20)
    assert await exit_of(agent, terminal) == (0, None)
    answer = await agent.terminal_output(session_id=SESSION, terminal_id=terminal)
    assert (answer.output, answer.truncated) == ("0123456\n0123456\nend\n", True)


async def test_what_cannot_be_started_is_an_error_of_create(agent: AgentSideConnection, child: Children) -> None:
    for command in ("/no/such/program", child("not_executable.sh")[0], child("bad_interpreter.sh")[0]):
        with pytest.raises(RequestError) as caught:
            await create(agent, command)
        assert caught.value.code == -32603
        assert (caught.value.data or {})["cause"] == "spawn"
        assert (caught.value.data or {})["status"] == "failed"
    with pytest.raises(RequestError) as caught:
        await create(agent, "true", cwd="/no/such/directory")
    assert (caught.value.data or {})["cause"] == "spawn"
    # The control: a command that starts and fails at once is no such error.
    assert await exit_of(agent, await create(agent, "false")) == (1, None)


async def test_kill_ends_the_tree_and_the_terminal_stays(agent: AgentSideConnection, child: Children) -> None:
    terminal = await create(agent, child("exits_on_term", 0)[0])
    pid = await ready_pid(agent, terminal)
    await agent.kill_terminal(session_id=SESSION, terminal_id=terminal)
    ended = await agent.wait_for_terminal_exit(session_id=SESSION, terminal_id=terminal)
    assert (ended.exit_code, ended.signal) == (None, "SIGTERM")  # though it exited with 0
    assert ended.field_meta is not None
    assert (ended.field_meta["status"], ended.field_meta["cause"], ended.field_meta["exit_code"]) == (
        "cancelled",
        "user",
        0,
    )
    assert wait_exited(pid)
    assert (await shown(agent, terminal)).startswith("ready")
    await agent.kill_terminal(session_id=SESSION, terminal_id=terminal)  # a second call does no harm


async def test_release_kills_and_forgets(agent: AgentSideConnection, child: Children) -> None:
    terminal = await create(agent, child("exits_on_term", 0)[0])
    pid = await ready_pid(agent, terminal)
    await agent.release_terminal(session_id=SESSION, terminal_id=terminal)
    for ask in (agent.terminal_output, agent.wait_for_terminal_exit, agent.kill_terminal, agent.release_terminal):
        with pytest.raises(RequestError, match="there is no terminal"):
            await ask(session_id=SESSION, terminal_id=terminal)
    assert wait_exited(pid)


async def test_a_timeout_in_meta(agent: AgentSideConnection, child: Children) -> None:
    terminal = await create(agent, child("exits_on_term", 0)[0], holdfast={"timeout_s": 1})
    ended = await agent.wait_for_terminal_exit(session_id=SESSION, terminal_id=terminal)
    assert (ended.exit_code, ended.signal) == (None, "SIGTERM")
    assert ended.field_meta is not None
    assert (ended.field_meta["status"], ended.field_meta["cause"]) == ("timed_out", "deadline")
    assert "bye" not in await shown(agent, terminal)  # later output is late
    silent = await create(agent, child("exits_on_term", 0)[0], holdfast={"idle_timeout_s": 0.3})
    ended = await agent.wait_for_terminal_exit(session_id=SESSION, terminal_id=silent)
    assert (ended.field_meta or {})["cause"] == "idle"


async def test_nonsense_in_meta(agent: AgentSideConnection) -> None:
    nonsense: list[Any] = [{"timeout": 1}, {"timeout_s": "soon"}, {"timeout_s": 0}, {"timeout_s": -1}, [], "x"]
    for wrong in nonsense:
        with pytest.raises(RequestError) as caught:
            await create(agent, "true", holdfast=wrong)
        assert caught.value.code == -32602


async def test_an_agent_cannot_ask_for_more_time_than_it_is_given(child: Children) -> None:
    async with Terminals(timeout=0.3) as terminals, connected(terminals) as agent:
        terminal = await create(agent, child("exits_on_term", 0)[0], holdfast={"timeout_s": 3600})
        ended = await agent.wait_for_terminal_exit(session_id=SESSION, terminal_id=terminal)
        assert (ended.field_meta or {})["cause"] == "deadline"


async def test_a_lost_run_is_an_error_of_wait(agent: AgentSideConnection, terminals: Terminals) -> None:
    terminal = await create(agent, "sleep", "600")
    (run,) = terminals._supervisor.runs  # noqa: SLF001
    os.kill(run.guard_pid, signal.SIGKILL)
    with pytest.raises(RequestError) as caught:
        await agent.wait_for_terminal_exit(session_id=SESSION, terminal_id=terminal)
    assert (caught.value.code, (caught.value.data or {})["status"]) == (-32603, "lost")


async def test_terminals_belong_to_a_session(agent: AgentSideConnection, terminals: Terminals) -> None:
    terminal = await create(agent, "sleep", "600")
    with pytest.raises(RequestError, match="there is no terminal"):
        await agent.terminal_output(session_id="another", terminal_id=terminal)
    await terminals.release_session("another")
    assert await shown(agent, terminal) == ""
    await terminals.release_session(SESSION)
    with pytest.raises(RequestError, match="there is no terminal"):
        await shown(agent, terminal)


async def test_leaving_ends_all_of_them(child: Children) -> None:
    async with Terminals() as terminals, connected(terminals) as agent:
        pids = []
        for _ in range(3):
            terminal = await create(agent, child("exits_on_term", 0)[0])
            pids.append(await ready_pid(agent, terminal))
    assert all(wait_exited(pid) for pid in pids)


async def test_with_a_state_directory_they_can_be_found(tmp_path: Path) -> None:
    async with Terminals(state_dir=tmp_path / "state", session="editor") as terminals, connected(terminals) as agent:
        terminal = await create(agent, "true")
        assert await exit_of(agent, terminal) == (0, None)
    assert (tmp_path / "state" / "runs" / terminal / "journal").exists()


@pytest.mark.root
async def test_a_file_system_that_has_stopped_answering_is_not_waited_for(child: Children, tmp_path: Path) -> None:
    if (why_not := why_no_fuse()) is not None:
        pytest.skip(f"allowed: {why_not}")
    with SilentFilesystem(tmp_path / "silent", child.program("exits_on_term")) as silent:
        async with holdfast.Supervisor() as supervisor:
            run = await supervisor.start([str(silent.program), "7"])
            await until_ready(run)
            silent.fall_silent()
            assert is_past_exec(run)
            await run.cancel()
            assert (await run.settled())["exit_code"] == 7
