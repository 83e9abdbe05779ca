"""Runs on many hosts, placed by Ray: `holdfast.ray.Supervisor`. Needs the extra `ray` (`holdfast[ray]`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .gang import Gang
    from .remote_run import RemoteRun
    from .supervisor import RaySupervisor as Supervisor

_HOME = {
    "Gang": ("gang", "Gang"),
    "RemoteRun": ("remote_run", "RemoteRun"),
    "Supervisor": ("supervisor", "RaySupervisor"),
}
__all__ = ["Gang", "RemoteRun", "Supervisor"]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module, own_name = _HOME[name]
    return getattr(import_module(f".{module}", __name__), own_name)
