"""The `terminal/*` methods of an ACP client: a terminal is a run, and has the id of the run."""

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
from ..values.durations import parse_duration
from ..values.errors import HoldfastError, SpecError
from ..values.options import ACP, OPTIONS
from .terminal import INTERNAL_ERROR, AcpTerminal

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self, Unpack

    from anyio.abc import TaskGroup

    from ..values.options import SpecOptions

META = "holdfast"
# The options of a run that an agent may set for one terminal, in `_meta.holdfast` of terminal/create; in seconds.
_SETTABLE = {option.json_name: option.name for option in OPTIONS if ACP in option.surfaces}
_MOST_OUTPUT_BYTES = 16 << 20


class Terminals:
    """The terminals of one ACP client. The end of the `async with` block ends all of them.

    Make it a part of your client, or call its methods from your client: it has the methods of `acp.Client` for
    terminals, with the same arguments. The options of `Supervisor.start` hold for every terminal; an agent may ask for
    shorter times, and not for longer times. The methods raise only RequestError, which the connection turns into an
    answer.
    """

    def __init__(self, *, state_dir: str | os.PathLike[str] | None = None, **options: Unpack[SpecOptions]) -> None:
        """With a `state_dir`, other programs find the runs (`holdfast ps`). StateError: it cannot be used."""
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
        # The runs end first, because the readers of their output end with them.
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
        """`terminal/create`: answers when the command runs. RequestError: it cannot be started."""
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
        """`terminal/output`: the output that the terminal still shows, and the exit status after the verdict."""
        terminal = self._find(session_id, terminal_id)
        # Read before the output: an exit status promises that the output in the same answer is complete.
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
        """`terminal/wait_for_exit`: answers at the verdict, while the rest of the tree may still be ending."""
        terminal = self._find(session_id, terminal_id)
        try:
            await terminal.run.wait()
        except HoldfastError as error:
            raise RequestError(INTERNAL_ERROR, str(error)) from error
        await terminal.settle()
        return WaitForTerminalExitResponse.model_validate(terminal.exit_status())

    async def kill_terminal(self, session_id: str, terminal_id: str, **_kwargs: Any) -> KillTerminalResponse:
        """`terminal/kill`: ends the command and its whole tree. Output and exit status stay available."""
        await self._find(session_id, terminal_id).end("terminal/kill")
        return KillTerminalResponse()

    async def release_terminal(self, session_id: str, terminal_id: str, **_kwargs: Any) -> ReleaseTerminalResponse:
        """`terminal/release`: ends a command that still runs, and forgets the terminal: its id is no longer valid."""
        terminal = self._find(session_id, terminal_id)
        del self._terminals[terminal_id]
        await terminal.end("terminal/release")
        assert self._group is not None
        self._group.start_soon(self._free, terminal, name=f"holdfast release {terminal_id}")
        return ReleaseTerminalResponse()

    async def release_session(self, session_id: str) -> None:
        """Release every terminal of a session, because the session is closed or its agent is gone."""
        for terminal_id in [key for key, terminal in self._terminals.items() if terminal.session_id == session_id]:
            await self.release_terminal(session_id, terminal_id)

    async def _free(self, terminal: AcpTerminal) -> None:
        """Close the descriptors of a terminal when its run is settled."""
        try:
            await terminal.run.settled()
        except HoldfastError:
            pass  # the journal cannot be read, or the supervisor is closed: the descriptors are closed in any case
        await terminal.drained.wait()
        terminal.run.close()

    def _find(self, session_id: str, terminal_id: str) -> AcpTerminal:
        terminal = self._terminals.get(terminal_id)
        if terminal is None or terminal.session_id != session_id:
            raise _invalid(f"there is no terminal {terminal_id!r} in this session; was it released?")
        return terminal


def _narrow(options: SpecOptions, asked: object) -> None:
    """Put the times that an agent asks for in `_meta` into the options, if they are shorter. SpecError: malformed."""
    if asked is None:
        return
    if not isinstance(asked, dict) or asked.keys() - _SETTABLE.keys():
        remedy = f"use {', '.join(_SETTABLE)}"
        raise SpecError(f"_meta.{META} has something that cannot be set", field="_meta", remedy=remedy)
    for name, value in asked.items():
        option = _SETTABLE[name]
        ours = options.get(option)
        seconds = parse_duration(value, field=name)
        shorter = seconds if ours is None else min(seconds, parse_duration(ours, field=option))  # type: ignore[arg-type]
        options[option] = shorter  # type: ignore[literal-required]


def _invalid(details: str) -> RequestError:
    return RequestError(-32602, f"Invalid params: {details}", {"details": details})
