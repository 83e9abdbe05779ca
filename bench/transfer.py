"""Large output: captured whole, and streamed by a consumer that keeps nothing."""

from __future__ import annotations

import asyncio
import json
import subprocess
from typing import TYPE_CHECKING, Any

import anyio

import holdfast

from .cost import MIB, Sample, journal_bytes, now, peak_resident_bytes, per_mib, resident_bytes, transfer_costs

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_PIECE = 1 << 20
_LOOK_EVERY = 16 * MIB


def _command(parameters: dict[str, Any]) -> list[str]:
    return [parameters["limit"], "produce", str(parameters["size"])]


def _check(size: int, parameters: dict[str, Any]) -> None:
    if size != parameters["size"]:
        raise RuntimeError(f"{size} bytes came instead of {parameters['size']}")


def capture_limit(parameters: dict[str, Any]) -> Sample:
    """read(2) into memory from C, with the largest pipe."""
    program = [parameters["limit"], "collect", str(parameters["size"]), *_command(parameters)]
    cost = json.loads(subprocess.run(program, check=True, capture_output=True).stdout)
    return transfer_costs(cost["seconds"], cost["self_us"] + cost["children_us"], parameters["size"])


def capture_subprocess(parameters: dict[str, Any]) -> Sample:
    """subprocess.run(capture_output=True)."""
    begin, before = now(), resident_bytes()
    done = subprocess.run(_command(parameters), stdin=subprocess.DEVNULL, capture_output=True, check=True)
    sample = per_mib(begin, parameters["size"])
    _check(len(done.stdout), parameters)
    return sample | _memory(before, 0)


def capture_asyncio(parameters: dict[str, Any]) -> Sample:
    """create_subprocess_exec and communicate."""

    async def main() -> Sample:
        begin, before = now(), resident_bytes()
        pipe, null = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        process = await asyncio.create_subprocess_exec(*_command(parameters), stdin=null, stdout=pipe, stderr=pipe)
        stdout, _ = await process.communicate()
        sample = per_mib(begin, parameters["size"])
        _check(len(stdout), parameters)
        return sample | _memory(before, 0)

    return asyncio.run(main())


def capture_holdfast(parameters: dict[str, Any]) -> Sample:
    """holdfast.run."""
    begin, before = now(), resident_bytes()
    result = holdfast.run(_command(parameters))
    sample = per_mib(begin, parameters["size"])
    _check(len(result.stdout), parameters)
    return sample | _memory(before, parameters["size"])  # the journal holds the output a second time until run returns


class _Sink:
    """A consumer that counts bytes, and reads the journal's memory now and then."""

    def __init__(self) -> None:
        self.size = 0
        self.journal_peak = 0
        self._look_at = 0

    def take(self, data: bytes) -> None:
        self.size += len(data)
        if self.size >= self._look_at:
            self._look_at += _LOOK_EVERY
            self.journal_peak = max(self.journal_peak, journal_bytes())


def stream_subprocess(parameters: dict[str, Any]) -> Sample:
    """Popen and unbuffered reads of its stdout."""
    begin, before, sink = now(), resident_bytes(), _Sink()
    with subprocess.Popen(_command(parameters), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdout is not None
        while data := process.stdout.read(_PIECE):
            sink.take(data)
    return _streamed(begin, before, sink, parameters)


def stream_asyncio(parameters: dict[str, Any]) -> Sample:
    """create_subprocess_exec and reads of process.stdout."""

    async def main() -> Sample:
        begin, before, sink = now(), resident_bytes(), _Sink()
        pipe, null = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        process = await asyncio.create_subprocess_exec(*_command(parameters), stdin=null, stdout=pipe)
        assert process.stdout is not None
        while data := await process.stdout.read(_PIECE):
            sink.take(data)
        await process.wait()
        return _streamed(begin, before, sink, parameters)

    return asyncio.run(main())


def stream_trio(parameters: dict[str, Any]) -> Sample:
    """trio.lowlevel.open_process and receive_some."""
    import trio

    async def main() -> Sample:
        begin, before, sink = now(), resident_bytes(), _Sink()
        process = await trio.lowlevel.open_process(
            _command(parameters), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        while data := await process.stdout.receive_some(_PIECE):
            sink.take(bytes(data))
        await process.wait()
        return _streamed(begin, before, sink, parameters)

    return trio.run(main)


def stream_holdfast_run(parameters: dict[str, Any]) -> Sample:
    """holdfast.run(on_output=...)."""
    begin, before, sink = now(), resident_bytes(), _Sink()
    holdfast.run(_command(parameters), on_output=lambda chunk: sink.take(chunk.data))
    return _streamed(begin, before, sink, parameters)


def stream_supervisor(parameters: dict[str, Any]) -> Sample:
    """Supervisor.start(keep_output=False) and run.output()."""

    async def main() -> Sample:
        begin, before, sink = now(), resident_bytes(), _Sink()
        async with holdfast.Supervisor() as supervisor:
            async for data in _pieces(supervisor, _command(parameters)):
                sink.take(data)
        return _streamed(begin, before, sink, parameters)

    return anyio.run(main)


async def _pieces(supervisor: holdfast.Supervisor, command: list[str]) -> AsyncIterator[bytes]:
    run = await supervisor.start(command, keep_output=False)
    async for chunk in run.output():
        yield chunk.data
    await run.settled()


def _streamed(begin: Any, before: int, sink: _Sink, parameters: dict[str, Any]) -> Sample:
    sample = per_mib(begin, parameters["size"])
    _check(sink.size, parameters)
    return sample | _memory(before, sink.journal_peak)


def _memory(before: int, journal: int) -> Sample:
    owner = (peak_resident_bytes() - before) / MIB
    return {"owner_peak_mib": owner, "journal_peak_mib": journal / MIB, "peak_mib": owner + journal / MIB}
