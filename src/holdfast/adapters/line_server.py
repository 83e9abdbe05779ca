"""A program that speaks lines over stdin and stdout, as the stdio servers of agents do, and always ends.

It is a run of a supervisor of its own. Leaving the block closes stdin, which asks such a program to end. What is still
there after `exit_wait` is ended by the ladder, with everything that the program started.
"""

from __future__ import annotations

import shutil
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio

from ..runs.supervisor import Supervisor
from ..streams.lines import LineSplitter
from ..values.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from typing import Unpack

    from ..runs.run import Run
    from ..values.options import SpecOptions

EXIT_WAIT_S = 2.0
_DEFAULTS: SpecOptions = {"grace": 2.0}


class LineServer:
    """The program while it runs: lines in, lines out. Output that nobody reads is bounded; the program waits then."""

    def __init__(self, run: Run, on_stderr: Callable[[bytes], None] | None) -> None:
        self.run = run
        self._on_stderr = on_stderr
        self._output = run.output()

    async def send(self, data: bytes) -> bool:
        """Write to stdin; False when the program has closed it."""
        try:
            return await self.run.write_stdin(data)
        except RequestError:  # it is over, and its descriptors are closed
            return False

    async def lines(self, longest: int) -> AsyncIterator[bytes | None]:
        """The complete lines of stdout; None stands for a line that was longer than this and is dropped."""
        splitter = LineSplitter(longest)
        async for chunk in self._output:
            if chunk.stream == "stdout":
                for line in splitter.feed(chunk.data):
                    yield line
            elif self._on_stderr is not None:
                self._on_stderr(chunk.data)

    async def end_input(self) -> None:
        """Close stdin. Twice does no harm."""
        await self.run.close_stdin()


@asynccontextmanager
async def open_line_server(
    argv: Sequence[str],
    *,
    on_stderr: Callable[[bytes], None] | None = None,
    exit_wait_s: float = EXIT_WAIT_S,
    **options: Unpack[SpecOptions],
) -> AsyncIterator[LineServer]:
    """Start the program, and end it with the block. FileNotFoundError: there is no such program."""
    env = options.get("env") or {}
    if shutil.which(argv[0], path=env.get("PATH")) is None:
        raise FileNotFoundError(2, "there is no such program", argv[0])
    async with Supervisor() as supervisor:
        supervisor.leave_with("user", "the client was closed")
        chosen: SpecOptions = {**_DEFAULTS, **options, "stdin": "pipe"}
        run = await supervisor.start(argv, keep_output=False, **chosen)
        server = LineServer(run, on_stderr)
        try:
            yield server
        finally:
            # Shielded, as the end of the supervisor is: a cancelled client gets a clean end, too.
            with anyio.move_on_after(exit_wait_s, shield=True):
                await server.end_input()
                await run.settled()
