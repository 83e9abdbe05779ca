"""From submit to verdict of a command that does nothing: through a daemon's socket, and with the library alone."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, Any

import anyio

import holdfast

from .cost import Sample, now, per_run
from .lanes import repeat

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

COMMAND = ["/bin/true"]
_WARM_UP = 32


def with_library(parameters: dict[str, Any]) -> Sample:
    """holdfast.Supervisor with a state directory."""
    return anyio.run(_drive_library, parameters, None)


def with_library_in_memory(parameters: dict[str, Any]) -> Sample:
    """holdfast.Supervisor without a state directory."""
    return anyio.run(_drive_library, parameters, "")


async def _drive_library(parameters: dict[str, Any], place: str | None) -> Sample:
    async with holdfast.Supervisor(state_dir=_fresh(parameters) if place is None else None) as supervisor:

        async def one() -> None:
            run = await supervisor.start(COMMAND)
            await run.wait()

        return await _drive(one, parameters)


def _fresh(parameters: dict[str, Any]) -> str:
    """A state directory of its own, kept until the end: removing many files would slow the next measurement down."""
    return tempfile.mkdtemp(prefix="state-", dir=parameters["scratch"])


def with_daemon(parameters: dict[str, Any]) -> Sample:
    """holdfast serve, asked over its Unix socket: POST /v1/runs, then GET .../wait."""
    directory = _fresh(parameters)
    command = [sys.executable, "-m", "holdfast.cli.main", "serve", "--state-dir", directory]
    limits = ["--max-runs", str(parameters["at_once"]), "--queue-limit", "100000"]
    with subprocess.Popen([*command, *limits], stderr=subprocess.PIPE, stdout=subprocess.PIPE) as daemon:
        try:
            assert daemon.stderr is not None
            while (line := daemon.stderr.readline()) and b"ready" not in line:
                pass
            return asyncio.run(_drive_daemon(parameters, os.path.join(directory, "holdfast.sock")))
        finally:
            daemon.terminate()
            daemon.communicate(timeout=60)


async def _drive_daemon(parameters: dict[str, Any], path: str) -> Sample:
    body = json.dumps({"argv": COMMAND}).encode()
    idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def one() -> None:
        reader, writer = idle.pop() if idle else await asyncio.open_unix_connection(path)
        report = await _ask(reader, writer, b"POST /v1/runs", body)
        if report["status"] is None:
            report = await _ask(reader, writer, f"GET /v1/runs/{report['run_id']}/wait?until=verdict".encode(), b"")
        if report["status"] != "succeeded":
            raise RuntimeError(f"the daemon says {report}")
        idle.append((reader, writer))

    try:
        return await _drive(one, parameters)
    finally:
        for _reader, writer in idle:
            writer.close()


async def _ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, what: bytes, body: bytes) -> dict[str, Any]:
    head = b"%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    writer.write(head % (what, len(body)) + body)
    answer = await reader.readuntil(b"\r\n\r\n")
    length = next(
        int(line.split(b":")[1]) for line in answer.lower().split(b"\r\n") if line.startswith(b"content-length")
    )
    report: dict[str, Any] = json.loads(await reader.readexactly(length))
    return report


async def _drive(one: Callable[[], Awaitable[None]], parameters: dict[str, Any]) -> Sample:
    await repeat(one, _WARM_UP, parameters["at_once"])
    begin = now()
    await repeat(one, parameters["count"], parameters["at_once"])
    return per_run(begin, parameters["count"])
