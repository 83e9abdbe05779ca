"""`holdfast acp` between a client of the public SDK and an agent of the public SDK."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from acp.exceptions import RequestError

import acp
from holdfast.state.directory import StateDirectory
from holdfast.state.record import RunRecord

from ..support.processes import guards_below, wait_exited
from .editors import AGENT, BOUND_S, proxied, wired

pytestmark = pytest.mark.anyio


def data_of(caught: pytest.ExceptionInfo[RequestError]) -> dict[str, Any]:
    """What the error carries besides its code."""
    data = caught.value.data
    assert isinstance(data, dict)
    return data


def report(state: Path) -> dict[str, Any]:
    """The report of the agent's run."""
    reports = []
    for name in os.listdir(state / "runs"):
        with RunRecord(StateDirectory.open(str(state)), name) as record:
            reports.append(record.read().report())
    (found,) = (report for report in reports if report["argv"] == AGENT)
    return found


async def test_a_prompt_that_ends(tmp_path: Path) -> None:
    async with proxied(tmp_path / "state") as session:
        answer = await session.prompt("end")
        assert answer.stop_reason == "end_turn"
        (pid,) = await session.editor.hears(r"pid=(\d+)")
    assert wait_exited(int(pid))
    assert session.process.returncode == 0
    assert (report(tmp_path / "state")["status"]) == "succeeded"


async def test_a_prompt_over_its_time_is_an_error_and_the_agent_goes_on(tmp_path: Path) -> None:
    async with proxied(tmp_path / "state", "--prompt-timeout", "1500ms", "--grace", "20s") as session:
        for word in ("listen", "stumble"):  # whatever the agent says when it is told to cancel
            with pytest.raises(RequestError) as caught:
                await session.prompt(word)
            data = data_of(caught)
            assert (caught.value.code, data["status"], data["cause"]) == (-32603, "timed_out", "deadline")
        assert (await session.prompt("end")).stop_reason == "end_turn"
    assert data["run_id"] == report(tmp_path / "state")["run_id"]


async def test_without_a_timeout_it_takes_its_time(tmp_path: Path) -> None:
    async with proxied(tmp_path / "state", "--prompt-timeout", "10m") as session:
        prompt = asyncio.create_task(session.prompt("listen"))
        await session.editor.hears("listening")
        assert not prompt.done()
        await session.connection.cancel(session.session_id)
        assert (await prompt).stop_reason == "cancelled"


async def test_an_agent_that_does_not_end_its_prompt_is_ended(tmp_path: Path) -> None:
    async with proxied(tmp_path / "state", "--prompt-timeout", "1500ms", "--grace", "300ms") as session:
        with pytest.raises(RequestError) as caught:
            await session.prompt("deaf")
        data = data_of(caught)
        assert (data["status"], data["cause"]) == ("timed_out", "deadline")
        pids = [int(pid) for pid in await session.editor.hears(r"pid=(\d+)")]
        assert len(pids) == 2
    assert all(wait_exited(pid) for pid in pids)
    assert session.process.returncode == 143
    found = report(tmp_path / "state")
    assert (found["status"], found["cause"]) == ("cancelled", "shutdown")
    assert "a prompt did not end within the grace" in found["reason"]


async def test_idle_counts_from_the_last_message_and_not_while_the_agent_waits(tmp_path: Path) -> None:
    async with proxied(tmp_path / "state", "--idle-timeout", "1s", "--grace", "20s") as session:
        asking = asyncio.create_task(session.prompt("ask"))
        await session.editor.asked.wait()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(asking), 3)  # three times the limit
        session.editor.allowed.set()
        assert (await asking).stop_reason == "end_turn"
        with pytest.raises(RequestError) as caught:  # the control: nobody is asked
            await session.prompt("listen")
        assert (data_of(caught)["status"], data_of(caught)["cause"]) == ("timed_out", "idle")


@pytest.mark.parametrize("word", ["listen", "stumble"])
async def test_a_cancel_ends_as_cancelled(tmp_path: Path, word: str) -> None:
    async with proxied(tmp_path / "state") as session:
        prompt = asyncio.create_task(session.prompt(word))
        await session.editor.hears("listening")
        await session.connection.cancel(session.session_id)
        assert (await prompt).stop_reason == "cancelled"
        assert (await session.prompt("end")).stop_reason == "end_turn"


async def test_a_cancel_that_nobody_hears_ends_the_agent(tmp_path: Path) -> None:
    async with proxied(tmp_path / "state", "--grace", "300ms") as session:
        other = (await session.connection.new_session(cwd="/", mcp_servers=[])).session_id
        waiting = asyncio.create_task(session.connection.prompt(session_id=other, prompt=[acp.text_block("listen")]))
        await session.editor.hears("listening")
        prompt = asyncio.create_task(session.prompt("deaf"))
        pids = [int(pid) for pid in await session.editor.hears(r"pid=(\d+)")]
        await session.connection.cancel(session.session_id)
        answer = await prompt
        assert answer.stop_reason == "cancelled"
        assert (answer.field_meta["status"], answer.field_meta["cause"]) == ("cancelled", "user")
        with pytest.raises(RequestError) as caught:  # nobody cancelled this one
            await waiting
        assert (caught.value.code, data_of(caught)["cause"]) == (-32800, "user")
    assert all(wait_exited(pid) for pid in pids)
    found = report(tmp_path / "state")
    assert (found["status"], found["cause"]) == ("cancelled", "user")


@pytest.mark.parametrize(
    ("word", "status", "cause", "code"),
    [("crash", "failed", "signal", 139), ("exit 3", "failed", "exit", 3), ("exit 0", "succeeded", "exit", 0)],
)
async def test_an_agent_that_dies_answers_by_its_outcome(
    tmp_path: Path, word: str, status: str, cause: str, code: int
) -> None:
    async with proxied(tmp_path / "state") as session:
        with pytest.raises(RequestError) as caught:
            await session.prompt(word)
        data = data_of(caught)
        assert (caught.value.code, data["status"], data["cause"]) == (-32603, status, cause)
        assert data["run_id"] == report(tmp_path / "state")["run_id"]
    assert session.process.returncode == code


async def test_a_guard_that_is_killed_is_a_lost_agent(tmp_path: Path) -> None:
    async with proxied(tmp_path / "state") as session:
        prompt = asyncio.create_task(session.prompt("listen"))
        await session.editor.hears("listening")
        (guard,) = guards_below(session.process.pid)
        os.kill(guard, signal.SIGKILL)
        with pytest.raises(RequestError) as caught:
            await prompt
        assert (data_of(caught)["status"], data_of(caught)["cause"]) == ("lost", "guard")
    assert session.process.returncode == 125


async def test_an_agent_that_cannot_be_started(tmp_path: Path) -> None:
    with pytest.raises(RequestError) as caught:
        async with proxied(tmp_path / "state", agent=["/no/such/agent"]):
            pass
    assert (caught.value.code, data_of(caught)["cause"]) == (-32603, "spawn")


EDITOR = """
import asyncio, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from tests.acp.editors import proxied
async def main():
    async with proxied(Path(sys.argv[2]), "--grace", "300ms", is_wrapped=sys.argv[4] == "True") as session:
        asyncio.create_task(session.prompt(sys.argv[3]))
        print(session.process.pid, *await session.editor.hears(r"pid=(\\d+)"), flush=True)
        await asyncio.sleep(600)
asyncio.run(main())
"""


async def killed_editor(state: Path, word: str, *, is_wrapped: bool = True) -> list[int]:
    """Kill an editor while its agent works; the processes that there were: what it started, the agent, its child."""
    arguments = [str(Path(__file__).parents[2]), str(state), word, str(is_wrapped)]
    pipe = asyncio.subprocess.PIPE
    editor = await asyncio.create_subprocess_exec(sys.executable, "-c", EDITOR, *arguments, stdout=pipe)
    assert editor.stdout is not None
    async with asyncio.timeout(BOUND_S):
        pids = [int(text) for text in (await editor.stdout.readline()).split()]
    assert len(pids) == 3
    editor.kill()
    await editor.wait()
    return pids


@pytest.mark.parametrize(("word", "cause"), [("deaf", "exit"), ("stubborn", "owner")])
async def test_nothing_is_left_of_an_editor_that_is_killed(tmp_path: Path, word: str, cause: str) -> None:
    assert all(wait_exited(pid) for pid in await killed_editor(tmp_path / "state", word))
    assert report(tmp_path / "state")["cause"] == cause  # an agent that exits by itself is left to do so


async def test_without_holdfast_the_agents_child_is_left(tmp_path: Path) -> None:
    *_others, child = await killed_editor(tmp_path / "state", "deaf", is_wrapped=False)
    assert not wait_exited(child, 1.0)
    os.kill(child, signal.SIGKILL)


async def test_nothing_is_left_of_a_proxy_that_is_killed(tmp_path: Path) -> None:
    async with proxied(tmp_path / "state", "--grace", "300ms") as session:
        prompt = asyncio.create_task(session.prompt("stubborn"))
        pids = [int(pid) for pid in await session.editor.hears(r"pid=(\d+)")]
        session.process.kill()
        with pytest.raises(ConnectionError):
            await prompt
    assert all(wait_exited(pid) for pid in pids)


async def test_a_signal_ends_the_agent_and_the_prompt(tmp_path: Path) -> None:
    async with proxied(tmp_path / "state") as session:
        prompt = asyncio.create_task(session.prompt("listen"))
        await session.editor.hears("listening")
        session.process.terminate()
        with pytest.raises(RequestError) as caught:
            await prompt
        assert (caught.value.code, data_of(caught)["cause"]) == (-32802, "shutdown")


async def test_terminals_of_holdfast_when_the_editor_has_none(tmp_path: Path) -> None:
    async with proxied(tmp_path / "state") as session:
        await session.prompt("end")
        await session.editor.hears("terminal=True")
        await session.prompt("terminal echo hello; exit 3")
        await session.editor.hears("hello code=3 signal=None")
        await session.prompt("leave_terminal")
        (pid,) = await session.editor.hears(r"pid=(\d+) signal=SIGTERM")
    assert wait_exited(int(pid))  # it was never released


async def test_the_editors_own_terminals_are_left_alone(tmp_path: Path) -> None:
    """This editor says that it has terminals and has none: the agent gets the editor's answer."""
    async with proxied(tmp_path / "state", terminal=True) as session:
        with pytest.raises(RequestError):
            await session.prompt("terminal echo hello")
    async with proxied(tmp_path / "always", "--terminals", "always", terminal=True) as session:
        await session.prompt("terminal echo hello")
        await session.editor.hears("hello code=0")
    async with proxied(tmp_path / "never", "--terminals", "never") as session:
        await session.prompt("end")
        await session.editor.hears("terminal=False")


class TestVersion2:
    async def test_ends(self, tmp_path: Path) -> None:
        async with wired(tmp_path / "state", "--prompt-timeout", "1500ms", "--grace", "20s") as wire:
            assert (await wire.end_of("end"))["stopReason"] == "end_turn"
            late = await wire.end_of("listen")  # the agent says cancelled, but nobody cancelled it
            assert (late["stopReason"], late["_meta"]["cause"], late["_meta"]["own"]) == ("error", "deadline", 1)
            assert (await wire.end_of("listen", cancel=True))["stopReason"] == "cancelled"

    async def test_an_agent_that_does_not_listen(self, tmp_path: Path) -> None:
        async with wired(tmp_path / "cancel", "--grace", "300ms") as wire:
            ended = await wire.end_of("deaf", cancel=True)
            assert (ended["stopReason"], ended["_meta"]["cause"]) == ("cancelled", "user")
        async with wired(tmp_path / "timeout", "--prompt-timeout", "1s", "--grace", "300ms") as wire:
            ended = await wire.end_of("deaf")
            assert (ended["stopReason"], ended["_meta"]["cause"]) == ("error", "deadline")

    async def test_an_agent_that_dies(self, tmp_path: Path) -> None:
        async with wired(tmp_path / "state") as wire:
            ended = await wire.end_of("exit 5")
            assert (ended["stopReason"], ended["_meta"]["exit_code"]) == ("error", 5)

    async def test_a_prompt_that_was_never_accepted(self, tmp_path: Path) -> None:
        async with wired(tmp_path / "state", "--prompt-timeout", "1s", "--grace", "300ms") as wire:
            wire.send("session/prompt", 3, sessionId="s", prompt=[{"type": "text", "text": "refuse"}])
            error = (await wire.read())["error"]
            assert (error["code"], error["data"]["cause"]) == (-32603, "deadline")
