"""The oracle: an independent look at the remaining processes of one cell, and their end.

A cell's adapter starts in a cgroup of its own. A command cannot leave it, whatever it does to its parents, groups,
sessions and environment. Without cgroups, the looking process is a subreaper, and looks at everything below it.
That is slower, because it reads all of /proc and looks at every zombie.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.support.processes import descendants

if TYPE_CHECKING:
    from collections.abc import Iterator

_BASES = (Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup"))
_COUNTING = "/sys/fs/cgroup/pids"
_PROCESSES_MAX = 4000
_LOOK_S = 0.02
_KILL_S = 10.0
_REAP_S = 0.02


class Member(NamedTuple):
    """One live process; `program` is empty if the process was gone before the oracle read it."""

    pid: int
    program: str
    command: str


class Leaf:
    """The cgroup of one cell, if the machine allows one."""

    def __init__(self, name: str) -> None:
        self.path = _make(f"conformance-{os.getpid()}-{name}")
        self.counted = _make_counted(f"conformance-{os.getpid()}-{name}")

    def enter(self) -> None:
        """Enter the cgroups; called in a new process, before it becomes the adapter."""
        for group in (self.path, self.counted):
            if group is not None:
                (group / "cgroup.procs").write_text("0")

    def pids(self) -> set[int]:
        """Every process in the cgroup and in cgroups below it; without a cgroup, below this process."""
        if self.path is None:
            return descendants(os.getpid())
        found: set[int] = set()
        for group in self._groups():
            try:
                found.update(map(int, (group / "cgroup.procs").read_text().split()))
            except OSError:
                continue  # removed meanwhile
        return found

    def members(self) -> list[Member]:
        """Every live process, as it is now."""
        return [member for pid in self.pids() if (member := _member(pid)) is not None]

    def peak_mib(self) -> int:
        """The largest memory of a process in the cgroup; for an ended process, the process that waited for it knows."""
        return max(map(peak_kib, self.pids()), default=0) >> 10

    def thaw(self) -> None:
        """Let processes go on that have frozen themselves and the adapter."""
        for group in self._groups():
            self._write("cgroup.freeze", "0", group)

    def close(self) -> None:
        """Kill all processes, and remove the cgroup. RuntimeError if a process cannot be ended."""
        end = time.monotonic() + _KILL_S
        self._write("cgroup.freeze", "1")  # a bomb leaves us no time to kill it, and SIGKILL reaches the frozen
        while True:
            self._kill()
            _reap()
            if not self.members() and self._remove():
                return
            if time.monotonic() > end:
                raise RuntimeError(f"a cell cannot be cleaned up: {self.members()}")
            time.sleep(_LOOK_S)

    def _remove(self) -> bool:
        """Remove the cgroup and the cgroups below; False while a process in one of them has not quite exited."""
        counted = [] if self.counted is None else [Path(found) for found, _, _ in os.walk(self.counted)]
        for group in reversed([*self._groups(), *counted]):
            try:
                group.rmdir()
            except FileNotFoundError:
                continue
            except OSError:
                return False
        return True

    def _kill(self) -> None:
        if self.path is not None:
            (self.path / "cgroup.kill").write_text("1")
        for pid in self.pids():
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue

    def _write(self, name: str, value: str, group: Path | None = None) -> None:
        if (at := group or self.path) is not None:
            with contextlib.suppress(OSError):  # removed meanwhile
                (at / name).write_text(value)

    def _groups(self) -> list[Path]:
        """The cgroup and everything below, parents first."""
        return [] if self.path is None else [Path(found) for found, _, _ in os.walk(self.path)]


def left(leaf: Leaf, apart: frozenset[str], within_s: float) -> list[Member]:
    """The processes that remain after a while, without programs in `apart`; a look that finds none ends the wait.

    A process that is gone before its program can be read counts: a chain that forks faster than anybody can look
    must not be taken for its own end.
    """
    end = time.monotonic() + within_s
    while True:
        _reap()
        found = [member for member in leaf.members() if member.program not in apart]
        if not found or time.monotonic() >= end:
            return found
        time.sleep(_LOOK_S)


def wait_for_program(leaf: Leaf, program: str, within_s: float, *, minding: bool = True) -> int | None:
    """The process that runs the program. It is in position once it minds SIGTERM or catches SIGINT, if it has to."""
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        for member in leaf.members():
            if member.program == program and (not minding or _minds_a_signal(member.pid)):
                return member.pid
        time.sleep(_LOOK_S)
    return None


def _make(name: str) -> Path | None:
    for base in _BASES:
        if (base / "cgroup.procs").exists() and (base / "cgroup.controllers").exists():
            own = next(line[4:] for line in Path("/proc/self/cgroup").read_text().split() if line.startswith("0::/"))
            group = base / own / name
            try:
                group.mkdir()
            except OSError:
                return None
            return group
    return None


def _make_counted(name: str) -> Path | None:
    """A cgroup that limits how many processes there are, zombies included: a peer may leave a bomb that forks on."""
    own = [line.split(":")[2] for line in Path("/proc/self/cgroup").read_text().splitlines() if ":pids:" in line]
    group = Path(f"{_COUNTING}{own[0]}", name) if own else None
    try:
        if group is not None:
            group.mkdir()
            (group / "pids.max").write_text(str(_PROCESSES_MAX))
    except OSError:
        return None
    return group


def _member(pid: int) -> Member | None:
    """The process, or None if it has exited. A leader whose main thread has ended looks like a zombie, but is alive."""
    place = Path(f"/proc/{pid}")
    try:
        stat = (place / "stat").read_text()
        if stat[stat.rindex(")") + 2] in "ZX" and len(os.listdir(place / "task")) < 2:
            return None
        command = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        return Member(pid, os.readlink(place / "exe"), command)
    except PermissionError:
        return Member(pid, "", "(not ours to look at)")
    except (FileNotFoundError, ProcessLookupError):
        return Member(pid, "", "(gone before it could be asked)")


def _minds_a_signal(pid: int) -> bool:
    term, interrupt = 1 << (signal.SIGTERM - 1), 1 << (signal.SIGINT - 1)
    ignored = any(int(mask, 16) & term for mask in _status(pid, "SigIgn:"))
    return ignored or any(int(mask, 16) & (term | interrupt) for mask in _status(pid, "SigCgt:"))


def peak_kib(pid: int) -> int:
    """The largest memory of a live process; 0 if it is gone."""
    return max(map(int, _status(pid, "VmHWM:")), default=0)


def _status(pid: int, *names: str) -> list[str]:
    """The values of these lines of a process's status; empty if it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [line.split()[1] for line in lines if line.startswith(names)]


@contextlib.contextmanager
def reaping() -> Iterator[None]:
    """Reap the dead all the time: the dead of a fork storm would fill the host's process table within seconds."""
    over = threading.Event()

    def work() -> None:
        while not over.wait(_REAP_S):
            _reap()

    thread = threading.Thread(target=work, name="reaping", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _reap() -> None:
    """Reap processes that were reparented to us; leave the adapter's exit to the thread that waits for it."""
    for pid in own_children():
        if pid not in KEPT:
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                continue


def own_children(tasks: Path = Path("/proc/self/task")) -> list[int]:
    """The children of all our threads, dead or not."""
    found: list[int] = []
    for task in tasks.iterdir():
        try:
            found += [int(word) for word in (task / "children").read_text().split()]
        except (FileNotFoundError, ProcessLookupError):
            continue  # a thread that ended meanwhile: its children moved to another
    return found


KEPT: set[int] = set()  # children of this process that a thread here waits for
