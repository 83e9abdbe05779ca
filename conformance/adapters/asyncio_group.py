"""asyncio: a subprocess in a session of its own; SIGTERM to the group at the timeout, SIGKILL after the grace."""

from __future__ import annotations

import asyncio
import signal
import time
from typing import TYPE_CHECKING

from conformance.adapters.groups import Kept, signal_group
from conformance.adapters.serving import serve
from conformance.task import Answer, ended, not_started, stopped

if TYPE_CHECKING:
    from asyncio.subprocess import Process

    from conformance.task import Task


def run(task: Task, argv: list[str], place: str) -> Answer:  # noqa: ARG001
    """Run one command in an event loop of its own."""
    return asyncio.run(_run(task, argv))


async def _run(task: Task, argv: list[str]) -> Answer:
    pipe = asyncio.subprocess.PIPE
    given = pipe if task.input_bytes else asyncio.subprocess.DEVNULL
    try:
        process = await asyncio.create_subprocess_exec(
            *argv, stdin=given, stdout=pipe, stderr=pipe, cwd=task.cwd, start_new_session=True
        )
    except OSError as error:
        return not_started(error)
    out, err = Kept(task.stream), Kept(False)
    loop = asyncio.get_running_loop()
    work = loop.create_task(_supervise(process, task, out, err))
    if task.cancel_after_s is not None:
        loop.call_later(task.cancel_after_s, work.cancel)
    if task.block_loop_s is not None:
        loop.call_later(0.1, time.sleep, task.block_loop_s)
    status = None
    try:
        await work
    except TimeoutError:
        status = "timed_out"
    except asyncio.CancelledError:
        status = "cancelled"
    more = {"stdout": bytes(out.data), "stderr": bytes(err.data), "stdout_bytes": out.bytes}
    return stopped(status, process.returncode, **more) if status else ended(process.returncode, **more)


async def _supervise(process: Process, task: Task, out: Kept, err: Kept) -> None:
    """Wait until the command has exited and its pipes are at their end; TimeoutError at the deadline."""
    flows = [asyncio.create_task(_read(process.stdout, out)), asyncio.create_task(_read(process.stderr, err))]
    if process.stdin is not None:
        flows.append(asyncio.create_task(_write(process, bytes(task.input_bytes))))
    try:
        async with asyncio.timeout(task.timeout_s):
            await process.wait()
            signal_group(process.pid, signal.SIGKILL)  # processes that the command left in its group
            await asyncio.gather(*flows)
    except (TimeoutError, asyncio.CancelledError):
        signal_group(process.pid, signal.SIGTERM)
        try:
            async with asyncio.timeout(task.grace_s):
                await process.wait()
        except TimeoutError:
            pass
        finally:
            signal_group(process.pid, signal.SIGKILL)
        await process.wait()
        raise
    finally:
        for flow in flows:
            flow.cancel()


async def _read(stream: asyncio.StreamReader | None, kept: Kept) -> None:
    while stream is not None and (part := await stream.read(65536)):
        kept.take(part)


async def _write(process: Process, data: bytes) -> None:
    assert process.stdin is not None
    try:
        process.stdin.write(data)
        await process.stdin.drain()
    except (BrokenPipeError, ConnectionResetError):
        pass
    process.stdin.close()


if __name__ == "__main__":
    serve(run)
