"""The processes of a live run, and the ports on which they listen.

All processes of a run are below its guard: the guard is a subreaper, so an orphan becomes its child, whatever its
session, cgroup or environment. The processes of nested runs are below it, too. A process that another program started
(`register`) is not below the guard: there, the run is this process and everything below it. Processes inside a
container are not seen from here.

The answer describes one moment. It is None for a run that is not live, and where /proc does not tell.
"""

from __future__ import annotations

import os

from ..values.fast_imports import TYPE_CHECKING, NamedTuple
from ..values.identity import ProcessIdentity, is_alive, proc_is_ours
from .listeners import MOST_PROCESSES, PortsSeen, listeners_of
from .process_table import all_pids, read_proc

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from ..outcome import Outcome


class RunTree(NamedTuple):
    """Where the processes of a run are found: below the guard of this run, or a process that is not the guard's."""

    run_id: str
    guard_pid: int  # 0: the processes of the run cannot be found
    foreign: ProcessIdentity | None = None

    @classmethod
    def of(cls, run_id: str, header: Mapping[str, Any] | None, outcome: Outcome) -> RunTree:
        """The tree of a run, from its journal's header and its outcome."""
        if outcome.started is None or outcome.state == "settled":
            return NO_TREE
        detail = outcome.started.detail
        if detail["containment"] == "container":
            return NO_TREE
        if detail["containment"] == "none":
            leader = ProcessIdentity(detail["pid"], detail["start_ticks"], (header or {}).get("boot_id"))
            return cls(run_id, 0, leader)
        return cls(run_id, int(detail["guard_pid"]))

    def pids(self) -> list[int] | None:
        """The processes of the run, parents first; one more than MOST_PROCESSES at most. None: they cannot be known."""
        if self.foreign is not None:
            return [self.foreign.pid, *below(self.foreign.pid)] if is_alive(self.foreign) else None
        return below(self.guard_pid) if self._has_guard() else None

    def listening(self) -> PortsSeen | None:
        """The listeners among the processes of the run; None: they cannot be known."""
        pids = self.pids()
        return None if pids is None else listeners_of(pids)

    def ports(self) -> list[int] | None:
        """The ports on which the run listens now; None: not live, or not known. This takes less than a millisecond."""
        found = self.listening()
        return None if found is None else found.ports

    def _has_guard(self) -> bool:
        """Whether the guard's PID is still that of this run's guard: its command line has the id of its run."""
        if self.guard_pid <= 0 or not proc_is_ours():
            return False
        words = read_proc(f"{self.guard_pid}/cmdline").split(b"\0")
        return self.run_id.encode() in (word.strip() for word in words[1:3])


NO_TREE = RunTree("", 0)  # of a run that is over, was not started, or runs in a container


def below(root: int) -> list[int]:
    """The processes below this one, parents first; at most one more than MOST_PROCESSES."""
    children_of = _children if os.path.exists(f"/proc/self/task/{os.getpid()}/children") else _by_parent()
    found: dict[int, None] = {}
    left = [root]
    while left and len(found) <= MOST_PROCESSES:
        # A process may move to another parent while we walk, so it can appear twice.
        inner = [pid for pid in children_of(left.pop()) if pid not in found and pid != root]
        found.update(dict.fromkeys(inner))
        left += inner
    return list(found)[: MOST_PROCESSES + 1]


def _children(pid: int) -> list[int]:
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []  # it is gone
    return [int(word) for thread in threads for word in read_proc(f"{pid}/task/{thread}/children").split()]


def _by_parent() -> Callable[[int], list[int]]:
    """The children of a process from one look at all processes, for kernels without CONFIG_PROC_CHILDREN."""
    children: dict[int, list[int]] = {}
    for pid in all_pids():
        fields = read_proc(f"{pid}/stat").rpartition(b")")[2].split()
        if len(fields) > 1:
            children.setdefault(int(fields[1]), []).append(pid)
    return lambda pid: children.get(pid, [])
