"""The process table: visible PIDs, small files of `/proc`, users and ancestors of a process."""

from __future__ import annotations

import os

from ..values.identity import proc_is_ours


def all_pids() -> list[int]:
    """The PIDs of all processes that this process can see, in order; none where /proc shows another PID namespace."""
    if not proc_is_ours():
        return []
    return sorted(int(name) for name in os.listdir("/proc") if name.isdigit())


def read_proc(name: str) -> bytes:
    """The content of a small file below `/proc`; empty when it is gone or hidden."""
    try:
        with open(f"/proc/{name}", "rb", buffering=0) as file:
            return file.read(65536) or b""
    except OSError:
        return b""


def uid_of(pid: int) -> int:
    """The user to whom a process belongs; -1, which is no user, when the process is gone."""
    return _status_number(pid, b"Uid:")


def with_ancestors(pid: int) -> list[int]:
    """The process, its parent, its parent's parent, and so on, up to the last one that can be seen."""
    found = [pid]
    # Processes come and go while we climb: a PID may be reused by one of its own descendants.
    while (parent := _status_number(found[-1], b"PPid:")) > 0 and parent not in found:
        found.append(parent)
    return found


def _status_number(pid: int, field: bytes) -> int:
    """A number from `/proc/PID/status`; -1 when it is not there."""
    # At line feeds only: the program chooses its name, in the first line, and the kernel escapes nothing else there.
    for line in read_proc(f"{pid}/status").split(b"\n"):
        if line.startswith(field):
            return int(line.split()[1])
    return -1
