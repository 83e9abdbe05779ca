"""Ephemeral runs, whose journal is in memory: starting one, and ending what a lost guard left of it."""

from __future__ import annotations

import time

from ..guard.containment import probe
from ..guard.launch import launch
from ..journal.facts import Detail, make_fact
from ..values.fast_imports import TYPE_CHECKING
from .live import LiveRun

if TYPE_CHECKING:
    from ..guard.pool import GuardPool
    from ..journal.facts import Fact
    from ..values.entry import Entry
    from ..values.spec import RunSpec

WINDOW_BYTES = 16 << 20  # how far a streaming consumer may fall behind before the command is made to wait
ENDLESS = 1 << 62  # a window that never makes the command wait, but lets the guard give memory back


def start_ephemeral(
    spec: RunSpec,
    *,
    wake_output: bool = False,
    windowed: bool = False,
    window_size: tuple[int, int] | None = None,
    pool: GuardPool | None = None,
    entry: Entry | None = None,
) -> LiveRun:
    """Start a run without a directory. It gets an idle guard of the pool if one can take it, else a new guard.

    A run with an `entry` gets a new guard; `guard_watch.await_exec` waits for its exec.
    Fails as `launch` does; nothing is left then.
    """
    window_bytes = WINDOW_BYTES if windowed else 0 if spec.on_max_output == "roll" else ENDLESS
    if pool is None or entry is not None or not pool.suits(spec):
        handle = launch(spec, wake_output=wake_output, window_bytes=window_bytes, window_size=window_size, entry=entry)
        return LiveRun(spec, handle, end_lost, wake_output=wake_output, windowed=windowed)
    handle = launch(spec, wake_output=wake_output, window_bytes=window_bytes, pool=pool)
    live = LiveRun(spec, handle, end_lost, wake_output=wake_output, windowed=windowed)
    is_new = handle.first_run == spec.run_id  # a used guard kept other runs before
    live.pool = pool.for_inherited_state(handle.inherited_state) if is_new else pool
    return live


def end_lost(live: LiveRun) -> tuple[Fact, ...]:
    """End what the lost guard left of this run, and return the facts that nobody else will record."""
    from ..guard.leftovers import clean_up, leaf_path  # here, because guards are seldom lost
    from ..guard.processes import has_guard

    started = live.outcome.started
    # Before the start is on record, the guard may already have made its cgroup, and may hold the child in it.
    # A live guard that shows this id is another's, and so is the cgroup with that name.
    unsaid = None if has_guard(live.first_run) else leaf_path(probe().cgroup_base, live.first_run)
    cgroup = unsaid if started is None else started.detail["cgroup"]
    tree = clean_up(
        live.spec.run_id, cgroup, mark=live.spec.mark, has_run=started is not None, first_run=live.first_run
    )
    at_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    lost = make_fact("lost", at_ns, why="guard")
    if live.outcome.tree is not None:
        return (lost,)
    survivors = tuple(Detail(pid=pid) for pid in tree.survivors)
    return (make_fact("tree", at_ns, how=tree.how, count=len(survivors), survivors=survivors), lost)
