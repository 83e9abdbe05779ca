"""`holdfast.Supervisor`: the asynchronous library, on asyncio."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import anyio

import holdfast
from conformance.adapters import sandbox
from conformance.adapters.holdfast_run import answer_of, options_of
from conformance.adapters.serving import serve

if TYPE_CHECKING:
    from conformance.task import Answer, Task


def run(task: Task, argv: list[str], place: str) -> Answer:  # noqa: ARG001
    """Run one command with an event loop and a supervisor of its own."""
    return anyio.run(_run, task, argv)


async def _run(task: Task, argv: list[str]) -> Answer:
    async with holdfast.Supervisor() as supervisor, anyio.create_task_group() as group:
        if task.sandboxed:  # between two runs: the second must not get the guard of the first
            await (await supervisor.start(["/bin/true"])).result()
            sandbox.enter()
        given: Any = {"stdin": "pipe"} if task.input_bytes else {}
        run = await supervisor.start(argv, keep_output=not task.stream, **given, **options_of(task))
        if task.input_bytes:
            group.start_soon(_write, run, bytes(task.input_bytes))
        if task.cancel_after_s is not None:
            group.start_soon(_cancel, run, task.cancel_after_s)
        if task.block_loop_s is not None:
            group.start_soon(_block, task.block_loop_s)
        count = 0
        if task.stream:
            async for chunk in run.output():
                count += len(chunk.data) if chunk.stream == "stdout" else 0
        result = await run.result()
        group.cancel_scope.cancel()
    return answer_of(result, count if task.stream else None)


async def _write(run: holdfast.Run, data: bytes) -> None:
    await run.write_stdin(data)
    await run.close_stdin()


async def _cancel(run: holdfast.Run, after_s: float) -> None:
    await anyio.sleep(after_s)
    await run.cancel(reason="asked by the pack")


async def _block(seconds: float) -> None:
    await anyio.sleep(0.1)
    time.sleep(seconds)  # noqa: ASYNC251 - that is the point


if __name__ == "__main__":
    serve(run, enters_sandbox=True)
