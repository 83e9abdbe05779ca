"""`trio.run_process` and `trio.lowlevel.open_process`, whose processes are runs: `from holdfast.compat import trio`.

The functions are trio's own code around our `Popen`, and the processes are of trio's own class.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, cast

import trio
from trio import _subprocess as _original

from . import subprocess as _ours
from .rebinding import rebound

if TYPE_CHECKING:
    from subprocess import CompletedProcess
    from typing import Unpack

    from .keywords import Command, TrioOpen, TrioRun
    from .popen import Popen

__all__ = ["open_process", "popen_of", "run_process", "settled"]


async def _open_watched(command: Any, **options: Any) -> trio.Process:
    """Open a process that trio can wait for. Without a pidfd trio would call waitid, but the child is the guard's."""
    # Looked up with each call: another library, or a test, may have replaced it.
    opened: Any = await rebound(_original._open_process, subprocess=_ours)(command, **options)  # noqa: SLF001
    if not isinstance(opened, trio.Process):
        return cast("trio.Process", opened)
    process, child = opened, popen_of(opened).child
    if process._pidfd is None and child is not None and process.poll() is None:  # noqa: SLF001
        # The command is gone already, or there was no descriptor left.
        process._wait_for_exit_data = exited = trio.Event()  # noqa: SLF001
        trio.lowlevel.spawn_system_task(_set_at_exit, child.duplicate_sentinel(), exited)
    return process


async def _set_at_exit(sentinel: int, exited: trio.Event) -> None:
    """Set the event when the sentinel has exited, which it does after the command."""
    try:
        if sentinel >= 0:
            await trio.lowlevel.wait_readable(sentinel)
    finally:
        if sentinel >= 0:
            os.close(sentinel)
        exited.set()


async def open_process(command: Command, **options: Unpack[TrioOpen]) -> trio.Process:
    """As `trio.lowlevel.open_process`, with the options of a run beside its own."""
    return await _open_watched(command, **options)


async def run_process(command: Command, **options: Unpack[TrioRun]) -> CompletedProcess[bytes]:
    """As `trio.run_process`, with the options of a run beside its own. It can be started with `nursery.start`.

    A cancellation ends the tree as trio's own `deliver_cancel` does: `terminate`, which has the run's grace here, and
    `kill` after five seconds.
    """
    opened: list[trio.Process] = []

    async def open_one(command: Any, **options: Any) -> trio.Process:
        process = await _open_watched(command, **options)
        if isinstance(process, trio.Process):
            opened.append(process)
        return process

    run: Any = rebound(_original._run_process, subprocess=_ours, _open_process=open_one)  # noqa: SLF001
    try:
        return cast("CompletedProcess[bytes]", await run(command, **options))
    finally:
        for process in opened:
            with trio.CancelScope(shield=True):
                await settled(process)


async def settled(process: trio.Process) -> dict[str, Any] | None:
    """Wait until the whole tree of the process is gone; returns the report. `run_process` does that, too."""
    popen = popen_of(process)
    if popen.child is not None and (sentinel := popen.child.duplicate_sentinel()) >= 0:
        try:
            await trio.lowlevel.wait_readable(sentinel)
        finally:
            os.close(sentinel)
        popen.child.wait_settled()
    return popen.report


def popen_of(process: trio.Process) -> Popen:
    """The `Popen` of a process that these functions started: it has `report` and `why()`."""
    return cast("Popen", process._proc)  # noqa: SLF001
