"""`patch`: a whole program, with its libraries, uses the drop-ins without changing an import.

Theory of operation. Everything in Python that starts a process through `subprocess` looks up `subprocess.Popen` when it
does so: the functions of that module, asyncio's transports and trio. So that name is the most important one. asyncio
would wait for the child by itself, so the method of its event loop that starts processes is replaced as well. The
public functions are replaced for their grace, and for event loops that are not asyncio's own.

A patch names what it cannot reach: `missed` has the classes that modules took before the patch, and `UNCOVERED` has
ways to start a process that do not go through these modules.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from asyncio import unix_events
from typing import Any, NamedTuple

from . import asyncio_subprocess
from . import subprocess as ours
from .popen import Popen, TimedPopen

UNCOVERED = {
    "os.system, os.popen, os.spawn*, os.posix_spawn, os.fork, os.exec*": "they call the kernel, or a shell, themselves",
    "multiprocessing, concurrent.futures": "they fork, or start Python with a private function",
    "pty.spawn, pty.fork": "they fork",
    "preexec_fn and process_group": "the standard library starts these processes alone: PlainStartWarning",
    "loop.subprocess_exec of uvloop": "it is native code; asyncio.create_subprocess_exec on uvloop is covered",
    "extension modules": "they call the kernel themselves",
}
_ORIGINAL = subprocess.Popen
_FUNCTIONS = ("run", "call", "check_call", "check_output", "getoutput", "getstatusoutput")
_CREATE = ("create_subprocess_exec", "create_subprocess_shell")


class _Name(NamedTuple):
    """One name in a module or class, and what it means while the patch is in force."""

    owner: Any
    name: str
    value: Any

    def __str__(self) -> str:
        return f"{self.owner.__name__}.{self.name}"


class Patch:
    """A patch that is in force; as a context manager, until the end of its block.

    `covered` has the names that mean our drop-ins now. `missed` has what modules took before and still use: it starts
    processes without Holdfast.
    """

    __slots__ = ("_before", "_names", "missed")

    def __init__(self) -> None:
        self._names = _names()
        self._before = [getattr(each.owner, each.name) for each in self._names]
        for each in self._names:
            setattr(each.owner, each.name, each.value)
        self.missed = _missed()

    @property
    def covered(self) -> tuple[str, ...]:
        """The names that mean our drop-ins now."""
        return tuple(str(each) for each in self._names)

    @property
    def uncovered(self) -> dict[str, str]:
        """Ways to start a process that no patch covers, each with the reason."""
        return dict(UNCOVERED)

    def undo(self) -> None:
        """Give every name its meaning back, unless somebody else has changed it since. A second call does nothing."""
        for each, before in reversed(list(zip(self._names, self._before, strict=True))):
            if getattr(each.owner, each.name) is each.value:
                setattr(each.owner, each.name, before)
        self._names, self._before = [], []

    def __enter__(self) -> Patch:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.undo()

    def __str__(self) -> str:
        lines = ["covered:", *(f"  {name}" for name in self.covered), "missed, because it was imported before:"]
        lines += [f"  {name}" for name in self.missed] or ["  nothing"]
        return "\n".join([*lines, "not covered:", *(f"  {way}: {why}" for way, why in UNCOVERED.items())])


def patch() -> Patch:
    """Let this program and its libraries use the drop-ins from now on, or until the end of a `with` block.

    Call it first, before other imports: `missed` names the classes that were imported before.
    """
    return Patch()


def _names() -> list[_Name]:
    loop: Any = vars(unix_events)["_UnixSelectorEventLoop"]
    names = [_Name(subprocess, "Popen", Popen)]
    names += [_Name(subprocess, name, getattr(ours, name)) for name in _FUNCTIONS]
    names.append(_Name(loop, "_make_subprocess_transport", asyncio_subprocess.make_transport))
    for owner in (asyncio, asyncio.subprocess):
        names += [_Name(owner, name, getattr(asyncio_subprocess, name)) for name in _CREATE]
    if (anyio := sys.modules.get("anyio")) is not None:
        from . import anyio as compat_anyio

        names += [_Name(anyio, name, getattr(compat_anyio, name)) for name in ("open_process", "run_process")]
    if (trio := sys.modules.get("trio")) is not None:
        from . import trio as compat_trio

        names += [_Name(trio, "run_process", compat_trio.run_process)]
        names += [_Name(trio.lowlevel, "open_process", compat_trio.open_process)]
    return names


def _missed() -> tuple[str, ...]:
    """Where the original class is still in use: names in modules, and classes that were derived from it."""
    found = [
        f"{module_name}.{name}"
        for module_name, module in list(sys.modules.items())
        if not module_name.startswith("holdfast.")
        for name, value in list(getattr(module, "__dict__", {}).items())
        if value is _ORIGINAL
    ]
    derived = [kind for kind in _ORIGINAL.__subclasses__() if not issubclass(kind, (Popen, TimedPopen))]
    return tuple(sorted(found + [f"{kind.__module__}.{kind.__qualname__}" for kind in derived]))
