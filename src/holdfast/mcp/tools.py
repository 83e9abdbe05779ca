"""MCP tools: exec, poll, output, wait, cancel, send_input, list, changes. A failure is one line for a model."""

from __future__ import annotations

from contextlib import contextmanager
from errno import EBADF
from typing import TYPE_CHECKING, Annotated, Literal

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult, ToolAnnotations
from pydantic import Field

from ..projections.mcp import mcp_result
from ..values.errors import HoldfastError, RequestError, SpecError
from . import limits
from .answer_models import ChangesAnswer, InputAnswer, ListAnswer, OutputAnswer, RunAnswer
from .answers import changes_answer, list_answer, output_answer, run_answer, tool_result
from .strict_tool import StrictTool

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from mcp.server.mcpserver.tools import Tool

    from ..runs.supervisor import Run
    from ..values.options import SpecOptions
    from .runs import McpRuns

RunId = Annotated[str, Field(description="the run_id in an earlier answer")]
WaitSeconds = Annotated[
    float, Field(ge=0, le=limits.MOST_WAIT_S, description="how long to wait for the end of the run before answering")
]
MaxBytes = Annotated[
    int, Field(ge=0, le=limits.MOST_ANSWER_BYTES, description="how many bytes of output the answer may have")
]
_INPUT_S = 10.0
_OPEN_WORLD = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=True)
_READS = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
_LOOKS = ToolAnnotations(read_only_hint=True, idempotent_hint=False, open_world_hint=False)
_CHANGES = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=True)
_ENDS = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False)


@contextmanager
def told_to_the_model() -> Iterator[None]:
    """Turn our errors into ToolErrors: only the text of a ToolError reaches the model."""
    try:
        yield
    except HoldfastError as error:
        raise ToolError(str(error)) from error


class McpTools:
    """The tools of one server."""

    def __init__(self, runs: McpRuns) -> None:
        self._runs = runs

    def all(self) -> list[Tool]:
        """The tools, in the order in which clients see them."""
        return [
            StrictTool.of(self.exec, _OPEN_WORLD, "Run a command"),
            StrictTool.of(self.poll, _READS, "Look at a run"),
            StrictTool.of(self.output, _READS, "Read the output of a run"),
            StrictTool.of(self.wait, _READS, "Wait for a run"),
            StrictTool.of(self.cancel, _ENDS, "End a run"),
            StrictTool.of(self.send_input, _CHANGES, "Write to a run's stdin"),
            StrictTool.of(self.list_runs, _READS, "List runs", name="list"),
            StrictTool.of(self.changes, _LOOKS, "What changed since the last look"),
        ]

    async def exec(
        self,
        ctx: Context,
        command: Annotated[str | None, Field(description="a shell command line, for `sh -c`; use this or argv")] = None,
        argv: Annotated[list[str] | None, Field(description="the program and its arguments, without a shell")] = None,
        cwd: Annotated[str | None, Field(description="the directory to start in, below an allowed one")] = None,
        env: Annotated[
            dict[str, str] | None, Field(description="environment variables to set in addition to the inherited ones")
        ] = None,
        input: Annotated[str | None, Field(description="text for stdin; stdin is closed after it")] = None,  # noqa: A002
        interactive: Annotated[bool, Field(description="keep stdin open for `send_input`")] = False,
        pty: Annotated[bool, Field(description="give the command a terminal; implies interactive")] = False,
        timeout_s: Annotated[float | None, Field(gt=0, description="end the command after this time")] = None,
        idle_timeout_s: Annotated[
            float | None, Field(gt=0, description="end the command after this time without activity")
        ] = None,
        name: Annotated[str | None, Field(description="a name for lists")] = None,
        wait_s: WaitSeconds = limits.WAIT_S,
        max_bytes: MaxBytes = limits.ANSWER_BYTES,
    ) -> Annotated[CallToolResult, RunAnswer]:
        """Run a command. When it ends within wait_s, the answer has its result; otherwise it goes on in the background
        and the answer has its run_id for `wait`, `poll`, `output`, `send_input` and `cancel`. All its processes are
        ended at its timeout, when it is cancelled, and when the command exits and leaves some behind.
        """
        with told_to_the_model():
            options: SpecOptions = {"pty": pty, "cwd": self._runs.limits.directory(cwd)}
            options["timeout"] = self._runs.limits.timeout(timeout_s)
            if idle_timeout_s is not None:
                options["idle_timeout"] = idle_timeout_s
            if env is not None:
                options["env"] = env
            if name is not None:
                options["name"] = name
            if (input is not None or interactive) and not pty:
                options["stdin"] = "pipe"
            data = _input_bytes(input or "")
            run = await self._runs.start(_words(command, argv), options)
            if input is not None:
                await self._feed(run, data, eof=not interactive and not pty)
            await self._runs.wait(run, wait_s, _teller(ctx, run, wait_s))
            return await run_answer(self._runs, run, max_bytes)

    async def poll(self, run_id: RunId, max_bytes: MaxBytes = 0) -> Annotated[CallToolResult, RunAnswer]:
        """Look at a run without waiting: its state, its outcome if there is one, and the end of its output if asked."""
        with told_to_the_model():
            async with self._runs.find(run_id) as run:
                return await run_answer(self._runs, run, max_bytes)

    async def wait(
        self, ctx: Context, run_id: RunId, wait_s: WaitSeconds = 60.0, max_bytes: MaxBytes = limits.ANSWER_BYTES
    ) -> Annotated[CallToolResult, RunAnswer]:
        """Wait at most wait_s for a run to end, and answer as `exec` does. Waiting does not affect the run."""
        with told_to_the_model():
            async with self._runs.find(run_id) as run:
                await self._runs.wait(run, wait_s, _teller(ctx, run, wait_s))
                return await run_answer(self._runs, run, max_bytes)

    async def output(
        self,
        run_id: RunId,
        offset: Annotated[
            int, Field(ge=0, description="where to begin: 0, or the next_offset of the previous answer")
        ] = 0,
        stream: Annotated[
            Literal["both", "stdout", "stderr"], Field(description="offsets count bytes of the chosen stream")
        ] = "both",
        wait_s: Annotated[
            float, Field(ge=0, le=limits.MOST_WAIT_S, description="how long to wait when there is no new output")
        ] = 0.0,
        max_bytes: MaxBytes = limits.ANSWER_BYTES,
    ) -> Annotated[CallToolResult, OutputAnswer]:
        """Read the output of a run from an offset on, while it runs or afterwards. Nothing is lost between calls."""
        with told_to_the_model():
            async with self._runs.find(run_id) as run:
                only = None if stream == "both" else stream
                if wait_s:
                    await self._runs.wait_output(run, offset, wait_s, only)
                return await output_answer(self._runs.state, run, offset, max_bytes, only)

    async def cancel(
        self,
        run_id: RunId,
        reason: Annotated[str, Field(description="why; kept in the record")] = "",
        now: Annotated[bool, Field(description="kill the run at once, without time to clean up")] = False,
        grace_s: Annotated[
            float | None, Field(ge=0, description="kill the run after this time at most; never longer than its grace")
        ] = None,
        wait_s: WaitSeconds = 15.0,
    ) -> Annotated[CallToolResult, RunAnswer]:
        """End a run and all its processes: they are asked to end first, and killed when they do not. A run that is
        over stays as it is. Answers when all processes are gone (`tree`), or after wait_s.
        """
        with told_to_the_model():
            async with self._runs.find(run_id) as run:
                await run.cancel(reason, now=now, grace=grace_s)
                with self._runs.moment(wait_s):
                    await run.settled()
                answer = await run_answer(self._runs, run, 0)
        answer.is_error = False  # the call did what it was asked: to end the run
        return answer

    async def send_input(
        self,
        run_id: RunId,
        text: Annotated[str, Field(description="written unchanged: a line needs its newline")] = "",
        eof: Annotated[bool, Field(description="close stdin after the text")] = False,
    ) -> Annotated[CallToolResult, InputAnswer]:
        """Write to the stdin of a run that was started with interactive or pty."""
        with told_to_the_model():
            data = _input_bytes(text)
            async with self._runs.find(run_id) as run:
                accepted = await self._feed(run, data, eof=eof)
                result = mcp_result(run.outcome, run.run_id)
                answer = InputAnswer(**result.structured, accepted=accepted)
                said = f"{len(data)} bytes written" if accepted else "the command has closed its stdin, or is over"
                return tool_result(answer, f"{said}; {result.text}")

    async def list_runs(
        self,
        which: Annotated[Literal["live", "all"], Field(description="runs that are not settled, or all runs")] = "live",
        limit: Annotated[int, Field(ge=1, le=200)] = 50,
        cursor: Annotated[str | None, Field(description="the cursor of the previous page")] = None,
    ) -> Annotated[CallToolResult, ListAnswer]:
        """List runs, newest first; also runs of calls that were interrupted before their answer had the run_id."""
        with told_to_the_model():
            return list_answer(*await self._runs.page(live=which == "live", limit=limit, cursor=cursor))

    async def changes(self) -> Annotated[CallToolResult, ChangesAnswer]:
        """Report the changes since the last call: the runs of this session that ended, each with its outcome and the
        end of its output, and those that are still running. An end is told once.
        """
        with told_to_the_model():
            return changes_answer(await self._runs.look())

    async def _feed(self, run: Run, data: bytes, *, eof: bool) -> bool:
        """Write to the run's stdin; False when it is closed. HoldfastError: it is full, and the command does not read.

        RequestError: the run was started without a stdin to write to.
        """
        try:
            with self._runs.moment(_INPUT_S):
                accepted = await run.write_stdin(data)
                if accepted and eof:
                    await run.close_stdin()
                return accepted
        except RequestError as error:
            if error.errno == EBADF:  # the library's remedy names options that no tool has
                error.remedy = "start it with interactive or pty: true"
            raise
        if (parting := self._runs.parting) is not None:
            why, remedy = "the server is stopping", f"the run {parting}; ask the next server how it ended"
        else:
            why, remedy = "the command does not read its stdin", "it goes on; look at its output, or cancel it"
        raise HoldfastError(f"{why}: not all of the {len(data)} bytes were taken", run_id=run.run_id, remedy=remedy)


def _words(command: str | None, argv: list[str] | None) -> list[str]:
    if (command is None) == (argv is None):
        raise SpecError("give either command or argv", field="argv", remedy="command for a shell line, argv for a list")
    return ["sh", "-c", command] if command is not None else argv or []


def _input_bytes(text: str) -> bytes:
    data = text.encode("utf-8", "surrogateescape")
    if len(data) > limits.MOST_INPUT_BYTES:
        remedy = f"at most {limits.MOST_INPUT_BYTES} go at once: put it into a file, or send it in pieces"
        raise limits.LimitError(f"{len(data)} bytes are too much input", remedy=remedy)
    return data


def _teller(ctx: Context, run: Run, wait_s: float) -> Callable[[float], Awaitable[None]]:
    async def tell(waited_s: float) -> None:
        counts = run.report["output"]
        written = (counts["stdout_bytes"] or 0) + (counts["stderr_bytes"] or 0)
        await ctx.report_progress(round(waited_s, 3), wait_s, f"{run.state}, {written} bytes of output")

    return tell
