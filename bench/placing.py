"""From submit to verdict on a Ray cluster of one node: through `holdfast.ray`, and as a plain Ray task.

The cluster has as many CPUs as the machine has cores. A plain task takes one of them, so Ray keeps one worker process
for each core, and the other tasks wait in its queue. A run of Holdfast asks for no CPU: all of them are alive at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from typing import TYPE_CHECKING, Any

from .cost import MIB, Sample
from .lanes import repeat

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

COMMAND = ["/bin/true"]
_WARM_UP = 64
_STORE_BYTES = 200 << 20


@contextlib.contextmanager
def cluster() -> Iterator[Any]:
    """A cluster of one node, which ends with the block. Its files are in a directory with a short name: sockets."""
    import ray

    place = tempfile.mkdtemp(prefix="hf-ray-", dir="/tmp")
    os.environ["RAY_TMPDIR"] = place
    os.mkdir(os.path.join(place, "ray"))
    options = {"include_dashboard": False, "log_to_driver": False, "logging_level": "error"}
    try:
        ray.init(num_cpus=os.cpu_count(), object_store_memory=_STORE_BYTES, **options)
        yield ray
    finally:
        ray.shutdown()
        shutil.rmtree(place, ignore_errors=True)


def _plain_spawn() -> int:
    return subprocess.run(COMMAND, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode


def spawn_plain(parameters: dict[str, Any]) -> Sample:
    """Ray tasks that call subprocess.run."""
    with cluster() as ray:
        task = ray.remote(_plain_spawn)

        async def one() -> None:
            assert await task.remote() == 0

        return asyncio.run(_drive(one, parameters))


def spawn_holdfast(parameters: dict[str, Any]) -> Sample:
    """holdfast.ray.Supervisor."""
    with cluster():
        return asyncio.run(_spawn_holdfast(parameters))


async def _spawn_holdfast(parameters: dict[str, Any]) -> Sample:
    from holdfast.ray import Supervisor

    state = tempfile.mkdtemp(prefix="state-", dir=parameters["scratch"])
    async with Supervisor(state_dir=state) as supervisor:

        async def one() -> None:
            run = await supervisor.start(COMMAND)
            assert (await run.wait()).status == "succeeded"

        return await _drive(one, parameters)


def output_plain(parameters: dict[str, Any]) -> Sample:
    """Ray tasks that call subprocess.run and return what it captured."""
    with cluster() as ray:
        task = ray.remote(_plain_output)

        async def one() -> None:
            assert len(await task.remote(parameters["size"])) == parameters["size"]

        return _in_mib(asyncio.run(_drive(one, parameters)), parameters)


def _plain_output(size: int) -> bytes:
    return subprocess.run(_writer(size), stdin=subprocess.DEVNULL, capture_output=True, check=False).stdout


def output_holdfast(parameters: dict[str, Any]) -> Sample:
    """holdfast.ray.Supervisor, whose runs are read to the end."""
    with cluster():
        return _in_mib(asyncio.run(_output_holdfast(parameters)), parameters)


async def _output_holdfast(parameters: dict[str, Any]) -> Sample:
    from holdfast.ray import Supervisor

    state = tempfile.mkdtemp(prefix="state-", dir=parameters["scratch"])
    async with Supervisor(state_dir=state) as supervisor:

        async def one() -> None:
            run = await supervisor.start(_writer(parameters["size"]))
            assert sum([len(chunk.data) async for chunk in run.output()]) == parameters["size"]

        return await _drive(one, parameters)


def _writer(size: int) -> list[str]:
    return ["head", "-c", str(size), "/dev/zero"]


def _in_mib(sample: Sample, parameters: dict[str, Any]) -> Sample:
    size = parameters["size"] / MIB
    runs, cpu_us = (float(str(sample[name])) for name in ("per_second", "cpu_us"))
    return {"mib_per_second": runs * size, "cpu_us_per_mib": cpu_us / size}


async def _drive(one: Callable[[], Awaitable[None]], parameters: dict[str, Any]) -> Sample:
    await repeat(one, max(_WARM_UP, parameters["at_once"]), parameters["at_once"])
    begin = _clocks()
    await repeat(one, parameters["count"], parameters["at_once"])
    wall_s, cpu_s = (after - before for before, after in zip(begin, _clocks(), strict=True))
    return {"per_second": parameters["count"] / wall_s, "cpu_us": cpu_s / parameters["count"] * 1e6}


def _clocks() -> tuple[float, float]:
    """The time, and the CPU time of this process and of all below it. A process that is over counts with its parent."""
    parents, spent = {}, {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as stat:
                fields = stat.read().rpartition(")")[2].split()
                parents[int(name)] = int(fields[1])
                spent[int(name)] = sum(map(int, fields[11:15]))
    ours = {os.getpid()}
    while below := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= below
    return time.perf_counter(), sum(spent.get(pid, 0) for pid in ours) / os.sysconf("SC_CLK_TCK")
