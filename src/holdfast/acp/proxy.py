"""ACP proxy (`holdfast acp`): passes messages between an editor and its agent, which is a run.

Theory of operation. Lines pass through unchanged, in both directions; the proxy parses them only to know which requests
are open. It writes lines of its own in four cases:

- a turn is over its time, or the editor cancelled it and the agent did not end it within the grace (`turns`);
- the agent is gone while requests are open: each one is answered with the outcome of the agent's run;
- the agent asks for a terminal that Holdfast gives (`own_terminals`): the answer goes to the agent;
- `initialize` of an editor without terminals is passed on with terminals.

After the proxy has answered a request itself, the agent's own answer to it is dropped: one request, one answer.

The end. The agent ends with the editor: when the editor's side closes, the agent's stdin is closed, the agent has a
moment to exit by itself, and then the ladder ends its tree. Should the proxy be killed, the guard does the same. When
the agent ends, open requests are answered and the proxy exits with the exit code of the agent's run.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, NamedTuple

import anyio

from ..projections.acp_v2 import acp_v2_stop
from ..runs.supervisor import Supervisor
from ..streams.lines import LineSplitter, LineWriter, hung_up, pieces
from ..values.errors import HoldfastError
from . import messages
from .agent_input import AgentInput
from .own_terminals import OwnTerminals
from .turn_ends import VERSION_2, abandoned_turn, ended_turn, idle_update, rpc_error
from .turns import Turns

if TYPE_CHECKING:
    from ..journal.facts import Fact
    from ..outcome import Outcome
    from ..runs.supervisor import Run
    from ..values.spec import RunSpec
    from .messages import AcpMessage
    from .turns import Turn

_LONGEST_LINE = 256 << 20
_LEAVE_S = 2.0  # for an agent that exits by itself when its stdin ends
_REST_S = 1.0  # for what the agent wrote before it ended
_FLUSH_S = 2.0


class AcpSettings(NamedTuple):
    """The settings of the proxy, besides the spec of the agent's run."""

    prompt_timeout_s: float | None
    idle_timeout_s: float | None
    terminals: str  # when Holdfast gives the terminals: auto (if the editor has none), always or never
    state_dir: str | None


class AcpProxy:
    """The conversation of one editor with one agent."""

    def __init__(self, run: Run, spec: RunSpec, settings: AcpSettings, editor: LineWriter, errors: LineWriter) -> None:
        self._run = run
        self._editor = editor
        self._errors = errors
        self._policy = settings.terminals
        self._turns = Turns(
            prompt_timeout_s=settings.prompt_timeout_s, idle_timeout_s=settings.idle_timeout_s, grace_s=spec.grace_s
        )
        self._agent = AgentInput(run)
        options = {"grace": spec.grace_s, "session": spec.session, "parent": run.run_id}
        self.terminals = OwnTerminals(settings.state_dir, options, self._answer_agent)  # type: ignore[arg-type]
        self._gives_terminals = False
        self._version = 1
        self._open: dict[str, str] = {}  # the editor's requests that have no answer: key to method
        self._answered: set[str] = set()  # keys of requests that we answered: the agent's own answer is dropped
        self._clocks = anyio.Event()
        self._drained = anyio.Event()
        self._has_requests = anyio.Event()

    async def converse(self) -> Outcome:
        """Pass messages on until the agent has ended, answer the open requests, and return the run's outcome.

        An exception group with a HoldfastError: the run cannot be read. The editor then sees the end of our output.
        """
        async with anyio.create_task_group() as tasks:
            for task in (self._agent.run, self._read_agent, self._read_editor, self._keep_time, self._take_signals):
                tasks.start_soon(task)
            tasks.start_soon(self.terminals.serve)
            outcome = await self._run.wait()
            with anyio.move_on_after(_REST_S):
                await self._drained.wait()
            if outcome.cause == "spawn":
                with anyio.move_on_after(_REST_S):  # the first request may still come, and must get the reason
                    await self._has_requests.wait()
            await self._answer_all(outcome)
            self.terminals.close()
            with anyio.move_on_after(_FLUSH_S):
                await self._editor.flushed()
            await self._run.settled()
            tasks.cancel_scope.cancel()
        return self._run.outcome

    # From the editor.

    async def _read_editor(self) -> None:
        async with anyio.create_task_group() as either:

            async def read() -> None:
                lines = LineSplitter(_LONGEST_LINE)
                async for data in pieces(0):
                    for line in lines.feed(data):
                        self._take_from_editor(line)
                    await self._agent.room()
                either.cancel_scope.cancel()

            async def no_reader() -> None:
                await self._editor.broken()
                either.cancel_scope.cancel()

            async def no_writer() -> None:
                await hung_up(0)
                await anyio.sleep(_LEAVE_S)  # time to read what the editor wrote before
                either.cancel_scope.cancel()

            for task in (read, no_reader, no_writer):
                either.start_soon(task)
        self._agent.close()
        with anyio.move_on_after(_LEAVE_S):
            await self._run.wait()
        await self._end_agent("owner", "the editor closed the connection")

    def _take_from_editor(self, line: bytes | None) -> None:
        if line is None:
            log(f"a message of the editor is longer than {_LONGEST_LINE >> 20} MiB: it is not passed on")
            return
        message = messages.parse(line)
        if message is not None:
            line = self._see_editor(message, line)
        self._agent.send(line + b"\n")

    def _see_editor(self, message: AcpMessage, line: bytes) -> bytes:
        """Take note of a message for the agent, and return the line to pass on."""
        now = anyio.current_time()
        match message.method, message.key:
            case None, str(key):
                self._turns.answered(key, now)
            case "session/cancel", None:
                self._turns.cancel(message.session_id, now)
            case str(method), str(key):
                self._open[key] = method
                self._has_requests.set()
                if method == "session/prompt" and message.session_id is not None:
                    self._turns.begin(key, message.session_id, now)
                elif method == "initialize" and self._offers_terminals(message):
                    line = messages.encode(message.body).removesuffix(b"\n")
        self._wake_clock()
        return line

    def _offers_terminals(self, initialize: AcpMessage) -> bool:
        """Whether Holdfast gives the terminals. Then `initialize` says so. Version 2 has no terminals."""
        if self._policy == "never" or initialize.params.get("protocolVersion") != 1:
            return False
        given = initialize.params.get("clientCapabilities")
        capabilities = given if isinstance(given, dict) else {}
        if self._policy == "auto" and capabilities.get("terminal") is True:
            return False
        self._gives_terminals = True
        initialize.params["clientCapabilities"] = {**capabilities, "terminal": True}
        return True

    # From the agent.

    async def _read_agent(self) -> None:
        lines = LineSplitter(_LONGEST_LINE)
        async for chunk in self._run.output(late=True):
            if chunk.stream == "stderr":
                self._errors.offer(chunk.data)
                continue
            for line in lines.feed(chunk.data):
                if line is None:
                    log(f"a message of the agent is longer than {_LONGEST_LINE >> 20} MiB: it is not passed on")
                elif (passed := self._see_agent(line)) is not None:
                    await self._editor.send(passed)
        if lines.is_begun:
            log("the agent stopped in the middle of a line; that line is not passed on")
        self._drained.set()

    def _see_agent(self, line: bytes) -> bytes | None:
        """Take note of a line of the agent, and return the line for the editor; None when the editor gets nothing."""
        message = messages.parse(line)
        if message is None:
            return line + b"\n"
        now = anyio.current_time()
        self._turns.active(message.session_id, now)
        self._wake_clock()
        match message.method, message.key:
            case None, str(key):
                return self._see_answer(message, key, line)
            case str(method), str(key):
                self._turns.asked(message.session_id, key)
                if self._gives_terminals and method.startswith("terminal/"):
                    self.terminals.ask(message)
                    return None
            case "session/update", None if self._version >= VERSION_2:
                return self._see_update(message) or line + b"\n"
        return line + b"\n"

    def _see_answer(self, message: AcpMessage, key: str, line: bytes) -> bytes | None:
        """Take note of the agent's answer to the editor, and return the line for the editor.

        None when the proxy has answered the request already.
        """
        if key in self._answered:
            self._answered.discard(key)
            return None
        result = message.result
        if self._open.pop(key, None) == "initialize" and result is not None:
            version = result.get("protocolVersion")
            self._version = version if isinstance(version, int) else 1
            self._gives_terminals = self._gives_terminals and self._version == 1
        turn = self._turns.open.get(key)
        if turn is not None and self._version >= VERSION_2 and result is not None:
            turn.is_accepted = True
        elif turn is not None:
            self._turns.close(turn)
            # If the editor cancelled and the agent answers with a result, the editor gets the agent's own words:
            # `cancelled`, or the end that the turn reached before the cancel.
            if turn.ending is not None and not (turn.ending.kind == "stop_asked" and result is not None):
                return self._ended(turn)
        return line + b"\n"

    def _see_update(self, message: AcpMessage) -> bytes | None:
        """Version 2: end the turns of a session that is now idle.

        Returns the update that the editor gets in place of the agent's own; None when it gets the agent's own.
        """
        update = message.params.get("update")
        if not isinstance(update, dict) or (update.get("sessionUpdate"), update.get("state")) != (
            "state_update",
            "idle",
        ):
            return None
        replaced = None
        for turn in self._turns.of_session(message.session_id):
            self._turns.close(turn)
            if turn.ending is not None and turn.ending.kind != "stop_asked":
                stop = acp_v2_stop(turn.outcome(self._started), self._run.run_id)
                replaced = idle_update(turn.session_id, stop, update)
        return replaced

    def _answer_agent(self, line: bytes) -> None:
        """Send the answer to a `terminal/*` request."""
        answered = messages.parse(line)
        if answered is not None and answered.key is not None:
            self._turns.answered(answered.key, anyio.current_time())
            self._wake_clock()
        self._agent.send(line)

    # Clocks and ends.

    async def _keep_time(self) -> None:
        while True:
            self._clocks = anyio.Event()
            with anyio.move_on_after(self._turns.next_due() - anyio.current_time()):
                await self._clocks.wait()
            now = anyio.current_time()
            for turn in self._turns.expire(now):
                self._agent.send(messages.notification("session/cancel", {"sessionId": turn.session_id}))
            if overdue := self._turns.overdue(now):
                await self._give_up(overdue)

    async def _give_up(self, overdue: list[Turn]) -> None:
        """End turns that did not end within the grace, and the agent with them."""
        for turn in overdue:
            self._turns.close(turn)
            if self._open.pop(turn.key, None) is not None:
                self._answered.add(turn.key)
            await self._editor.send(self._ended(turn))
        outcome = overdue[0].outcome(self._started)
        cause = "user" if outcome.cause == "user" else "shutdown"
        await self._end_agent(cause, f"a prompt did not end within the grace: {outcome.reason}")

    def _ended(self, turn: Turn) -> bytes:
        return ended_turn(turn, turn.outcome(self._started), self._run.run_id, self._version)

    async def _answer_all(self, outcome: Outcome) -> None:
        """Answer every open request and end every open turn, because the agent is gone."""
        for turn in list(self._turns.open.values()):
            self._turns.close(turn)
            self._open.pop(turn.key, None)
            is_ours = turn.ending is not None
            end = self._ended(turn) if is_ours else abandoned_turn(turn, outcome, self._run.run_id)
            await self._editor.send(end)
        for key in list(self._open):
            await self._editor.send(messages.answer(key, error=rpc_error(outcome, self._run.run_id)))
        self._open.clear()

    async def _end_agent(self, cause: str, reason: str, *, now: bool = False) -> None:
        try:
            await self._run.cancel(reason, cause=cause, now=now)
        except HoldfastError as error:
            log(str(error))

    async def _take_signals(self) -> None:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
            again = False
            async for number in signals:
                await self._end_agent("shutdown", f"holdfast acp got {number.name}", now=again)
                again = True

    def _wake_clock(self) -> None:
        self._clocks.set()

    @property
    def _started(self) -> Fact | None:
        return self._run.outcome.started


def log(text: str) -> None:
    """Write one line to stderr; a failure to write is ignored, because nothing else could tell it."""
    try:
        os.write(2, f"holdfast acp: {text}\n".encode("utf-8", "backslashreplace"))
    except OSError:
        pass


async def serve(spec: RunSpec, settings: AcpSettings) -> Outcome:
    """Start the agent, be its proxy on stdin and stdout, and return the outcome of the agent's settled run."""
    editor, errors = LineWriter(1), LineWriter(2)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(editor.run)
            tasks.start_soon(errors.run)
            async with Supervisor(state_dir=settings.state_dir) as supervisor:
                run = await supervisor.start_spec(spec, keep_output=False)
                outcome = await AcpProxy(run, spec, settings, editor, errors).converse()
            with anyio.move_on_after(_FLUSH_S):
                await errors.flushed()
            tasks.cancel_scope.cancel()
        return outcome
    finally:
        editor.close()
        errors.close()


def main(spec: RunSpec, settings: AcpSettings) -> Outcome:
    """Run the program and return the outcome of the agent's run.

    HoldfastError: the agent was not started, or its run cannot be read.
    """
    sys.stdout = sys.stderr  # a stray print must not get into the protocol
    try:
        return anyio.run(serve, spec, settings)
    except BaseExceptionGroup as group:
        raise _first(group) from None


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first error of a group of groups."""
    error = group.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error
