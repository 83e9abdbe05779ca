"""Strike a process on purpose: pin it by a pidfd, look at it again, then send the signal."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_GUARD = b"holdfast-guard"
SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "hammer": signal.SIGSTOP}


def strike_guard(pid: int, run_id: str, weapon: str) -> bool:
    """Strike the guard of this run, if this process is the guard."""
    return _strike([(pid, lambda: is_guard(pid, run_id))], SIGNALS[weapon])


def strike_sentinel(pid: int, guard_pid: int | None, run_id: str, weapon: str) -> bool:
    """Strike the sentinel of this run; without a guard's PID, it has none yet, and its command line names the run."""
    return _strike([(pid, lambda: is_sentinel(pid, guard_pid, run_id))], SIGNALS[weapon])


def strike_both(sentinel_pid: int, guard_pid: int, run_id: str, weapon: str) -> bool:
    """Strike sentinel and guard as one: both stand still before either is killed, so neither sees the other die."""
    pair: list[tuple[int, Callable[[], bool]]] = [
        (sentinel_pid, lambda: is_sentinel(sentinel_pid, guard_pid, run_id)),
        (guard_pid, lambda: is_guard(guard_pid, run_id)),
    ]
    return _strike(pair, *dict.fromkeys((signal.SIGSTOP, SIGNALS[weapon])))


def strike_writer(sentinel_pid: int, weapon: str) -> bool:
    """Strike the process that writes the journal; while its sentinel lives, it is a child of that."""
    pid = next(filter(is_writer, children_of(sentinel_pid)), None)
    return pid is not None and _strike([(pid, lambda: is_writer(pid))], SIGNALS[weapon])


def kill_leader(pid: int, guard_pid: int) -> bool:
    """SIGKILL the run's first process."""
    return _strike([(pid, lambda: parent_of(pid) == guard_pid)], signal.SIGKILL)


def kill_child(pid: int, parent_pid: int) -> bool:
    """SIGKILL another process of the run, found below its guard or its leader."""
    return _strike([(pid, lambda: parent_of(pid) == parent_pid)], signal.SIGKILL)


def continue_both(sentinel_pid: int, guard_pid: int, run_id: str) -> None:
    """SIGCONT what is left of a stopped pair; the guard first, which its sentinel then finds at work."""
    _strike([(guard_pid, lambda: is_guard(guard_pid, run_id))], signal.SIGCONT)
    # Its guard may be gone: then nothing tells whose sentinel it is, and SIGCONT does nothing to another one.
    _strike([(sentinel_pid, lambda: _GUARD in os.path.basename(_command_line(sentinel_pid)[0]))], signal.SIGCONT)


def find_sentinel(owner_pid: int, run_id: str) -> int | None:
    """The sentinel of this run among the children of its owner; it exists before the owner knows it."""
    return next((pid for pid in children_of(owner_pid) if is_guard(pid, run_id)), None)


def is_guard(pid: int, run_id: str) -> bool:
    """Whether this process is the guard of this run, or a sentinel whose first run it is."""
    words = _command_line(pid)
    return _GUARD in os.path.basename(words[0]) and run_id.encode() in words


def is_sentinel(pid: int, guard_pid: int | None, run_id: str) -> bool:
    """Whether this process is the sentinel of this guard. One that is used again still shows its first run."""
    if guard_pid is None:
        return is_guard(pid, run_id)
    return parent_of(guard_pid) == pid and _GUARD in os.path.basename(_command_line(pid)[0])


def is_writer(pid: int) -> bool:
    """Whether this child of a sentinel is the writer of its journal; its command line is the sentinel's."""
    try:
        return Path(f"/proc/{pid}/comm").read_text() == "holdfast-write\n"
    except OSError:
        return False


def children_of(pid: int) -> list[int]:
    """The children of a process, of all its threads."""
    found: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            found += map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split())
    except OSError:
        pass
    return found


def parent_of(pid: int) -> int:
    """Its parent's PID; -1 if the process is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return -1
    return int(stat[stat.rindex(")") + 2 :].split()[1])


def _command_line(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return [b""]


def _strike(targets: list[tuple[int, Callable[[], bool]]], *numbers: signal.Signals) -> bool:
    """Send each signal to all targets in turn; False, and nothing is sent, if one of them is not what it must be."""
    with contextlib.ExitStack() as stack:
        pidfds = []
        try:
            for pid, is_it in targets:
                pidfds.append(os.pidfd_open(pid))
                stack.callback(os.close, pidfds[-1])
                if not is_it():
                    return False
            for number in numbers:
                for pidfd in pidfds:
                    signal.pidfd_send_signal(pidfd, number)
        except OSError:
            return False
    return True
