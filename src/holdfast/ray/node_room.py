"""The room of a node: how many runs its descriptors and processes allow, and whether its memory has room for one more.

A node that has no room refuses a start, and the run stays in the line of its supervisor.
"""

from __future__ import annotations

import functools
import resource
import time
from typing import NamedTuple

from ..runs.descriptor_limit import raise_descriptor_limit

_DESCRIPTORS_OF_A_RUN = 8
_DESCRIPTORS_OF_OURS = 256
_PROCESSES_OF_A_RUN = 4  # sentinel, guard, command, and one that the command starts
_LEAST_FREE_BYTES = 128 << 20
_MOMENT_S = 0.1  # many runs may start in a moment: the file is read once


class NodeRoom(NamedTuple):
    """How many runs may be alive on this node at once, and how much memory their budgets may be in all."""

    slots: int
    memory_bytes: int

    @classmethod
    def here(cls, most: int | None = None) -> NodeRoom:
        """The room of this host for the runs of this process, whose limit of descriptors is raised; `most` runs."""
        slots = (raise_descriptor_limit() - _DESCRIPTORS_OF_OURS) // _DESCRIPTORS_OF_A_RUN
        allowed = min(slots, _processes_allowed() // _PROCESSES_OF_A_RUN)
        return cls(max(1, allowed if most is None else min(allowed, most)), _whole_memory())

    def refusal(self, live: int, promised: int, budget: int) -> str | None:
        """Why no run with this memory budget can start beside `live` others, which have budgets of `promised` in all.

        None: it can. The sentence goes on after "the node".
        """
        if live >= self.slots:
            return f"has all its {self.slots} slots in use"
        if budget and promised + budget > self.memory_bytes:
            return f"has promised {promised >> 20} of its {self.memory_bytes >> 20} MiB of memory to other runs"
        free = free_memory_bytes()
        if free is not None and free < budget + _LEAST_FREE_BYTES:
            return f"has only {free >> 20} MiB of memory left"
        return None


def free_memory_bytes() -> int | None:
    """How much memory programs of this host could still get a moment ago; None: unknown."""
    return _free_at(int(time.monotonic() / _MOMENT_S))


@functools.lru_cache(maxsize=1)
def _free_at(_moment: int) -> int | None:
    return _memory_line("MemAvailable:")


def _whole_memory() -> int:
    """The memory of this host, or the limit of our container if it is lower."""
    whole = _memory_line("MemTotal:") or 1 << 62
    try:
        with open("/sys/fs/cgroup/memory.max", encoding="ascii") as most:
            return min(whole, int(most.read()))
    except (OSError, ValueError):  # there is no such file on the host itself; or its text is `max`
        return whole


def _memory_line(name: str) -> int | None:
    try:
        with open("/proc/meminfo", encoding="ascii") as meminfo:
            return next((int(line.split()[1]) << 10 for line in meminfo if line.startswith(name)), None)
    except OSError:
        return None


def _processes_allowed() -> int:
    """How many processes the limits of this user and of our cgroup allow in all."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    found = [soft if soft != resource.RLIM_INFINITY else 1 << 22]
    for path in ("/sys/fs/cgroup/pids.max", "/proc/sys/kernel/pid_max"):
        try:
            with open(path, encoding="ascii") as most:
                found.append(int(most.read()))
        except (OSError, ValueError):
            continue
    return min(found)
