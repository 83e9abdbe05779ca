"""The leftovers of a round: processes, cgroups, sockets, half-made directories."""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.processes import children_that_stay, descendants, describe, state_of

_STAY_S = 3.0


def processes() -> list[str]:
    """Remaining processes, found by their descent: we are a subreaper. Each with the mark of its run, if it has one."""
    stayed = {*children_that_stay(set(), _STAY_S), *descendants(os.getpid())}
    return [f"{describe(pid)} (token {token_of(pid)})" for pid in sorted(stayed) if state_of(pid) not in (None, "Z")]


def token_of(pid: int) -> str | None:
    """The run whose mark is in this process's environment."""
    try:
        environ = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return None
    found = [entry for entry in environ.split(b"\0") if entry.startswith(b"HOLDFAST_RUN_ID=")]
    return found[0].partition(b"=")[2].decode(errors="replace") if found else None


def in_directory(state_path: str) -> list[str]:
    """Sockets, half-made or half-removed runs, and marks of live runs."""
    found = []
    for entry in os.scandir(os.path.join(state_path, "runs")):
        if entry.name.startswith("."):
            found.append(f"half-made directory {entry.name}")
        elif os.path.lexists(os.path.join(entry.path, "guard.sock")):
            found.append(f"socket of {entry.name}")
    return found + [f"live mark of {name}" for name in os.listdir(os.path.join(state_path, "live"))]
