"""The time from asking a run to end until its last process is gone: one process, and a tree of them."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Any

import anyio

import holdfast

if TYPE_CHECKING:
    from .cost import Sample


def _command(parameters: dict[str, Any]) -> list[str]:
    return [parameters["limit"], "tree", str(parameters["processes"])]


class _Tree:
    """The processes of one run, each held by a pidfd, so that "gone" is seen and not guessed."""

    def __init__(self, line: bytes, parameters: dict[str, Any]) -> None:
        pids = [int(word) for word in line.split()]
        if len(pids) != parameters["processes"]:
            raise RuntimeError(f"{len(pids)} processes came up instead of {parameters['processes']}")
        self._pidfds = [os.pidfd_open(pid) for pid in pids]

    def wait_gone(self) -> None:
        for pidfd in self._pidfds:
            poll = select.poll()
            poll.register(pidfd, select.POLLIN)
            if not poll.poll(10_000):
                raise RuntimeError("a process of the tree is still there after 10 s")
            os.close(pidfd)


def with_subprocess(parameters: dict[str, Any]) -> Sample:
    """Popen in a session of its own, killpg with SIGTERM, wait."""
    took_ms = []
    for _ in range(parameters["count"]):
        with subprocess.Popen(
            _command(parameters), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True
        ) as process:
            assert process.stdout is not None
            tree = _Tree(process.stdout.readline(), parameters)
            begin = time.perf_counter()
            os.killpg(process.pid, signal.SIGTERM)
            process.wait()
            tree.wait_gone()
            took_ms.append((time.perf_counter() - begin) * 1e3)
    return {"took_ms": took_ms}


def with_asyncio(parameters: dict[str, Any]) -> Sample:
    """The same as `with_subprocess`, under asyncio."""

    async def main() -> Sample:
        took_ms = []
        pipe, null = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        for _ in range(parameters["count"]):
            process = await asyncio.create_subprocess_exec(
                *_command(parameters), stdin=null, stdout=pipe, start_new_session=True
            )
            assert process.stdout is not None
            tree = _Tree(await process.stdout.readline(), parameters)
            begin = time.perf_counter()
            os.killpg(process.pid, signal.SIGTERM)
            await process.wait()
            tree.wait_gone()
            took_ms.append((time.perf_counter() - begin) * 1e3)
        return {"took_ms": took_ms}

    return asyncio.run(main())


def with_supervisor(parameters: dict[str, Any]) -> Sample:
    """cancel() and settled(): the ladder from SIGTERM up, until the guard has proved that the tree is gone."""

    async def main() -> Sample:
        took_ms, verdict_ms = [], []
        async with holdfast.Supervisor() as supervisor:
            for _ in range(parameters["count"]):
                run = await supervisor.start(_command(parameters))
                tree = _Tree(await _first_line(run), parameters)
                begin = time.perf_counter()
                await run.cancel()
                verdict_ms.append((time.perf_counter() - begin) * 1e3)
                report = await run.settled()
                tree.wait_gone()
                took_ms.append((time.perf_counter() - begin) * 1e3)
                if (report["status"], report["tree"]) != ("cancelled", "gone"):
                    raise RuntimeError(f"a cancelled run ended as {report['status']}, tree {report['tree']}")
                run.close()
        return {"took_ms": took_ms, "verdict_ms": verdict_ms}

    return anyio.run(main)


async def _first_line(run: holdfast.Run) -> bytes:
    line = b""
    async for chunk in run.output():
        line += chunk.data
        if line.endswith(b"\n"):
            break
    return line
