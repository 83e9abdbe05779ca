"""The cgroups of runs (leaves): find them, list their processes, remove the empty ones that were left behind."""

from __future__ import annotations

import os
import time
from typing import NamedTuple

from ..values.errors import SpecError
from ..values.run_id import check_run_id
from . import containment
from .leftovers import inner_groups, members, remove_leaf

_PREFIX = "holdfast-"


class Leaf(NamedTuple):
    """The cgroup of a run, live or over."""

    path: str
    run_id: str


def find_leaves() -> list[Leaf]:
    """Find the cgroups of runs, nested ones included; outer ones come first."""
    here = containment.probe()
    bases = dict.fromkeys(base for base in (here.cgroup_base, here.memory_base, here.pids_base) if base is not None)
    found: list[Leaf] = []
    groups = [group for base in bases for group in inner_groups(base)]
    while groups:
        inner = [Leaf(group, run_id) for group in groups if (run_id := _run_of(os.path.basename(group))) is not None]
        found += inner
        groups = [group for leaf in inner for group in inner_groups(leaf.path)]
    return found


def runs_by_member() -> dict[int, tuple[str, ...]]:
    """For each process in the cgroup of a run: the ids of the runs it is in, the outermost first."""
    found: dict[int, tuple[str, ...]] = {}
    for leaf in find_leaves():
        for pid in members(leaf.path):
            if leaf.run_id not in found.get(pid, ()):
                found[pid] = (*found.get(pid, ()), leaf.run_id)
    return found


def find_empty(*, older_than_s: float = 60.0) -> list[Leaf]:
    """Find the cgroups without a process. Only old ones: a run that is just starting has an empty cgroup, too."""
    limit = time.time() - older_than_s
    return [leaf for leaf in find_leaves() if _made_at(leaf.path) < limit and not members(leaf.path)]


def remove_empty(leaf: Leaf) -> bool:
    """Remove an empty cgroup; False when a process is in it again, or the kernel refuses."""
    return not members(leaf.path) and remove_leaf(leaf.path)


def _run_of(name: str) -> str | None:
    try:
        return check_run_id(name.removeprefix(_PREFIX)) if name.startswith(_PREFIX) else None
    except SpecError:
        return None


def _made_at(group: str) -> float:
    try:
        return os.stat(group).st_mtime
    except OSError:
        return time.time()
