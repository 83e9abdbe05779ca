"""The `terminal/*` methods of an ACP client, on runs: a terminal is a run, and its id the run's.

A command that cannot be started, and a run that was lost, are errors of the call, as the protocol has no other word for
them. A terminal that we ended has a signal and no exit code, whatever the command made of it; `_meta` has the outcome.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import anyio
from acp.exceptions import RequestError
from acp.schema import (
    CreateTerminalResponse,
    EnvVariable,
    KillTerminalResponse,
    ReleaseTerminalResponse,
    TerminalExitStatus,
    TerminalOutputResponse,
    WaitForTerminalExitResponse,
)

from ..runs.supervisor import Supervisor
from ..values.errors import HoldfastError, SpecError
from ..values.options import ACP, OPTIONS
from .terminal import INTERNAL_ERROR, AcpTerminal

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self, Unpack

    from anyio.abc import TaskGroup

    from ..values.options import SpecOptions

META = "holdfast"
# What an agent may set for one terminal, in `_meta.holdfast` of terminal/create: options of a run, in seconds.
_SETTABLE = {option.json_name: option.name for option in OPTIONS if ACP in option.surfaces}
_MOST_OUTPUT_BYTES = 16 << 20


class Terminals:
    """The terminals of one client. Leaving the `async with` ends them all.

    Pass it to the connection as a part of your client, or call its methods from yours: their names and arguments are
    those of `acp.Client`. The options are those of `Supervisor.start`, for every terminal; an agent may ask for shorter
    times, not for longer ones. RequestError, which the connection turns into an answer, is all that they raise.
    """

    def __init__(self, *, state_dir: str | os.PathLike[str] | None = None, **options: Unpack[SpecOptions]) -> None:
        """With a `state_dir` the runs can be found by other programs (`holdfast ps`). StateError: it cannot be used."""
        self._options = options
        self._supervisor = Supervisor(state_dir=state_dir)
        self._terminals: dict[str, AcpTerminal] = {}
        self._group: TaskGroup | None = None

    async def __aenter__(self) -> Self:
        self._group = await anyio.create_task_group().__aenter__()
        await self._supervisor.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._group is not None
        # First the runs, because what reads their output ends with them.
        await self._supervisor.__aexit__(kind, error, trace)
        await self._group.__aexit__(None, None, None)
        for terminal in self._terminals.values():
            terminal.run.close()
        self._terminals.clear()

    async def create_terminal(
        self,
        session_id: str,
        command: str,
        args: list[str] | None = None,
        env: list[EnvVariable] | None = None,
        cwd: str | None = None,
        output_byte_limit: int | None = None,
        **kwargs: Any,
    ) -> CreateTerminalResponse:
        """`terminal/create`: answers when the command runs; it is an error when it cannot."""
        if cwd is not None and not os.path.isabs(cwd):
            raise _invalid(f"cwd {cwd!r} is not absolute")
        options: SpecOptions = {**self._options, "merge": True}
        if cwd is not None:
            options["cwd"] = cwd
        if env:
            options["env"] = {**(self._options.get("env") or {}), **{each.name: each.value for each in env}}
        try:
            _narrow(options, kwargs.get(META))
            run = await self._supervisor.start([command, *(args or [])], keep_output=False, **options)
        except SpecError as error:
            raise _invalid(str(error)) from error
        except HoldfastError as error:
            raise RequestError(INTERNAL_ERROR, str(error)) from error
        limit = _MOST_OUTPUT_BYTES if output_byte_limit is None else min(output_byte_limit, _MOST_OUTPUT_BYTES)
        terminal = AcpTerminal(session_id, run, limit)
        assert self._group is not None
        self._group.start_soon(terminal.read, name=f"holdfast terminal {run.run_id}")
        await terminal.until_begun()
        if run.cause == "spawn":
            await self._free(terminal)
            raise terminal.error()
        self._terminals[run.run_id] = terminal
        return CreateTerminalResponse(terminal_id=run.run_id, field_meta={META: {"run_id": run.run_id}})

    async def terminal_output(self, session_id: str, terminal_id: str, **_kwargs: Any) -> TerminalOutputResponse:
        """`terminal/output`: what it shows now, and how it ended if it has."""
        terminal = self._find(session_id, terminal_id)
        # Looked at before the output is: an exit status says that the output in the same answer is all there is.
        is_decided = terminal.run.status is not None
        if is_decided:
            await terminal.settle()
        text, truncated = terminal.tail.text(ended=terminal.drained.is_set())
        response = TerminalOutputResponse(output=text, truncated=truncated)
        if is_decided:
            response.exit_status = TerminalExitStatus.model_validate(terminal.exit_status())
        return response

    async def wait_for_terminal_exit(
        self, session_id: str, terminal_id: str, **_kwargs: Any
    ) -> WaitForTerminalExitResponse:
        """`terminal/wait_for_exit`: answers at the verdict; what is left of the tree does not hold it up."""
        terminal = self._find(session_id, terminal_id)
        try:
            await terminal.run.wait()
        except HoldfastError as error:
            raise RequestError(INTERNAL_ERROR, str(error)) from error
        await terminal.settle()
        return WaitForTerminalExitResponse.model_validate(terminal.exit_status())

    async def kill_terminal(self, session_id: str, terminal_id: str, **_kwargs: Any) -> KillTerminalResponse:
        """`terminal/kill`: ends the command and all it started; output and exit status can still be asked for."""
        await self._find(session_id, terminal_id).end("terminal/kill")
        return KillTerminalResponse()

    async def release_terminal(self, session_id: str, terminal_id: str, **_kwargs: Any) -> ReleaseTerminalResponse:
        """`terminal/release`: ends it if it still runs, and forgets it; its id is not valid any more."""
        terminal = self._find(session_id, terminal_id)
        del self._terminals[terminal_id]
        await terminal.end("terminal/release")
        assert self._group is not None
        self._group.start_soon(self._free, terminal, name=f"holdfast release {terminal_id}")
        return ReleaseTerminalResponse()

    async def release_session(self, session_id: str) -> None:
        """Release every terminal of a session: for a session that is closed, or whose agent has gone away."""
        for terminal_id in [key for key, terminal in self._terminals.items() if terminal.session_id == session_id]:
            await self.release_terminal(session_id, terminal_id)

    async def _free(self, terminal: AcpTerminal) -> None:
        """Give its descriptors back when all is over."""
        try:
            await terminal.run.settled()
        except HoldfastError:
            pass  # it cannot be read, or the supervisor was left: what there is to close is closed all the same
        await terminal.drained.wait()
        terminal.run.close()

    def _find(self, session_id: str, terminal_id: str) -> AcpTerminal:
        terminal = self._terminals.get(terminal_id)
        if terminal is None or terminal.session_id != session_id:
            raise _invalid(f"there is no terminal {terminal_id!r} in this session; was it released?")
        return terminal


def _narrow(options: SpecOptions, asked: object) -> None:
    """Take over what an agent asks for in `_meta`, as far as it is shorter. SpecError when it is nonsense."""
    if asked is None:
        return
    if not isinstance(asked, dict) or asked.keys() - _SETTABLE.keys():
        remedy = f"use {', '.join(_SETTABLE)}"
        raise SpecError(f"_meta.{META} has something that cannot be set", field="_meta", remedy=remedy)
    from ..values.durations import parse_duration

    for name, value in asked.items():
        option = _SETTABLE[name]
        ours = options.get(option)
        seconds = parse_duration(value, field=name)
        shorter = seconds if ours is None else min(seconds, parse_duration(ours, field=option))  # type: ignore[arg-type]
        options[option] = shorter  # type: ignore[literal-required]


def _invalid(details: str) -> RequestError:
    return RequestError(-32602, f"Invalid params: {details}", {"details": details})
