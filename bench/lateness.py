"""How late a deadline is kept: with an idle event loop, with a blocked one, and with many runs due at once.

For Holdfast the times are those in the journal: when the command was started, and when the guard recorded that the
deadline had passed. For asyncio: when the coroutine that waits with a timeout comes to kill the process.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import anyio

import holdfast

from .cost import Sample

_DUE_S = 0.05
_BLOCKED_S = 0.15


def _command(parameters: dict[str, Any]) -> list[str]:
    return [parameters["limit"], "idle"]


def idle_holdfast(parameters: dict[str, Any]) -> Sample:
    """One run after the other under a Supervisor that is otherwise idle."""
    return anyio.run(_holdfast_one_by_one, parameters, 0.0)


def blocked_holdfast(parameters: dict[str, Any]) -> Sample:
    """The event loop sleeps through the deadline."""
    return anyio.run(_holdfast_one_by_one, parameters, _BLOCKED_S)


async def _holdfast_one_by_one(parameters: dict[str, Any], blocked_s: float) -> Sample:
    samples: list[tuple[float, float]] = []
    async with holdfast.Supervisor() as supervisor:
        for _ in range(parameters["count"]):
            run = await supervisor.start(_command(parameters), timeout=_DUE_S)
            if blocked_s:
                time.sleep(blocked_s)  # noqa: ASYNC251 - this is what is measured
            await run.settled()
            samples.append(_lateness(run))
            run.close()
    return _split(samples)


def together_holdfast(parameters: dict[str, Any]) -> Sample:
    """All runs are due at the same moment."""
    return anyio.run(_holdfast_together, parameters)


async def _holdfast_together(parameters: dict[str, Any]) -> Sample:
    due = time.monotonic() + _time_to_start(parameters)
    async with holdfast.Supervisor() as supervisor:
        runs = []
        for _ in range(parameters["count"]):
            left_s = due - time.monotonic()
            if left_s <= 0:
                raise RuntimeError("the machine is too slow to start all runs before they are due")
            runs.append(await supervisor.start(_command(parameters), timeout=left_s))
        for run in runs:
            await run.settled()
        return _split([_lateness(run) for run in runs])


def _lateness(run: holdfast.Run) -> tuple[float, float]:
    """Milliseconds from the due time to the verdict, and to the proof that the tree is gone."""
    facts = {fact.kind: fact for fact in run.facts}
    due_ns = facts["started"].at_ns + facts["deadline"].detail["limit_ns"]
    return (facts["deadline"].at_ns - due_ns) / 1e6, (facts["tree"].at_ns - due_ns) / 1e6


def _split(samples: list[tuple[float, float]]) -> Sample:
    return {"late_ms": [late for late, _ in samples], "gone_ms": [gone for _, gone in samples]}


def idle_asyncio(parameters: dict[str, Any]) -> Sample:
    """wait_for around process.wait, then kill, in an idle event loop."""
    return asyncio.run(_asyncio_one_by_one(parameters, 0.0))


def blocked_asyncio(parameters: dict[str, Any]) -> Sample:
    """The same while another task sleeps through the deadline."""
    return asyncio.run(_asyncio_one_by_one(parameters, _BLOCKED_S))


async def _asyncio_one_by_one(parameters: dict[str, Any], blocked_s: float) -> Sample:
    samples = []
    for _ in range(parameters["count"]):
        if blocked_s:
            asyncio.get_running_loop().call_later(_DUE_S / 2, time.sleep, blocked_s)
        samples.append(await _asyncio_one(parameters, time.monotonic() + _DUE_S))
    return _split(samples)


def together_asyncio(parameters: dict[str, Any]) -> Sample:
    """All processes are due at the same moment."""

    async def main() -> Sample:
        due = time.monotonic() + _time_to_start(parameters)
        tasks = [_asyncio_one(parameters, due) for _ in range(parameters["count"])]
        return _split(await asyncio.gather(*tasks))

    return asyncio.run(main())


async def _asyncio_one(parameters: dict[str, Any], due: float) -> tuple[float, float]:
    null = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(*_command(parameters), stdin=null, stdout=null, stderr=null)
    try:
        await asyncio.wait_for(process.wait(), due - time.monotonic())
    except TimeoutError:
        pass
    late_ms = (time.monotonic() - due) * 1e3
    process.kill()
    await process.wait()
    return late_ms, (time.monotonic() - due) * 1e3


def _time_to_start(parameters: dict[str, Any]) -> float:
    return 1.0 + 0.01 * float(parameters["count"])  # generous: a loaded machine starts 100 a second
