"""An agent made with the SDK; the text of a prompt says what it does. It is started by `holdfast acp`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from typing import Any

from acp.schema import InitializeResponse, NewSessionResponse, PromptResponse

import acp

HELPER = "import time; time.sleep(600)"


class ScriptedAgent:
    """Does what the prompt says."""

    client: Any
    capabilities: Any

    def __init__(self) -> None:
        self.cancelled: dict[str, asyncio.Event] = {}
        self.sessions = 0

    def on_connect(self, client: Any) -> None:
        self.client = client

    async def initialize(self, client_capabilities: Any = None, **_: Any) -> InitializeResponse:
        self.capabilities = client_capabilities
        return InitializeResponse(protocol_version=1)

    async def new_session(self, **_: Any) -> NewSessionResponse:
        self.sessions += 1
        name = f"session-{self.sessions}"
        self.cancelled[name] = asyncio.Event()
        return NewSessionResponse(session_id=name)

    async def cancel(self, session_id: str, **_: Any) -> None:
        self.cancelled[session_id].set()

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> PromptResponse:
        self.cancelled[session_id].clear()
        word, _space, rest = prompt[0].text.partition(" ")
        answer: PromptResponse = await getattr(self, word)(session_id, rest)
        return answer

    async def say(self, session_id: str, text: str) -> None:
        await self.client.session_update(session_id, acp.update_agent_message(acp.text_block(text)))

    # What a prompt can ask for.

    async def end(self, session_id: str, _rest: str) -> PromptResponse:
        await self.say(session_id, f"pid={os.getpid()} terminal={self.capabilities.terminal}")
        return PromptResponse(stop_reason="end_turn")

    async def listen(self, session_id: str, rest: str) -> PromptResponse:
        """Ends when it is cancelled, with this stop reason."""
        await self.say(session_id, "listening")
        await self.cancelled[session_id].wait()
        return PromptResponse(stop_reason=rest or "cancelled")  # type: ignore[arg-type]

    async def stumble(self, session_id: str, _rest: str) -> PromptResponse:
        """Fails when it is cancelled."""
        await self.say(session_id, "listening")
        await self.cancelled[session_id].wait()
        raise acp.RequestError(-32000, "aborted")

    async def deaf(self, session_id: str, _rest: str) -> PromptResponse:
        """Hears no cancel, and has a child in a session of its own."""
        await self._have_a_child(session_id)
        await asyncio.sleep(600)
        raise AssertionError

    async def stubborn(self, session_id: str, _rest: str) -> PromptResponse:
        """As `deaf`, and does not see that its stdin ends."""
        await self._have_a_child(session_id)
        time.sleep(600)  # noqa: ASYNC251 - so that nothing else happens
        raise AssertionError

    async def _have_a_child(self, session_id: str) -> None:
        child = await asyncio.create_subprocess_exec(sys.executable, "-c", HELPER, start_new_session=True)
        await self.say(session_id, f"pid={os.getpid()} pid={child.pid}")

    async def ignore(self, session_id: str, _rest: str) -> PromptResponse:
        """Ignores SIGTERM, and never ends."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        await self.say(session_id, "listening")
        await asyncio.sleep(600)
        raise AssertionError

    async def fork(self, _session_id: str, rest: str) -> PromptResponse:
        """Starts this many processes; where the kernel keeps the budget, it refuses some."""
        with contextlib.suppress(BlockingIOError):
            for _ in range(int(rest)):
                await asyncio.create_subprocess_exec("sleep", "600")
        await asyncio.sleep(600)
        raise AssertionError

    async def spin(self, _session_id: str, _rest: str) -> PromptResponse:
        """Uses CPU time, for a minute at most."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            pass
        raise AssertionError

    async def crash(self, _session_id: str, rest: str) -> PromptResponse:
        os.kill(os.getpid(), int(rest or signal.SIGSEGV))
        raise AssertionError

    async def exit(self, _session_id: str, rest: str) -> PromptResponse:
        os._exit(int(rest))

    async def ask(self, session_id: str, _rest: str) -> PromptResponse:
        """Waits for a permission, for longer than its idle timeout."""
        tool = acp.schema.ToolCallUpdate(tool_call_id="1")
        option = acp.schema.PermissionOption(option_id="yes", name="yes", kind="allow_once")
        await self.client.request_permission(session_id=session_id, tool_call=tool, options=[option])
        return PromptResponse(stop_reason="end_turn")

    async def terminal(self, session_id: str, rest: str) -> PromptResponse:
        made = await self.client.create_terminal(session_id=session_id, command="sh", args=["-c", rest])
        ended = await self.client.wait_for_terminal_exit(session_id=session_id, terminal_id=made.terminal_id)
        shown = await self.client.terminal_output(session_id=session_id, terminal_id=made.terminal_id)
        await self.client.release_terminal(session_id=session_id, terminal_id=made.terminal_id)
        await self.say(session_id, f"{shown.output.strip()} code={ended.exit_code} signal={ended.signal}")
        return PromptResponse(stop_reason="end_turn")

    async def leave_terminal(self, session_id: str, _rest: str) -> PromptResponse:
        """Starts a command in a terminal, kills the second one, and ends the turn without a release."""
        first = await self.client.create_terminal(session_id=session_id, command="sh", args=["-c", "echo pid=$$; cat"])
        second = await self.client.create_terminal(session_id=session_id, command="sleep", args=["600"])
        await self.client.kill_terminal(session_id=session_id, terminal_id=second.terminal_id)
        ended = await self.client.wait_for_terminal_exit(session_id=session_id, terminal_id=second.terminal_id)
        text = ""
        while "\n" not in text:
            text = (await self.client.terminal_output(session_id=session_id, terminal_id=first.terminal_id)).output
        await self.say(session_id, f"{text.strip()} signal={ended.signal}")
        return PromptResponse(stop_reason="end_turn")


asyncio.run(acp.run_agent(ScriptedAgent()))  # type: ignore[arg-type]
