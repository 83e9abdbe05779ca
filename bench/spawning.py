"""Runs per second of a command that does nothing, both streams captured, a given number of them at once."""

from __future__ import annotations

import asyncio
import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import anyio

import holdfast

from .cost import Sample, now, per_run, run_costs
from .lanes import repeat

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

COMMAND = ["/bin/true"]
_WARM_UP = 16


def limit(parameters: dict[str, Any]) -> Sample:
    """posix_spawn, two pipes and waitpid from C."""
    return _from_c(parameters, COMMAND)


def shim(parameters: dict[str, Any]) -> Sample:
    """The same with the smallest possible second process in between: the floor for one guard per run."""
    return _from_c(parameters, [parameters["shim"], *COMMAND])


def _from_c(parameters: dict[str, Any], command: list[str]) -> Sample:
    count, at_once = parameters["count"], parameters["at_once"]
    program = [parameters["limit"], "spawn", str(count), str(at_once), *command]
    cost = json.loads(subprocess.run(program, check=True, capture_output=True).stdout)
    return run_costs(cost["seconds"], cost["self_us"], cost["children_us"], count)


def with_subprocess(parameters: dict[str, Any]) -> Sample:
    """subprocess.run; several at once in threads."""
    return _in_threads(lambda: subprocess.run(COMMAND, stdin=subprocess.DEVNULL, capture_output=True), parameters)


def with_holdfast_run(parameters: dict[str, Any]) -> Sample:
    """holdfast.run; several at once in threads."""
    return _in_threads(lambda: holdfast.run(COMMAND), parameters)


def with_compat_subprocess(parameters: dict[str, Any]) -> Sample:
    """subprocess.run of holdfast.compat; several at once in threads."""
    from holdfast.compat import subprocess as compat

    return _in_threads(lambda: compat.run(COMMAND, stdin=compat.DEVNULL, capture_output=True), parameters)


def _in_threads(one: Callable[[], Any], parameters: dict[str, Any]) -> Sample:
    count, at_once = parameters["count"], parameters["at_once"]
    if at_once == 1:
        for _ in range(_WARM_UP):
            one()
        begin = now()
        for _ in range(count):
            one()
        return per_run(begin, count)
    with ThreadPoolExecutor(at_once) as pool:
        for future in [pool.submit(one) for _ in range(max(_WARM_UP, at_once))]:
            future.result()
        begin = now()
        for future in [pool.submit(one) for _ in range(count)]:
            future.result()
        return per_run(begin, count)


def with_asyncio(parameters: dict[str, Any]) -> Sample:
    """asyncio.create_subprocess_exec and communicate, with the defaults."""
    return anyio.run(_drive, _one_asyncio, parameters)


def with_asyncio_pidfd(parameters: dict[str, Any]) -> Sample:
    """The same with pidfds instead of a thread per process, which is the default from Python 3.12 on."""
    asyncio.set_child_watcher(asyncio.PidfdChildWatcher())
    return anyio.run(_drive, _one_asyncio, parameters)


async def _one_asyncio() -> None:
    pipe, null = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(*COMMAND, stdin=null, stdout=pipe, stderr=pipe)
    await process.communicate()


def with_compat_asyncio(parameters: dict[str, Any]) -> Sample:
    """create_subprocess_exec of holdfast.compat.asyncio_subprocess and communicate, until the tree is gone."""
    return anyio.run(_drive, _one_compat_asyncio, parameters)


async def _one_compat_asyncio() -> None:
    from holdfast.compat import asyncio_subprocess as compat

    process = await compat.create_subprocess_exec(
        *COMMAND, stdin=compat.DEVNULL, stdout=compat.PIPE, stderr=compat.PIPE
    )
    await process.communicate()
    await process.settled()


def with_anyio(parameters: dict[str, Any]) -> Sample:
    """anyio.run_process on asyncio."""
    return anyio.run(_drive, _one_anyio, parameters)


def with_trio(parameters: dict[str, Any]) -> Sample:
    """trio.run_process."""
    return anyio.run(_drive, _one_trio, parameters, backend="trio")


async def _one_anyio() -> None:
    await anyio.run_process(COMMAND, stdin=subprocess.DEVNULL)


async def _one_trio() -> None:
    import trio

    await trio.run_process(COMMAND, capture_stdout=True, capture_stderr=True)


def with_supervisor(parameters: dict[str, Any]) -> Sample:
    """holdfast.Supervisor on asyncio."""
    return anyio.run(_drive_supervisor, parameters)


def with_supervisor_on_trio(parameters: dict[str, Any]) -> Sample:
    """holdfast.Supervisor on trio."""
    return anyio.run(_drive_supervisor, parameters, backend="trio")


async def _drive_supervisor(parameters: dict[str, Any]) -> Sample:
    before = now()
    async with holdfast.Supervisor() as supervisor:

        async def one() -> None:
            run = await supervisor.start(COMMAND)
            await run.result()
            run.close()

        sample = await _drive(one, parameters)
    # Guards are used again: the CPU time of guards and commands is known when they are reaped, which is now. The
    # runs of the warm-up are included, so they count as well.
    children_us = (now().children_us - before.children_us) / (parameters["count"] + _WARM_UP)
    return sample | {"children_us": children_us, "cpu_us": _number(sample["own_us"]) + children_us}


def _number(value: float | list[float]) -> float:
    assert isinstance(value, float)
    return value


async def _drive(one: Callable[[], Awaitable[None]], parameters: dict[str, Any]) -> Sample:
    count, at_once = parameters["count"], parameters["at_once"]
    await repeat(one, _WARM_UP, min(at_once, _WARM_UP))
    begin = now()
    await repeat(one, count, at_once)
    return per_run(begin, count)
