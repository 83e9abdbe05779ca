"""anyio: an open process in a session of its own; scopes for deadline and cancel, signals for the whole group."""

from __future__ import annotations

import signal
import subprocess
import time
from typing import TYPE_CHECKING

import anyio

from conformance.adapters.groups import Kept, signal_group
from conformance.adapters.serving import serve
from conformance.task import Answer, ended, not_started, stopped

if TYPE_CHECKING:
    from anyio.abc import ByteReceiveStream, ByteSendStream, Process

    from conformance.task import Task


def run(task: Task, argv: list[str], place: str) -> Answer:  # noqa: ARG001
    """Run one command in an event loop of its own."""
    return anyio.run(_run, task, argv)


async def _run(task: Task, argv: list[str]) -> Answer:
    given = subprocess.PIPE if task.input_bytes else subprocess.DEVNULL
    try:
        process = await anyio.open_process(argv, stdin=given, cwd=task.cwd, start_new_session=True)
    except OSError as error:
        return not_started(error)
    out, err = Kept(task.stream), Kept(False)
    with anyio.CancelScope() as cancelled:
        async with anyio.create_task_group() as timers:
            if task.cancel_after_s is not None:
                timers.start_soon(_cancel, cancelled, task.cancel_after_s)
            if task.block_loop_s is not None:
                timers.start_soon(_block, task.block_loop_s)
            with anyio.move_on_after(task.timeout_s) as deadline:
                try:
                    await _until_ended(process, task, out, err)
                finally:
                    await _end(process, task.grace_s)
            timers.cancel_scope.cancel()
    more = {"stdout": bytes(out.data), "stderr": bytes(err.data), "stdout_bytes": out.bytes}
    status = "timed_out" if deadline.cancelled_caught else "cancelled" if cancelled.cancelled_caught else None
    return stopped(status, process.returncode, **more) if status else ended(process.returncode, **more)


async def _until_ended(process: Process, task: Task, out: Kept, err: Kept) -> None:
    async with anyio.create_task_group() as flows:
        flows.start_soon(_read, process.stdout, out)
        flows.start_soon(_read, process.stderr, err)
        if process.stdin is not None:
            flows.start_soon(_write, process.stdin, bytes(task.input_bytes))
        await process.wait()
        signal_group(process.pid, signal.SIGKILL)  # processes that the command left in its group


async def _end(process: Process, grace_s: float) -> None:
    """Climb the ladder, shielded from any further cancel."""
    with anyio.CancelScope(shield=True):
        if process.returncode is None:
            signal_group(process.pid, signal.SIGTERM)
            with anyio.move_on_after(grace_s):
                await process.wait()
            signal_group(process.pid, signal.SIGKILL)
            await process.wait()


async def _read(stream: ByteReceiveStream | None, kept: Kept) -> None:
    if stream is not None:
        async for part in stream:
            kept.take(part)


async def _write(stream: ByteSendStream, data: bytes) -> None:
    try:
        await stream.send(data)
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass
    await stream.aclose()


async def _cancel(scope: anyio.CancelScope, after_s: float) -> None:
    await anyio.sleep(after_s)
    scope.cancel()


async def _block(seconds: float) -> None:
    await anyio.sleep(0.1)
    time.sleep(seconds)  # noqa: ASYNC251 - that is the point


if __name__ == "__main__":
    serve(run)
