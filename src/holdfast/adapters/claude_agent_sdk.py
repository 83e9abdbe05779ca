"""Claude Agent SDK: a `Transport` whose Claude Code, with all its tools, ends. Needs the extra `claude-agent-sdk`.

```python
ClaudeSDKClient(options, transport=HoldfastTransport(options))
```

The SDK connects in one task and closes in another, perhaps one that was cancelled. A supervisor's block belongs to one
task, so a task of its own holds it: from `connect` to the end of the tree.
"""

from __future__ import annotations

import asyncio
import json
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
from claude_agent_sdk import ClaudeAgentOptions, CLIConnectionError, CLIJSONDecodeError, ProcessError, Transport
from claude_agent_sdk._internal.transport.subprocess_cli import SubprocessCLITransport  # the options as a command line

from ..projections.exit_code import exit_code
from ..streams.lines import LONGEST_LINE, LineSplitter
from .line_server import open_line_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
    from typing import Unpack

    from ..values.options import SpecOptions
    from .line_server import LineServer

_EXIT_WAIT_S = 5.0  # from the end of its input Claude Code writes its session file; the SDK waits as long
_SDK_MARK = {"CLAUDE_CODE_ENTRYPOINT": "sdk-py", "CLAUDE_CODE_SDK_READS_SESSION_STATE": "1"}


class HoldfastTransport(Transport):
    """Claude Code as a run. The options are those of a run; `argv` replaces the command that the SDK would start."""

    def __init__(
        self,
        options: ClaudeAgentOptions | None = None,
        argv: Sequence[str] | None = None,
        **run_options: Unpack[SpecOptions],
    ) -> None:
        self._options = options or ClaudeAgentOptions()
        if self._options.user is not None:
            raise ValueError("a run has the user of its caller: leave `user` out of the options")
        self._argv = argv
        self._run_options = run_options
        self._server: LineServer | None = None
        self._failure: BaseException | None = None
        self._connected = anyio.Event()
        self._closing = anyio.Event()
        self._ended = anyio.Event()
        self._is_ready = False

    async def connect(self) -> None:
        """Start Claude Code. CLIConnectionError: it cannot be started."""
        if self._server is not None:
            return
        argv = self._argv
        if argv is None:
            argv = await anyio.to_thread.run_sync(_command, self._options)
        _start_task(partial(self._hold, argv))
        await self._connected.wait()
        if self._failure is not None:
            raise CLIConnectionError(f"Claude Code was not started: {self._failure}") from self._failure
        self._is_ready = True

    async def write(self, data: str) -> None:
        """Write to Claude Code's stdin. CLIConnectionError: it is closed."""
        if self._server is None or not self._is_ready or not await self._server.send(data.encode()):
            self._is_ready = False
            raise CLIConnectionError("Claude Code does not read its input any more")

    async def read_messages(self) -> AsyncIterator[dict[str, Any]]:  # type: ignore[override]
        """The messages until Claude Code ends. ProcessError: it failed. CLIJSONDecodeError: a line is no message."""
        if self._server is None:
            raise CLIConnectionError("not connected")
        async for line in self._server.lines(self._options.max_buffer_size or LONGEST_LINE):
            if line is None or line.startswith(b"{"):
                yield _message(line)
        outcome = await self._server.run.wait()
        if outcome.status not in ("succeeded", "cancelled"):
            raise ProcessError(f"Claude Code {outcome.status}: {outcome.reason}", exit_code=exit_code(outcome))

    async def close(self) -> None:
        """End the input, wait, climb the ladder; returns when the whole tree is gone. Bounded by the run's grace."""
        self._is_ready = False
        self._closing.set()
        if self._server is not None:
            with anyio.CancelScope(shield=True):
                await self._ended.wait()

    def is_ready(self) -> bool:
        """Whether Claude Code takes input."""
        return self._is_ready

    async def end_input(self) -> None:
        """Close Claude Code's stdin."""
        if self._server is not None:
            await self._server.end_input()

    async def _hold(self, argv: Sequence[str]) -> None:
        settings: SpecOptions = {
            "cwd": None if self._options.cwd is None else str(self._options.cwd),
            "env": {**_SDK_MARK, **_settings(self._options), **self._options.env},
            **self._run_options,
        }
        told = self._options.stderr
        if told is None:
            settings = {"stderr": "inherit", **settings}
        on_stderr = None if told is None else _by_line(told)
        try:
            async with open_line_server(argv, on_stderr=on_stderr, exit_wait_s=_EXIT_WAIT_S, **settings) as server:
                self._server = server
                self._connected.set()
                await self._closing.wait()
        except Exception as error:  # noqa: BLE001 - `connect` raises it in the caller's task
            self._failure = error
        finally:
            self._connected.set()
            self._ended.set()


def _command(options: ClaudeAgentOptions) -> list[str]:
    """The command line that the SDK would start for these options."""
    transport = SubprocessCLITransport(prompt="", options=options)
    transport._cli_path = transport._cli_path or transport._find_cli()  # noqa: SLF001 - there is no public way
    return [str(word) for word in transport._build_command()]  # noqa: SLF001


def _settings(options: ClaudeAgentOptions) -> dict[str, str]:
    """The settings that the SDK passes by variables and not by flags."""
    settings = {} if options.client_app is None else {"CLAUDE_AGENT_SDK_CLIENT_APP": options.client_app}
    if options.enable_file_checkpointing:
        settings["CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING"] = "true"
    return settings


def _message(line: bytes | None) -> dict[str, Any]:
    try:
        if line is None:
            raise ValueError("longer than max_buffer_size")
        message: dict[str, Any] = json.loads(line)
    except ValueError as error:
        raise CLIJSONDecodeError(repr((line or b"")[:200]), error) from error
    return message


def _by_line(told: Callable[[str], None]) -> Callable[[bytes], None]:
    splitter = LineSplitter()

    def tell(data: bytes) -> None:
        for line in splitter.feed(data):
            if line:
                told(line.decode(errors="replace"))

    return tell


_tasks: set[asyncio.Task[None]] = set()  # asyncio itself holds its tasks weakly


def _start_task(function: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Start a task that belongs to no scope, on asyncio or trio."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        import trio

        trio.lowlevel.spawn_system_task(function)
        return
    task = loop.create_task(function())
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)
