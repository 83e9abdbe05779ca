"""The process tree below a guard, with the CPU time and memory of each process, from `/proc`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from ...proc.process_table import all_pids, read_proc
from ...values.process_memory import command_line

if TYPE_CHECKING:
    from collections.abc import Mapping

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_COMMAND = 300  # characters


class SampledProcess(NamedTuple):
    """A process from /proc/PID/stat. `cpu_s` is its own CPU time, `reaped_s` that of children it has waited for."""

    pid: int
    parent_pid: int
    name: str
    state: str
    cpu_s: float
    reaped_s: float
    rss_bytes: int


def tree_of(guard_pid: int) -> list[dict[str, Any]]:
    """The processes below a guard, parents before their children."""
    processes = all_processes()
    return [_described(processes[pid]) for pid in descendants(guard_pid, by_parent(processes))]


def _described(one: SampledProcess) -> dict[str, Any]:
    words = command_line(one.pid).rstrip(b"\0").replace(b"\0", b" ")
    command = words[:_COMMAND].decode("utf-8", "backslashreplace") or f"[{one.name}]"
    return {
        "pid": one.pid,
        "parent_pid": one.parent_pid,
        "command": command,
        "state": one.state,
        "cpu_s": round(one.cpu_s, 2),
        "rss_bytes": one.rss_bytes,
    }


def all_processes() -> dict[int, SampledProcess]:
    """Every process that this process can see, by PID."""
    found = (_process(pid) for pid in all_pids())
    return {one.pid: one for one in found if one is not None}


def by_parent(processes: Mapping[int, SampledProcess]) -> dict[int, list[int]]:
    """The PIDs of the children of each process."""
    found: dict[int, list[int]] = {}
    for one in processes.values():
        found.setdefault(one.parent_pid, []).append(one.pid)
    return found


def descendants(root: int, children: Mapping[int, list[int]]) -> list[int]:
    """The PIDs of all processes below the root, each after its parent."""
    found: list[int] = []
    waiting = sorted(children.get(root, ()), reverse=True)
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found.append(pid)
            waiting += sorted(children.get(pid, ()), reverse=True)
    return found


def _process(pid: int) -> SampledProcess | None:
    line = read_proc(f"{pid}/stat")
    head, bracket, rest = line.rpartition(b") ")  # a name may contain brackets and spaces
    fields = rest.split()
    if not bracket or len(fields) < 22:
        return None
    return SampledProcess(
        pid,
        int(fields[1]),
        head.partition(b"(")[2].decode("utf-8", "backslashreplace"),
        fields[0].decode("ascii", "replace"),
        (int(fields[11]) + int(fields[12])) / _TICKS,
        (int(fields[13]) + int(fields[14])) / _TICKS,
        int(fields[21]) * _PAGE,
    )
