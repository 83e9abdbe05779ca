"""`asyncio.subprocess`, whose processes are runs: `from holdfast.compat import asyncio_subprocess`.

Streams, protocols and pipes are asyncio's own code. Only the start and the news of the exit are replaced: the event
loop watches the control socket of the guard, so no child watcher and no thread is needed.
"""

from __future__ import annotations

import asyncio
import os
import warnings
from asyncio import base_events, base_subprocess, get_running_loop, streams, unix_events
from asyncio import subprocess as _original
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, SubprocessStreamProtocol
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from ..runs.guard_watch import ms_until, watch
from .popen import PlainStartWarning, Popen, StartingPopen, is_plain

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, TimerHandle
    from collections.abc import Callable
    from typing import Unpack

    from .child import Child
    from .keywords import AsyncioStart, Stream, Word

__all__ = ["DEVNULL", "PIPE", "STDOUT", "Process", "create_subprocess_exec", "create_subprocess_shell"]

_LIMIT: int = streams._DEFAULT_LIMIT  # type: ignore[attr-defined]  # noqa: SLF001 - the default of the original
_make_plainly = unix_events._UnixSelectorEventLoop._make_subprocess_transport  # type: ignore[attr-defined]  # noqa: SLF001


class Process(_original.Process):
    """`asyncio.subprocess.Process` with the run of its process."""

    def __init__(self, transport: Any, protocol: Any, loop: AbstractEventLoop) -> None:
        super().__init__(transport, protocol, loop)
        self._popen = cast("Popen", transport.get_extra_info("subprocess"))

    @property
    def report(self) -> dict[str, Any] | None:
        """The report of the run as it is now; None for a process that was started by asyncio alone."""
        return self._popen.report if isinstance(self._popen, Popen) else None

    async def settled(self) -> dict[str, Any] | None:
        """Wait until the whole tree is gone; returns the report."""
        child = self._popen.child if isinstance(self._popen, Popen) else None
        if child is not None and (sentinel := child.duplicate_sentinel()) >= 0:
            loop = get_running_loop()
            gone = asyncio.Event()
            loop.add_reader(sentinel, gone.set)
            try:
                await gone.wait()
            finally:
                loop.remove_reader(sentinel)
                os.close(sentinel)
            child.wait_settled()
        return self.report

    def why(self) -> str:
        """What happened to the process, as `holdfast why` tells it."""
        return self._popen.why() if isinstance(self._popen, Popen) else "asyncio started this process alone.\n"


async def create_subprocess_exec(
    program: Word,
    *args: Word,
    stdin: Stream = None,
    stdout: Stream = None,
    stderr: Stream = None,
    limit: int = _LIMIT,
    **arguments: Unpack[AsyncioStart],
) -> Process:
    """As `asyncio.create_subprocess_exec`, with the options of a run beside its own arguments."""
    loop = get_running_loop()
    starting: Any = StartingLoop(loop)
    make_protocol = partial(SubprocessStreamProtocol, limit=limit, loop=loop)
    streams_given = {"stdin": stdin, "stdout": stdout, "stderr": stderr}
    made = await starting.subprocess_exec(make_protocol, program, *args, **streams_given, **arguments)
    return Process(made[0], made[1], loop)


async def create_subprocess_shell(
    cmd: str | bytes,
    stdin: Stream = None,
    stdout: Stream = None,
    stderr: Stream = None,
    limit: int = _LIMIT,
    **arguments: Unpack[AsyncioStart],
) -> Process:
    """As `asyncio.create_subprocess_shell`, with the options of a run beside its own arguments."""
    loop = get_running_loop()
    starting: Any = StartingLoop(loop)
    make_protocol = partial(SubprocessStreamProtocol, limit=limit, loop=loop)
    streams_given = {"stdin": stdin, "stdout": stdout, "stderr": stderr}
    made = await starting.subprocess_shell(make_protocol, cmd, **streams_given, **arguments)
    return Process(made[0], made[1], loop)


class StartingLoop:
    """An event loop whose `subprocess_exec` and `subprocess_shell` start processes with a guard. Any loop will do."""

    subprocess_exec = base_events.BaseEventLoop.subprocess_exec
    subprocess_shell = base_events.BaseEventLoop.subprocess_shell

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._debug = loop.get_debug()
        self._log_subprocess: Callable[..., None] = getattr(loop, "_log_subprocess", _log_nothing)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    async def _make_subprocess_transport(self, *given: Any, **arguments: Any) -> Any:
        return await make_transport(self._loop, *given, **arguments)


def _log_nothing(*_given: object) -> None:
    pass


async def make_transport(
    loop: Any,
    protocol: Any,
    args: Any,
    shell: bool,
    stdin: Any,
    stdout: Any,
    stderr: Any,
    bufsize: int,
    extra: Any = None,
    **arguments: Any,
) -> Any:
    """Start a process and connect its pipes: the part of an event loop that asyncio's own functions call."""
    if is_plain(arguments):
        message = "preexec_fn or process_group needs a start by asyncio alone: Holdfast does not end this process"
        warnings.warn(message, PlainStartWarning, stacklevel=2)
        return await _make_plainly(loop, protocol, args, shell, stdin, stdout, stderr, bufsize, extra, **arguments)
    streams_given: tuple[Any, Any, Any] = (stdin, stdout, stderr)
    popen = StartingPopen(args, bufsize, None, *streams_given, shell=shell, **arguments)
    await _executed(loop, popen)
    waiter = loop.create_future()
    transport = _Transport(
        loop, protocol, args, shell, *streams_given, bufsize, waiter=waiter, extra=extra, popen=popen
    )
    transport.watch()
    try:
        await waiter
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException:
        transport.close()
        await transport._wait()  # noqa: SLF001 - as asyncio does
        raise
    return transport


async def _executed(loop: Any, popen: StartingPopen) -> None:
    """Wait until the command is executed, while the loop serves others. OSError: it is not.

    Other starts go on meanwhile: a guard needs a core for a millisecond, and much longer when all of them are busy.
    """
    assert popen.child is not None
    child, entry = popen.child, popen.child.live.entry
    executed = loop.create_future()
    loop.add_reader(entry, _set_done, executed)
    try:
        is_over = False
        while not executed.done() and not is_over:
            await asyncio.wait((executed,), timeout=ms_until(child.live.watchdog.next_at) / 1000)
            with child.reading:
                is_over = watch(child.live)
    except BaseException:
        loop.remove_reader(entry)
        popen.abandon()
        raise
    loop.remove_reader(entry)
    popen.take_exec()


def _set_done(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class _Transport(base_subprocess.BaseSubprocessTransport):
    """asyncio's own transport of a process, for a process that is the command of a run."""

    def _start(self, *_given: Any, popen: Popen, **_arguments: Any) -> None:  # type: ignore[override]
        self._proc = popen

    def watch(self) -> None:
        """Let the event loop watch the guard until the run is settled."""
        child = cast("Popen", self._proc).child
        assert child is not None
        _Watch(self, child, self._loop)


class _Watch:
    """An event loop that watches the guard of one process."""

    __slots__ = ("_child", "_fd", "_loop", "_timer", "_transport")

    def __init__(self, transport: _Transport, child: Child, loop: AbstractEventLoop) -> None:
        self._transport: _Transport | None = transport
        self._child = child
        self._loop = loop
        self._fd = child.descriptor
        self._timer: TimerHandle | None = None
        child.on_close = self._end  # before the descriptor is closed: another file may get its number
        loop.add_reader(self._fd, self._look)
        self._set_timer()

    def _set_timer(self) -> None:
        self._timer = self._loop.call_later(ms_until(self._child.live.watchdog.next_at) / 1000, self._on_time)

    def _on_time(self) -> None:
        with self._child.reading:
            watch(self._child.live)
        self._set_timer()
        self._look()

    def _look(self) -> None:
        self._tell(self._child.look())
        if self._child.live.ended and not self._child.finish():
            self._await_sentinel()

    def _await_sentinel(self) -> None:
        """The run is settled, and its sentinel is about to exit: the loop does not wait for it."""
        self._loop.remove_reader(self._fd)
        self._fd = self._child.live.pidfd
        self._loop.add_reader(self._fd, self._child.finish)

    def _tell(self, code: int | None) -> None:
        """Tell the transport of the exit, once."""
        if code is not None and self._transport is not None:
            transport, self._transport = self._transport, None
            self._child.finish_later()  # the event loop may end before the tree
            transport._process_exited(code)  # noqa: SLF001 - as asyncio's child watchers do

    def _end(self) -> None:
        """Stop watching. This may be another thread, which waits for the process with its Popen."""
        if self._loop.is_closed():
            return
        self._loop.remove_reader(self._fd)
        self._loop.call_soon_threadsafe(self._tell, self._child.exit_code)
        if self._timer is not None:
            self._timer.cancel()
