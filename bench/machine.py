"""The description of the machine that the figures come from."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import holdfast.guard.containment as containment


def describe() -> dict[str, Any]:
    """Processor, kernel, versions, containment, and the load right now."""
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "processor": _field("/proc/cpuinfo", "model name") or platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "virtual": "hypervisor" in (_field("/proc/cpuinfo", "flags") or "").split(),
        "kernel": platform.release(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "versions": {name: version(name) for name in ("holdfast", "anyio", "trio")},
        "containment": "cgroup v2 leaf per run" if containment.probe().cgroup_base else "subreaper alone",
        "load_before": round(os.getloadavg()[0], 2),
    }


def load() -> float:
    """How many processes wanted a processor in the last minute."""
    return round(os.getloadavg()[0], 2)


def _field(path: str, name: str) -> str | None:
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            key, _, value = line.partition(":")
            if key.strip() == name:
                return value.strip()
    return None
