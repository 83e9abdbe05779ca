"""MCP server: a supervisor, its tools and a transport. At end of file or at a signal the server and its runs end."""

from __future__ import annotations

import signal
from importlib.metadata import version
from typing import TYPE_CHECKING, NamedTuple

import anyio
from mcp.server.mcpserver import MCPServer
from mcp.server.stdio import stdio_server

from ..runs.supervisor import Supervisor
from ..state.directory import StateDirectory
from ..values.run_id import new_run_id
from .message_relay import MessageRelay
from .runs import McpRuns
from .stdio import take_standard_streams
from .tasks import TasksExtension
from .tools import McpTools

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Transport = Callable[[MCPServer, anyio.Event], Awaitable[None]]

    from .limits import ServerLimits

_LAST_ANSWERS_S = 2.0
_INSTRUCTIONS = """\
Runs commands as processes that always end: on time, with everything they started, and with one true outcome.
`exec` answers with the result when the command ends within wait_s, else with a run_id while it goes on: use `wait`,
`poll`, `output`, `send_input` and `cancel` with it. `list` shows what is running, and
`changes` what has changed since you last asked.
Read `status` (succeeded, failed, timed_out, cancelled, lost) and `cause`, not only the exit code."""


class McpSettings(NamedTuple):
    """The settings of a server. `listen`: host and port, or None for the standard streams."""

    state_dir: str | None
    limits: ServerLimits
    session: str | None = None
    detached: bool = False
    listen: tuple[str, int] | None = None


def make_server(runs: McpRuns) -> MCPServer:
    """Make the server with its tools and the tasks extension, without a transport."""
    return MCPServer(
        "holdfast",
        title="Holdfast",
        instructions=_INSTRUCTIONS,
        version=version("holdfast"),
        tools=McpTools(runs).all(),
        extensions=[TasksExtension(runs)],
        log_level="WARNING",
    )


async def serve(settings: McpSettings) -> None:
    """Serve until end of file (stdio), SIGTERM or SIGINT; then end the runs, unless they are detached.

    StateError: the state directory or the token cannot be used. HoldfastError: the address cannot be used.
    """
    state = StateDirectory.open(settings.state_dir)
    transport: Transport = _stdio if settings.listen is None else _http(settings, state)
    session = settings.session or f"mcp-{new_run_id()}"
    async with Supervisor(state_dir=state.path) as supervisor:
        runs = McpRuns(supervisor, state, settings.limits, session=session, detached=settings.detached)
        if settings.session is not None:
            await runs.adopt_session()
        await _until_signal(transport, runs)


async def _until_signal(transport: Transport, runs: McpRuns) -> None:
    stop = anyio.Event()
    async with anyio.create_task_group() as group:

        async def listen() -> None:
            with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
                async for _ in signals:
                    break  # the default action is back: a second signal ends the server, and the guards end the runs
            runs.end_waits()
            stop.set()

        group.start_soon(listen)
        await transport(make_server(runs), stop)
        group.cancel_scope.cancel()


async def _stdio(server: MCPServer, stop: anyio.Event) -> None:
    reader, writer = take_standard_streams()
    relay = MessageRelay()
    low = server._lowlevel_server  # noqa: SLF001 - the public function uses its own streams, which cannot be interrupted
    async with anyio.create_task_group() as group:

        async def end_at_stop() -> None:
            await stop.wait()
            group.cancel_scope.deadline = (
                anyio.current_time() + 2 * _LAST_ANSWERS_S
            )  # a client that does not read must not delay the end
            with anyio.move_on_after(_LAST_ANSWERS_S):
                await relay.wait_answered()
            reader.end()

        group.start_soon(end_at_stop)
        async with stdio_server(reader, writer) as (incoming, outgoing):  # type: ignore[arg-type]
            await relay.serve(low, incoming, outgoing)
        group.cancel_scope.cancel()


def _http(settings: McpSettings, state: StateDirectory) -> Transport:
    from .http import HttpTransport

    assert settings.listen is not None
    return HttpTransport(settings.listen, state, settings.limits.max_runs)
