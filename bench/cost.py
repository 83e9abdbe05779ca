"""The cost of a piece of work: wall time, and CPU time of this process and of all processes it started and reaped.

CPU time is reported besides wall time because it depends less on what else the machine is doing. It is not free of it:
the same work was seen to take a third more on a busy machine.
"""

from __future__ import annotations

import os
import resource
import time
from typing import NamedTuple

# Numbers of one measurement. A list holds single observations, which are pooled over the rounds for percentiles.
Sample = dict[str, float | list[float]]
MIB = 1 << 20


class Moment(NamedTuple):
    """A reading of the clocks."""

    wall_s: float
    own_us: float
    children_us: float


def now() -> Moment:
    """The clocks at this moment."""
    return Moment(time.perf_counter(), _cpu_us(resource.RUSAGE_SELF), _cpu_us(resource.RUSAGE_CHILDREN))


def per_run(begin: Moment, count: int) -> Sample:
    """The cost of `count` runs since `begin`."""
    end = now()
    return run_costs(end.wall_s - begin.wall_s, end.own_us - begin.own_us, end.children_us - begin.children_us, count)


def run_costs(seconds: float, own_us: float, children_us: float, count: int) -> Sample:
    """The sample of `count` runs with these sums."""
    return {
        "per_second": count / seconds,
        "own_us": own_us / count,
        "children_us": children_us / count,
        "cpu_us": (own_us + children_us) / count,
    }


def transfer_costs(seconds: float, cpu_us: float, size: int) -> Sample:
    """The sample of moving `size` bytes."""
    return {"mib_per_second": size / MIB / seconds, "cpu_us_per_mib": cpu_us / (size / MIB)}


def per_mib(begin: Moment, size: int) -> Sample:
    """The cost of moving `size` bytes since `begin`."""
    end = now()
    cpu_us = end.own_us - begin.own_us + end.children_us - begin.children_us
    return transfer_costs(end.wall_s - begin.wall_s, cpu_us, size)


def resident_bytes() -> int:
    """Memory of this process that is in RAM now."""
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def peak_resident_bytes() -> int:
    """The largest resident memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def journal_bytes() -> int:
    """Memory in the journals that this process holds: memfds, which no process is charged for."""
    total = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            if "holdfast-journal" in os.readlink(f"/proc/self/fd/{name}"):
                total += os.fstat(int(name)).st_blocks * 512
        except OSError:
            continue  # the directory's own descriptor
    return total


def _cpu_us(who: int) -> float:
    usage = resource.getrusage(who)
    return (usage.ru_utime + usage.ru_stime) * 1e6
