"""Drop-ins: the interfaces of `subprocess`, asyncio, anyio and trio for starting processes, each process a run."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .patching import Patch, patch
    from .popen import PlainStartWarning

__all__ = ["Patch", "PlainStartWarning", "patch"]
_HOME = {"Patch": "patching", "PlainStartWarning": "popen", "patch": "patching"}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_HOME[name]}", __name__), name)
