"""The processes that a session left: found by descent, counted, and ended.

The trial is a subreaper, and every process of a session descends from it: a process that leaves its parents becomes a
child of ours. So there is no need to read the memory of strangers (`/proc/PID/environ`), which can block.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.processes import descendants, own_children, reap, wait_exited

if TYPE_CHECKING:
    from collections.abc import Iterable

_END_S = 20.0


@dataclass(frozen=True, slots=True)
class Left:
    """What was still there: the commands, and the memory of all, shared pages divided among their users."""

    commands: list[str]
    memory_bytes: int


def find() -> set[int]:
    """The living processes of a trial."""
    for pid in own_children():
        reap(pid)
    return {pid for pid in descendants(os.getpid()) if _lives(pid)}


def wait(within_s: float) -> Left:
    """Give the processes this long to end by themselves, then count the others."""
    end = time.monotonic() + within_s
    while (found := find()) and (remaining := end - time.monotonic()) > 0:
        wait_exited(next(iter(found)), min(0.2, remaining))
    return Left([_command(pid) for pid in sorted(found)], sum(map(_memory, found)))


def end() -> None:
    """SIGKILL whatever is left of a trial until nothing is. RuntimeError if something stays."""
    give_up = time.monotonic() + _END_S
    while found := find():
        kill(found)
        for pid in found:
            wait_exited(pid, 1.0)
        if time.monotonic() > give_up:
            raise RuntimeError(f"trials: processes stay after SIGKILL: {', '.join(map(_command, found))}")


def of_program(directory: Path) -> set[int]:
    """Our descendants that run a program of this directory: those are the harness itself, not its tools."""
    return {pid for pid in descendants(os.getpid()) if _runs_from(pid, f"{directory}/")}


def kill(pids: Iterable[int]) -> None:
    """SIGKILL these processes, by descriptors that are opened before the first signal."""
    with contextlib.ExitStack() as opened:
        pidfds = []
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                pidfds.append(os.pidfd_open(pid))
                opened.callback(os.close, pidfds[-1])
        for pidfd in pidfds:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)


def _runs_from(pid: int, directory: str) -> bool:
    with contextlib.suppress(OSError):
        if os.readlink(f"/proc/{pid}/exe").startswith(directory):
            return True
    words = _bytes(pid, "cmdline").decode(errors="replace").split("\0")
    script = next((word for word in words[1:] if not word.startswith("-")), "")  # of an interpreter
    return words[0].startswith(directory) or script.startswith(directory)


def _lives(pid: int) -> bool:
    stat = _bytes(pid, "stat")
    return bool(stat) and stat[stat.rindex(b")") + 2 :][:1] not in (b"Z", b"X")


def _command(pid: int) -> str:
    return _bytes(pid, "cmdline").replace(b"\0", b" ").decode(errors="replace").strip() or f"process {pid}"


def _memory(pid: int) -> int:
    for line in _bytes(pid, "smaps_rollup").splitlines():
        if line.startswith(b"Pss:"):
            return int(line.split()[1]) * 1024
    return 0


def _bytes(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""
