"""Killing every process of a run whose guard lives but does not end it, from outside.

All processes of the run are below the sentinel: sentinel and guard are subreapers, so an orphan becomes their child,
whatever its session, cgroup or environment. The owner walks /proc, pins each process below them by a pidfd, checks that
it is still the same process, and kills it. It repeats that until none is left, because a process may fork while the
owner looks. With a cgroup, one write kills the members first.

The guard's own processes are spared: the sentinel, and the processes directly below it that show the same command line.
"""

from __future__ import annotations

import os
import time

from ..values.fast_imports import NamedTuple, signal
from ..values.identity import proc_is_ours
from .leftovers import kill_members
from .processes import is_guard_of, read, sentinel_of, words_of

_PAUSE_S = 0.002


class _Seen(NamedTuple):
    parent: int
    start_ticks: int


def kill_below(sentinel_pid: int, guard_pid: int, first_run: str, cgroup: str | None, within_s: float) -> None:
    """Kill all processes below this sentinel or, if it is gone, below this guard. Stops when `within_s` has passed.

    `sentinel_pid`: 0 when it is not known. `first_run` is the first run of the guard. Its `cgroup` has that name; None:
    it has none.
    """
    until = time.monotonic() + within_s
    if cgroup and os.path.basename(cgroup) == f"holdfast-{first_run}":
        try:
            kill_members(cgroup)
        except OSError:
            pass  # removed meanwhile, or not ours to kill: the walk finds its members
    roots = (sentinel_pid or sentinel_of(guard_pid), guard_pid)
    root = next((pid for pid in roots if pid and is_guard_of(pid, first_run)), 0)
    while root and proc_is_ours() and (found := _below(root)):
        for pid, seen in found.items():
            _kill_if_same(pid, seen)
        if time.monotonic() >= until:
            return
        time.sleep(_PAUSE_S)  # nothing to wait on: these are not our children


def _below(root: int) -> dict[int, _Seen]:
    """The living processes below this one, but for its guard."""
    table = {int(name): seen for name in os.listdir("/proc") if name.isdigit() and (seen := _look(int(name)))}
    children: dict[int, list[int]] = {}
    for pid, seen in table.items():
        children.setdefault(seen.parent, []).append(pid)
    own = words_of(root)[:2]
    spared = {pid for pid in children.get(root, ()) if words_of(pid)[:2] == own}
    found: dict[int, _Seen] = {}
    left = [root]
    while left:
        for pid in children.get(left.pop(), ()):
            left.append(pid)
            if pid not in spared:
                found[pid] = table[pid]
    return found


def _look(pid: int) -> _Seen | None:
    fields = read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    if len(fields) < 20 or fields[0] in (b"Z", b"X"):
        return None  # gone, or dead: only its parent can reap it
    return _Seen(int(fields[1]), int(fields[19]))


def _kill_if_same(pid: int, seen: _Seen) -> None:
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return
    try:
        now = _look(pid)
        if now is not None and now.start_ticks == seen.start_ticks:
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    except OSError:
        pass  # it is gone; or another user's process, which only the guard's own report can name
    finally:
        os.close(pidfd)
