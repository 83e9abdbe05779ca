"""trio: `run_process` in a nursery, with a `deliver_cancel` that signals the whole group, SIGTERM first."""

from __future__ import annotations

import signal
import subprocess
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import trio
import trio.abc

from conformance.adapters.groups import Kept, signal_group
from conformance.adapters.serving import innermost, serve
from conformance.task import Answer, ended, not_started, stopped

if TYPE_CHECKING:
    from conformance.task import Task


def run(task: Task, argv: list[str], place: str) -> Answer:  # noqa: ARG001
    """Run one command in an event loop of its own."""
    try:
        return trio.run(_run, task, argv)
    except BaseExceptionGroup as errors:
        found = errors.subgroup(OSError)
        if found is None:
            raise
        return not_started(OSError(innermost(found)))


async def _run(task: Task, argv: list[str]) -> Answer:
    out, err = Kept(task.stream), Kept(False)
    held: list[trio.Process] = []
    with trio.CancelScope() as cancelled:
        async with trio.open_nursery() as timers:
            if task.cancel_after_s is not None:
                timers.start_soon(_cancel, cancelled, task.cancel_after_s)
            if task.block_loop_s is not None:
                timers.start_soon(_block, task.block_loop_s)
            with trio.move_on_after(task.timeout_s) as deadline:
                await _until_ended(task, argv, out, err, held)
            timers.cancel_scope.cancel()
    more = {"stdout": bytes(out.data), "stderr": bytes(err.data), "stdout_bytes": out.bytes}
    status = "timed_out" if deadline.cancelled_caught else "cancelled" if cancelled.cancelled_caught else None
    code = held[0].returncode if held else None
    return stopped(status, code, **more) if status else ended(code, **more)


async def _until_ended(task: Task, argv: list[str], out: Kept, err: Kept, held: list[trio.Process]) -> None:
    options: dict[str, Any] = {
        "stdin": subprocess.PIPE if task.input_bytes else subprocess.DEVNULL,
        "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "cwd": task.cwd, "start_new_session": True,
    }  # fmt: skip
    async with trio.open_nursery() as flows:
        deliver = partial(_end, task.grace_s)
        start = partial(trio.run_process, argv, check=False, deliver_cancel=deliver, **options)
        process = await flows.start(start)
        held.append(process)
        flows.start_soon(_read, process.stdout, out)
        flows.start_soon(_read, process.stderr, err)
        if process.stdin is not None:
            flows.start_soon(_write, process.stdin, bytes(task.input_bytes))
        await process.wait()
        signal_group(process.pid, signal.SIGKILL)  # processes that the command left in its group


async def _end(grace_s: float, process: trio.Process) -> None:
    """The `deliver_cancel` of `run_process`, which itself waits for the exit."""
    signal_group(process.pid, signal.SIGTERM)
    with trio.move_on_after(grace_s):
        await process.wait()
    signal_group(process.pid, signal.SIGKILL)


async def _read(stream: trio.abc.ReceiveStream | None, kept: Kept) -> None:
    if stream is not None:
        async for part in stream:
            kept.take(part)


async def _write(stream: trio.abc.SendStream, data: bytes) -> None:
    try:
        await stream.send_all(data)
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        pass
    await stream.aclose()


async def _cancel(scope: trio.CancelScope, after_s: float) -> None:
    await trio.sleep(after_s)
    scope.cancel()


async def _block(seconds: float) -> None:
    await trio.sleep(0.1)
    time.sleep(seconds)  # noqa: ASYNC251 - that is the point


if __name__ == "__main__":
    serve(run)
