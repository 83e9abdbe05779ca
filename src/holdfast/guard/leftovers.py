"""Killing the processes that a dead guard left, found by the run's cgroup and by the run's token in their environment.

The leader itself dies by its parent-death signal. The guard kills the leader's descendants; when the guard was
SIGKILLed, its owner does. With a cgroup, one write kills all its members. But a process may have left that cgroup: a
login session moves it, `systemd-run --scope` does, and root or the owner of the cgroups may. So the owner also looks
for processes whose environment at exec carried this run's token. It pins each by a pidfd *before* it reads the
environment a second time. So the process that gets the signal is the process that was checked, never a stranger with
the same number.

Whose token. The process that cleans up has seen that the guard of *this* run is gone. A run of another state directory
may have the same id, if a caller chose it, and a live guard. So the id is the token only if Holdfast made it: a run
with a chosen id has a mark (`environment.token`). The name of a cgroup has no mark. So a cgroup that is not on record
is left alone while a live guard shows that id (`has_guard`).

What is known then. A process that left the cgroup and cleared its environment is found in neither way. A user who may
make a cgroup for a run may also move a process out of it, so an empty cgroup proves nothing about a command that has
run. Only a parent can prove the end of a tree (ECHILD), and sentinel and guard are dead. So the answer is "unknown",
and "gone" only if the command never ran. `end_tree` in `native/stand_in.c` follows the same rule.
"""

from __future__ import annotations

import os
import time

from ..values.environment import token
from ..values.fast_imports import TYPE_CHECKING, NamedTuple, signal
from ..values.identity import proc_is_ours
from ..values.process_memory import environment
from .processes import has_exited

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


_FIRST_LOOK_S = 1.0  # how long the first look at all processes may take at least


class TreeEnd(NamedTuple):
    """How the tree of a run ended: gone, survivors, or unknown because nothing could prove it."""

    how: str
    survivors: tuple[int, ...] = ()


def clean_up(
    run_id: str,
    cgroup: str | None,
    *,
    has_run: bool,
    mark: str | None = None,
    first_run: str | None = None,
    within_s: float = 5.0,
) -> TreeEnd:
    """Kill what is left of a run without a guard; blocks until it is gone or `within_s` has passed. Never raises.

    `has_run`: the command was started, as far as is known. `mark`: that of the run, if it has one.
    `first_run`: the first run of the guard, if it has kept several runs. Their cgroup has the name of the first.
    """
    deadline = time.monotonic() + within_s
    inside = TreeEnd("unknown")
    if cgroup and os.path.basename(cgroup) == f"holdfast-{first_run or run_id}":  # never anything but our own leaf
        inside = _clean_cgroup(cgroup, deadline)
    found_outside, left_outside = _clean_by_token(token(run_id, mark), deadline)
    if survivors := tuple(dict.fromkeys((*inside.survivors, *left_outside))):
        return TreeEnd("survivors", survivors)
    return TreeEnd("unknown") if has_run or found_outside else inside


def leaf_path(base: str | None, run_id: str) -> str | None:
    """The path of a run's cgroup below `base`; None without a `base`, because there are no cgroups then."""
    return None if base is None else f"{base}/holdfast-{run_id}"


def kill_members(leaf: str) -> None:
    """Kill every process in this cgroup with one write. FileNotFoundError: it was removed. OSError: we may not."""
    _write(f"{leaf}/cgroup.kill", b"1")


def _clean_cgroup(leaf: str, deadline: float) -> TreeEnd:
    try:
        kill_members(leaf)
    except FileNotFoundError:
        return TreeEnd("gone")  # the leaf is removed only when it is empty
    except OSError:
        return TreeEnd("unknown")
    pids: tuple[int, ...] = ()

    def removed() -> bool:
        nonlocal pids
        if remove_leaf(leaf):
            return True
        # Killed, but not yet gone. Zombies do not count here, so this ends without anybody reaping them.
        pids = members(leaf)
        return False

    return TreeEnd("gone") if _until(removed, deadline) else TreeEnd("survivors", pids)


def _clean_by_token(variable: str, deadline: float) -> tuple[bool, tuple[int, ...]]:
    """Kill the processes that carry the token; returns whether there were some, and which of them are left."""
    wanted = variable.encode() + b"\0"
    found_any, found = False, tuple[int, ...]()
    until = max(deadline, time.monotonic() + _FIRST_LOOK_S)
    killed: dict[int, int] = {}  # pidfds by PID: a dying process has no environment any more, but is still there

    def none_left() -> bool:
        nonlocal found, found_any
        marked = [pid for pid in _in_time(until) if pid not in killed and _kill_if_marked(pid, wanted, killed)]
        found_any = found_any or bool(marked or killed)
        for pid in [pid for pid, pidfd in killed.items() if has_exited(pidfd)]:
            os.close(killed.pop(pid))
        found = (*marked, *killed)
        return not found

    try:
        return (found_any, ()) if _until(none_left, deadline) else (found_any, found)
    finally:
        for pidfd in killed.values():
            os.close(pidfd)


def _kill_if_marked(pid: int, wanted: bytes, killed: dict[int, int]) -> bool:
    """Kill this process if it carries the token, and keep its pidfd in `killed`; True when we may not kill it."""
    if not _is_marked(pid, wanted):
        return False
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        if _is_marked(pid, wanted):  # otherwise the number went to another process before we held it
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            killed[pid] = pidfd
    except ProcessLookupError:
        pass
    except OSError:
        return True  # another user's process: EPERM; it is a survivor
    finally:
        if pid not in killed:
            os.close(pidfd)
    return False


def _is_marked(pid: int, wanted: bytes) -> bool:
    return b"\0" + wanted in environment_of(pid)  # the leading NUL: "MY_HOLDFAST_RUN_ID=" is not ours


def environment_of(pid: int) -> bytes:
    """The environment of a process at its exec, with a NUL before each variable; empty when we may not read it."""
    return b"\0" + environment(pid)


def _all_pids() -> list[int]:
    if not proc_is_ours():
        return []  # its numbers are not ours: a pidfd of one of them would be that of a stranger
    own = os.getpid()
    return [pid for name in os.listdir("/proc") if name.isdigit() and (pid := int(name)) not in (0, 1, own)]


def _in_time(deadline: float) -> Iterator[int]:
    """All processes, as long as there is time: reading the environment of one may take a moment."""
    for pid in _all_pids():
        yield pid
        if time.monotonic() > deadline:
            return


def remove_leaf(leaf: str) -> bool:
    """Remove a cgroup and the cgroups of killed nested runs inside it; False when one is in use."""
    for inner in inner_groups(leaf):
        remove_leaf(inner)
    try:
        os.rmdir(leaf)  # the kernel refuses it (EBUSY) as long as a process is inside
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def members(leaf: str) -> tuple[int, ...]:
    """The processes in a cgroup and in the cgroups inside it; 0 stands for one that our PID namespace hides."""
    try:
        found = [int(line) for line in _read_all(f"{leaf}/cgroup.procs").split()]
    except OSError:
        return ()  # removed meanwhile
    for inner in inner_groups(leaf):
        found += members(inner)
    return tuple(found)


def inner_groups(group: str) -> list[str]:
    """The cgroups directly inside this one; an empty list when it is gone."""
    try:
        with os.scandir(group) as entries:
            return [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _until(done: Callable[[], bool], deadline: float) -> bool:
    pause_s = 0.001
    while not done():
        if time.monotonic() >= deadline:
            return False
        time.sleep(pause_s)  # nothing to wait on: these are not our children and their number is not known
        pause_s = min(pause_s * 2, 0.05)
    return True


def _read_all(path: str, limit: int = 16 << 20) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = b""
        while len(data) <= limit and (part := os.read(fd, 131072)):
            data += part
        return data
    finally:
        os.close(fd)


def _write(path: str, data: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, data)
    finally:
        os.close(fd)
