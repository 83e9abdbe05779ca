"""Leftovers of a test: processes, descriptors, cgroups."""

from __future__ import annotations

import gc
import os
import time
from typing import NamedTuple

from .cgroups import OWN_GROUPS
from .processes import children_that_stay, describe, kill_children, own_children

_GOING_S = 15.0  # how long a process may be exiting on a busy machine, and a descriptor or a cgroup wait for that


class Standing(NamedTuple):
    """The processes, descriptors and cgroups at one moment."""

    children: set[int]
    descriptors: dict[int, str]
    cgroups: list[str]


def take_stock() -> Standing:
    """The present standing."""
    return Standing(own_children(), open_descriptors(), OWN_GROUPS.find_runs())


def find_leftovers(before: Standing, *, descriptors: bool = True, within_s: float = _GOING_S) -> list[str]:
    """The new leftovers, as sentences; leftover processes are killed, so that no later test suffers."""
    found = [f"process {describe(pid)}" for pid in children_that_stay(before.children, within_s)]
    if found:
        kill_children(before.children)
    found += _new_descriptors(before, within_s) if descriptors else []
    return found + _new_cgroups(before, within_s)


def open_descriptors() -> dict[int, str]:
    """Our descriptors and their targets."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:
            continue  # the descriptor that listed the directory
    return found


def _new_descriptors(before: Standing, within_s: float) -> list[str]:
    end = time.monotonic() + within_s
    while True:
        now = open_descriptors()
        new = sorted(now.keys() - before.descriptors.keys())
        if not new or time.monotonic() >= end:
            return [f"descriptor {fd} -> {now[fd]}" for fd in new]
        gc.collect()  # only now: it takes longer than most tests. Again: a worker thread still holds its last call


def _new_cgroups(before: Standing, within_s: float) -> list[str]:
    end = time.monotonic() + within_s
    while True:
        new = sorted(set(OWN_GROUPS.find_runs()) - set(before.cgroups))
        if not new or time.monotonic() >= end:
            return [f"cgroup {path}" for path in new]
        os.sched_yield()  # a guard removes its leaf before it exits; a process that is no child of ours may be at it
