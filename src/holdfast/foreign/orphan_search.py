"""The search for foreign orphans: processes of agents whose harness is dead.

A harness marks the environment of everything that it starts, and does not carry its own marks. So the first ancestor
without the mark is the harness. When the harness dies, the kernel gives its children to a reaper: init, or a service
manager. A marked process whose first unmarked ancestor is a reaper has lost its harness, or has left it on purpose.

Which of the two it is:
- `dead`: no harness of that kind is alive that could have started it; or the harness wrote its PID down, and that
  process is gone; or the process names a session, and every live harness that could be its own shows other sessions.
- `unknown`: a harness that may be its own is alive. It is reported, and never ended.

What is no foreign orphan: a process of a run of Holdfast (`holdfast doctor` knows those, and leftovers that are
wanted), ourselves, our ancestors, and everything whose first unmarked ancestor is another program: that may be a
harness that we do not know. A process below an orphan is an orphan, too, marked or not.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, NamedTuple

from ..proc.listeners import listeners_of
from ..proc.process_table import read_proc, with_ancestors
from ..values.identity import is_safe_target
from .seen_process import look_at_all

if TYPE_CHECKING:
    from ..values.harnesses import Harness
    from ..values.identity import ProcessIdentity
    from .seen_process import SeenProcess

# Programs that take over the children of dead processes, by the name that the kernel keeps (15 characters).
REAPERS = frozenset(
    ("systemd", "init", "tini", "dumb-init", "docker-init", "catatonit", "conmon", "s6-svscan", "runit", "launchd")
)
_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")


class ForeignOrphan(NamedTuple):
    """A process that an agent left. `evidence`: the variable that tells it, or `ancestry`: it is below such a one."""

    identity: ProcessIdentity
    uid: int
    harness: str
    title: str
    session: str | None
    evidence: str
    state: str  # `dead` or `unknown`: what is known of its harness
    age_s: float | None
    memory_bytes: int | None
    ports: tuple[int, ...]
    command: tuple[str, ...]

    @property
    def pid(self) -> int:
        """The PID of the process."""
        return self.identity.pid

    @property
    def why_not(self) -> str | None:
        """Why we do not end it; None when we may."""
        if self.uid != os.geteuid() and os.geteuid() != 0:
            return f"it belongs to user {self.uid}"
        return None if self.state == "dead" else "its harness may be alive"


def find() -> list[ForeignOrphan]:
    """All foreign orphans that this process can see, by PID."""
    return _Search(look_at_all()).found()


class _Search:
    def __init__(self, seen: dict[int, SeenProcess]) -> None:
        self.seen = seen
        self.own = frozenset(with_ancestors(os.getpid()))
        self.children: dict[int, list[int]] = {}
        for process in seen.values():
            parent = seen.get(process.parent)
            # A younger parent has the PID of one that died while we looked.
            if parent is not None and parent.identity.start_ticks <= process.identity.start_ticks:
                self.children.setdefault(process.parent, []).append(process.pid)

    def found(self) -> list[ForeignOrphan]:
        roots = {pid: process for pid, process in self.seen.items() if self._is_root(process)}
        found: dict[int, ForeignOrphan] = {}
        for root in roots.values():
            assert root.harness is not None
            state = self._state(root, root.harness)
            for process in self._tree(root):
                found.setdefault(process.pid, self._orphan(process, root, root.harness, state))
        return [found[pid] for pid in sorted(found)]

    def _is_root(self, process: SeenProcess) -> bool:
        """Whether it is marked, and its parent is a reaper."""
        if process.harness is None or process.is_ours or process.pid in self.own or not is_safe_target(process.pid):
            return False
        if process.parent == 0:
            return False  # init of this namespace, or started from outside of it
        parent = self.seen.get(process.parent)
        if parent is None or parent.program is not None or parent.harness is not None:
            return False
        return parent.pid == 1 or parent.name in REAPERS

    def _tree(self, root: SeenProcess) -> list[SeenProcess]:
        """The process and everything below it, but for runs of Holdfast and ourselves."""
        found, left = [], [root.pid]
        while left:
            process = self.seen[left.pop()]
            if process.is_ours or process.pid in self.own:
                continue
            found.append(process)
            left += [pid for pid in self.children.get(process.pid, ()) if pid in self.seen]
        return found

    def _state(self, root: SeenProcess, harness: Harness) -> str:
        started = root.identity.start_ticks
        if any(process.program is not None for process in self._tree(root)):
            return "unknown"  # an agent is at work in it
        if root.harness_pid is not None:
            told = self.seen.get(root.harness_pid)
            is_alive = told is not None and told.program == harness and told.identity.start_ticks <= started
            return "unknown" if is_alive else "dead"
        for process in self.seen.values():
            could_be = process.program == harness and process.uid == root.uid and process.pid != root.pid
            if not could_be or process.identity.start_ticks > started:
                continue
            sessions = self._sessions(process)
            if root.session is None or not sessions or root.session in sessions:
                return "unknown"
        return "dead"

    def _sessions(self, harness: SeenProcess) -> set[str]:
        """The sessions of which a live harness has processes."""
        found: set[str] = set()
        left = list(self.children.get(harness.pid, ()))
        while left:
            process = self.seen.get(left.pop())
            if process is not None:
                found.update({process.session} - {None})  # type: ignore[arg-type]
                left += self.children.get(process.pid, ())
        return found

    def _orphan(self, process: SeenProcess, root: SeenProcess, harness: Harness, state: str) -> ForeignOrphan:
        is_marked = process.harness == harness and process.mark is not None
        ports = tuple(sorted({one.port for one in listeners_of([process.pid]).found}))
        return ForeignOrphan(
            process.identity,
            process.uid,
            harness.name,
            harness.title,
            process.session if is_marked else root.session,
            str(process.mark) if is_marked else "ancestry",
            state,
            _age_s(process.identity.start_ticks),
            _memory(process.pid),
            ports,
            process.words,
        )


def _age_s(start_ticks: int) -> float | None:
    try:
        return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - start_ticks / _TICKS)
    except OSError:
        return None


def _memory(pid: int) -> int | None:
    """The memory that the process holds now; what it shares with others counts, too."""
    fields = read_proc(f"{pid}/statm").split()
    return int(fields[1]) * _PAGE if len(fields) > 1 else None
