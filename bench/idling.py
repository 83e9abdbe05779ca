"""Memory of idle live runs: in each guard and its sentinel, in Python, and in the journals.

It counts private pages (smaps_rollup) of guards and sentinels, and the growth of this process. It does not count the
command's own memory, nor the kernel's memory for a process (stacks, tables, descriptors), which no file shows.
"""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from contextlib import AsyncExitStack
from typing import Any

import anyio

import holdfast

from .cost import Sample, journal_bytes, now, resident_bytes

_TRACED = 20  # tracing needs memory of its own, so objects are counted on runs that come after the others


def _command(parameters: dict[str, Any]) -> list[str]:
    return [parameters["limit"], "idle"]


def with_supervisor(parameters: dict[str, Any]) -> Sample:
    """Runs of one Supervisor."""
    return anyio.run(_supervise, parameters)


async def _supervise(parameters: dict[str, Any]) -> Sample:
    count = parameters["live"]
    async with holdfast.Supervisor() as supervisor:
        await _start(supervisor, parameters, 2)  # imports and caches are made once and are not the cost of a run
        before, begin = _resident(), now()
        runs = await _start(supervisor, parameters, count)
        seconds = now().wall_s - begin.wall_s
        sample: Sample = {"python_resident_kib": (_resident() - before) / count / 1024}
        guards = [_private_bytes(run.guard_pid) for run in runs]
        sentinels = [_private_bytes(run.sentinel_pid) for run in runs]
        sample["guard_kib"] = sum(guards) / count / 1024
        sample["sentinel_kib"] = sum(sentinels) / count / 1024
        sample["journal_kib"] = journal_bytes() / (count + 2) / 1024
        sample["started_per_second"] = count / seconds
        sample["alive"] = sum(run.state == "running" for run in runs)
        before = _start_tracing()
        runs += await _start(supervisor, parameters, _TRACED)
        sample["python_objects_kib"] = (_stop_tracing() - before) / _TRACED / 1024
    return sample


async def _start(supervisor: holdfast.Supervisor, parameters: dict[str, Any], count: int) -> list[holdfast.Run]:
    runs = [await supervisor.start(_command(parameters), grace=2) for _ in range(count)]
    for run in runs:
        while run.pid is None:  # noqa: ASYNC110
            await anyio.sleep(0.001)  # the guard tells of verdicts, not of starts
    return runs


def with_asyncio(parameters: dict[str, Any]) -> Sample:
    """Processes of create_subprocess_exec with both streams on pipes, without a guard."""
    return asyncio.run(_asyncio(parameters))


async def _asyncio(parameters: dict[str, Any]) -> Sample:
    count = parameters["live"]
    async with AsyncExitStack() as stack:
        await _start_asyncio(stack, parameters, 2)
        before, begin = _resident(), now()
        await _start_asyncio(stack, parameters, count)
        seconds = now().wall_s - begin.wall_s
        sample: Sample = {"python_resident_kib": (_resident() - before) / count / 1024}
        sample["started_per_second"] = count / seconds
        before = _start_tracing()
        await _start_asyncio(stack, parameters, _TRACED)
        sample["python_objects_kib"] = (_stop_tracing() - before) / _TRACED / 1024
        return sample


async def _start_asyncio(stack: AsyncExitStack, parameters: dict[str, Any], count: int) -> None:
    pipe, null = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    for _ in range(count):
        process = await asyncio.create_subprocess_exec(*_command(parameters), stdin=null, stdout=pipe, stderr=pipe)
        stack.push_async_callback(_kill, process)


async def _kill(process: asyncio.subprocess.Process) -> None:
    process.kill()
    await process.communicate()


def _resident() -> int:
    gc.collect()
    return resident_bytes()


def _start_tracing() -> int:
    gc.collect()
    tracemalloc.start()
    return tracemalloc.get_traced_memory()[0]


def _stop_tracing() -> int:
    gc.collect()
    traced = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return traced


def _private_bytes(pid: int) -> int:
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as rollup:
        fields = [line.split() for line in rollup]
    return sum(int(field[1]) * 1024 for field in fields if field[0] in ("Private_Clean:", "Private_Dirty:"))
