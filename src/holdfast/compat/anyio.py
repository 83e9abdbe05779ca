"""`anyio.open_process` and `anyio.run_process`, whose processes are runs: `from holdfast.compat import anyio`.

The functions and the processes are anyio's own, on asyncio and on trio. Only the start below them is replaced: by
`asyncio_subprocess` on asyncio, and by `trio` on trio.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any, cast

from anyio import CancelScope, wait_readable
from anyio._core import _subprocesses as _original
from anyio._core._eventloop import current_async_library, get_async_backend

from . import asyncio_subprocess
from .popen import ADDED
from .rebinding import rebound

if TYPE_CHECKING:
    from subprocess import CompletedProcess
    from typing import Unpack

    from anyio.abc import Process

    from .keywords import AnyioOpen, AnyioRun, Command
    from .popen import Popen

__all__ = ["open_process", "popen_of", "run_process", "settled"]


async def open_process(command: Command, **options: Unpack[AnyioOpen]) -> Process:
    """As `anyio.open_process`, with the options of a run beside its own."""
    arguments: dict[str, Any] = {**options}
    return await _Opening.taken_from(arguments)(command, **arguments)


async def run_process(command: Command, **options: Unpack[AnyioRun]) -> CompletedProcess[bytes]:
    """As `anyio.run_process`, with the options of a run beside its own."""
    arguments: dict[str, Any] = {**options}
    opening = _Opening.taken_from(arguments)
    try:
        return await rebound(_original.run_process, open_process=opening)(command, **arguments)
    finally:
        for process in opening.opened:
            with CancelScope(shield=True):
                await settled(process)


async def settled(process: Process) -> dict[str, Any] | None:
    """Wait until the whole tree of the process is gone; returns the report. `run_process` does that, too."""
    popen = popen_of(process)
    child = getattr(popen, "child", None)  # a process that asyncio started alone has no run
    if child is None:
        return None
    if (sentinel := child.duplicate_sentinel()) >= 0:
        try:
            await wait_readable(sentinel)
        finally:
            os.close(sentinel)
        child.wait_settled()
    return popen.report


def popen_of(process: Process) -> Popen:
    """The `Popen` of a process that these functions started: it has `report` and `why()`."""
    inner: Any = process._process  # type: ignore[attr-defined]  # noqa: SLF001
    known = inner._proc if hasattr(inner, "_proc") else inner._transport.get_extra_info("subprocess")  # noqa: SLF001
    return cast("Popen", known)


class _Opening:
    """anyio's `open_process`, with these options for the run."""

    __slots__ = ("_added", "opened")

    def __init__(self, added: dict[str, Any]) -> None:
        self._added = added
        self.opened: list[Process] = []

    @classmethod
    def taken_from(cls, options: dict[str, Any]) -> _Opening:
        """Take the options of a run out of the others."""
        return cls({name: options.pop(name) for name in ADDED & options.keys()})

    async def __call__(self, *given: Any, **options: Any) -> Process:
        process = await rebound(_original.open_process, get_async_backend=lambda: self)(*given, **options)
        self.opened.append(process)
        return process

    async def open_process(self, command: Any, **options: Any) -> Process:
        """What anyio asks its backend to do: the backend's own code, around another start."""
        backend = get_async_backend()
        method: Any = backend.open_process
        if current_async_library() == "trio":
            start = rebound(method.__func__, trio=_TrioNames())
        else:
            start = rebound(method.__func__, asyncio=_AsyncioNames())
        return cast("Process", await start(backend, command, **options, **self._added))


class _AsyncioNames:
    """The module `asyncio` as anyio's backend sees it: its running loop starts processes with a guard."""

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    def get_running_loop(self) -> Any:
        return asyncio_subprocess.StartingLoop(asyncio.get_running_loop())


class _TrioNames:
    """The module `trio` as anyio's backend sees it."""

    def __init__(self) -> None:
        from . import trio

        self.lowlevel = trio
