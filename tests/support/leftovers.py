"""What a test may not leave behind: processes, descriptors, cgroups."""

from __future__ import annotations

import gc
import os
import select
import time
from typing import NamedTuple

from holdfast.guard import containment

from .processes import children_that_stay, describe, kill_children, own_children

_PROCESSES_S = 1.0
_CGROUPS_S = 1.0


class Standing(NamedTuple):
    """What there is at one moment."""

    children: set[int]
    descriptors: dict[int, str]
    cgroups: set[str]


def take_stock() -> Standing:
    """What there is now."""
    return Standing(own_children(), open_descriptors(), run_cgroups())


def find_leftovers(before: Standing, *, descriptors: bool = True) -> list[str]:
    """What came since and is still there, as sentences; processes among it are killed: no later test shall suffer."""
    gc.collect()
    found = [f"process {describe(pid)}" for pid in children_that_stay(before.children, _PROCESSES_S)]
    if found:
        kill_children(before.children)
    now = open_descriptors() if descriptors else {}
    found += [f"descriptor {fd} -> {now[fd]}" for fd in sorted(now.keys() - before.descriptors.keys())]
    return found + [f"cgroup {path}" for path in _cgroups_that_stay(before.cgroups)]


def open_descriptors() -> dict[int, str]:
    """Our descriptors and what they are."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:
            continue  # the one that listed the directory
    return found


def run_cgroups() -> set[str]:
    """The cgroups of runs below the bases that runs are put in, whoever's they are."""
    bases = {base for base in containment.probe()[:3] if base is not None}
    return {f"{base}/{name}" for base in bases for name in os.listdir(base) if name.startswith("holdfast-")}


def _cgroups_that_stay(before: set[str]) -> list[str]:
    # Runs of other programs live in the same place. Theirs have processes in them, or are about to go; ours, after a
    # test, could only be empty. The kernel tells nobody about a removed directory here, hence the looking again.
    end = time.monotonic() + _CGROUPS_S
    while True:
        empty = sorted(path for path in run_cgroups() - before if _is_empty(path))
        if not empty or time.monotonic() >= end:
            return empty
        select.select([], [], [], 0.01)


def _is_empty(path: str) -> bool:
    try:
        with open(f"{path}/cgroup.procs") as members:
            return not members.read().strip()
    except OSError:
        return False  # gone between the listing and the look
