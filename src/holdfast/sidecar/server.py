"""Sidecar server: reads calls from its host's lines, does them, writes the answers, and ends its runs with the host.

Theory of operation. One task reads lines and does the calls that must stay in order. Every other call has a task of its
own, so that waiting for one run never delays another. One writer sends all answers and notifications. The guards keep
deadlines, ladders and output: a run ends in time even when the host stops reading and this process is stuck.

Memory is bounded whatever the host does: lines by their length, calls by their number, unsent lines by a queue that
makes its senders wait, and output by the host's credit and the window of each run.

The end. When the host closes stdin or is gone (no reader, no writer), runs of lifetime `owner` end with cause `owner`.
When the host calls `shutdown`, or the sidecar gets SIGTERM, SIGINT or SIGHUP, they end with cause `shutdown`; a second
signal kills. Runs of other lifetimes go on without the sidecar. Waiting calls are answered while the host still reads.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import anyio

from ..runs.supervisor import Supervisor
from ..state.enclosing_runs import enclosing_run_is_ending
from ..streams.lines import LONGEST_LINE, LineSplitter, LineWriter, hung_up, pieces
from ..values.errors import HoldfastError
from . import protocol
from .lazy_supervisor import LazySupervisor
from .methods import SidecarMethods
from .protocol import CallError, InvalidCall, RpcCall, RpcMessage
from .runs import SidecarRuns
from .schema import check_params

if TYPE_CHECKING:
    from typing import TypeGuard

    from anyio.abc import TaskGroup

MOST_CALLS = 10_000
_ROOM = {"cancel": 2 * MOST_CALLS}  # `cancel` ends waiting calls, so it is accepted when no other call is
_LAST_WORDS_S = 2.0
_UNREAD_S = 2.0


def log(text: str) -> None:
    """Write one line to stderr; a failure to write is ignored, because nothing else could tell it."""
    try:
        os.write(2, f"holdfast sidecar: {text}\n".encode("utf-8", "backslashreplace"))
    except OSError:
        pass


class SidecarServer:
    """The conversation with one host."""

    def __init__(self, writer: LineWriter, tasks: TaskGroup, state_dir: str | None) -> None:
        self._writer = writer
        self._tasks = tasks
        self._state_dir = state_dir
        self._runs = SidecarRuns(writer, tasks)
        self._reading = anyio.CancelScope()
        self._leaving: tuple[str, str] = ("owner", "the host closed the connection")
        self._shutdown_call: RpcCall | None = None
        self._calls = 0
        self._fewer_calls = anyio.Event()
        self._is_initialized = False
        self._is_ending = False

    async def serve(self, input_fd: int) -> None:
        """Serve calls until the end, then end the runs that are left."""
        async with AsyncExitStack() as stack:
            ephemeral = await stack.enter_async_context(Supervisor())
            kept = LazySupervisor(stack, lambda: Supervisor(state_dir=_state_path(self._state_dir)))
            self._methods = SidecarMethods(self._runs, ephemeral, kept.get, self._state_dir)
            self._tasks.start_soon(self._watch_host, input_fd)
            self._tasks.start_soon(self._read_until_over, input_fd, kept)
            await kept.serve()
            for supervisor in (ephemeral, *kept.opened):
                supervisor.leave_with(*self._leaving)
        if self._shutdown_call is not None:
            await self._answer(protocol.result(self._shutdown_call.id, {}))
        with anyio.move_on_after(_LAST_WORDS_S):
            # The runs are over, so every waiting call has its answer and only has to send it.
            while self._calls:
                self._fewer_calls = anyio.Event()
                await self._fewer_calls.wait()
            await self._writer.flushed()

    def stop(self, name: str) -> None:
        """End all runs, because a signal arrived; at the second, kill them, unless an enclosing run sends its rungs."""
        if not self._is_ending:
            self._is_ending = True
            log(f"{name}: ending {sum(not known.is_over for known in self._runs)} runs")
            self._leaving = ("shutdown", f"the sidecar got {name}")
            self._reading.cancel()
            return
        if enclosing_run_is_ending():
            log(f"{name} again, from the run that we are in: the grace goes on")
            return
        log(f"{name} again: killing")
        for known in self._runs:
            if not known.is_over and known.run.ends_with_us:
                self._tasks.start_soon(self._kill, known.run)

    async def _kill(self, run: Any) -> None:
        try:
            await run.cancel(self._leaving[1], cause="shutdown", now=True)
        except HoldfastError as error:
            log(str(error))

    async def _watch_host(self, input_fd: int) -> None:
        """Stop reading when the host is gone or will never write again, even while our lines wait for the host."""
        async with anyio.create_task_group() as either:

            async def no_reader() -> None:
                await self._writer.broken()
                either.cancel_scope.cancel()

            async def no_writer() -> None:
                await hung_up(input_fd)
                await anyio.sleep(_UNREAD_S)  # time to read and do what the host wrote before
                either.cancel_scope.cancel()

            either.start_soon(no_reader)
            either.start_soon(no_writer)
        self._reading.cancel()

    async def _read_until_over(self, input_fd: int, kept: LazySupervisor) -> None:
        with self._reading:
            await self._read(input_fd)
        self._is_ending = True
        kept.close()

    async def _read(self, input_fd: int) -> None:
        lines = LineSplitter()
        async for data in pieces(input_fd):
            for line in lines.feed(data):
                if line is None:
                    await self._take(protocol.too_long(LONGEST_LINE))
                elif line.strip():
                    await self._take(protocol.parse(line))
                if self._shutdown_call is not None:
                    return
        if lines.is_begun:
            log("the host stopped in the middle of a line; that line is ignored")

    async def _take(self, message: RpcMessage) -> None:
        if message.is_batch:
            await self._take_batch(message.calls)
            return
        for call in message.calls:
            if self._may_wait(call):
                self._calls += 1
                self._tasks.start_soon(self._do_and_answer, call)
            else:
                await self._answer(await self._do(call))

    def _may_wait(self, call: RpcCall | InvalidCall) -> TypeGuard[RpcCall]:
        """Whether this call gets a task of its own: its method may wait, and not too many calls wait already."""
        if not isinstance(call, RpcCall) or call.method not in self._methods.at_once:
            return False
        return self._calls < _ROOM.get(call.method, MOST_CALLS)

    async def _take_batch(self, calls: list[RpcCall | InvalidCall]) -> None:
        """Do the calls of a batch, in order where order matters; send the answers together after the last one."""
        answers: list[dict[str, Any] | None] = [None] * len(calls)
        waiting = []
        for place, call in enumerate(calls):
            if self._may_wait(call):
                self._calls += 1
                waiting.append((place, call))
            else:
                answers[place] = await self._do(call)
        self._tasks.start_soon(self._finish_batch, answers, waiting)

    async def _finish_batch(self, answers: list[dict[str, Any] | None], waiting: list[tuple[int, RpcCall]]) -> None:
        async def fill(place: int, call: RpcCall) -> None:
            answers[place] = await self._do(call, has_task=True)

        async with anyio.create_task_group() as group:
            for place, call in waiting:
                group.start_soon(fill, place, call)
        told = [answer for answer in answers if answer is not None]
        if told:
            await self._writer.send(protocol.encode(told))
        self._over(len(waiting))

    async def _do_and_answer(self, call: RpcCall) -> None:
        try:
            await self._answer(await self._do(call, has_task=True))
        finally:
            self._over(1)

    def _over(self, calls: int) -> None:
        self._calls -= calls
        self._fewer_calls.set()

    async def _answer(self, answer: dict[str, Any] | None) -> None:
        if answer is not None:
            await self._writer.send(protocol.encode(answer))

    async def _do(self, call: RpcCall | InvalidCall, *, has_task: bool = False) -> dict[str, Any] | None:
        """Do a call and return its answer; None when no answer is due now, as for a notification."""
        if isinstance(call, InvalidCall):
            return protocol.failure(call.id, call.error)
        try:
            if call.method in self._methods.at_once and not has_task:
                raise CallError(protocol.BUSY, f"{self._calls} calls are waiting for an answer")
            answer = protocol.result(call.id, await self._done(call))
        except CallError as error:
            answer = protocol.failure(call.id, error.error)
        except HoldfastError as error:
            answer = protocol.failure(call.id, protocol.of_holdfast(error))
        except Exception as error:  # noqa: BLE001 - only this call fails: the sidecar and its runs go on
            log(f"a defect in Holdfast, please report it: {call.method}: {error!r}")
            answer = protocol.failure(
                call.id, protocol.error(protocol.INTERNAL_ERROR, f"a defect in Holdfast: {error}")
            )
        if self._shutdown_call is call:
            return None  # `serve` answers it when all runs are over
        return answer if call.wants_answer else None

    async def _done(self, call: RpcCall) -> Any:
        method = self._methods.in_order.get(call.method) or self._methods.at_once.get(call.method)
        if method is None and call.method != "shutdown":
            raise CallError(protocol.METHOD_NOT_FOUND, f"there is no method {call.method[:60]!r}")
        if not self._is_initialized and call.method not in ("initialize", "shutdown"):
            raise CallError(protocol.NOT_INITIALIZED, "the first call has to be initialize")
        check_params(call.method, call.params)
        if method is None:
            self._leaving = ("shutdown", call.params.get("reason") or "the host asked the sidecar to shut down")
            self._shutdown_call = call
            return {}
        done = await method(call.params)
        self._is_initialized = True  # the first call that gets here is initialize
        return done


def _state_path(given: str | None) -> str:
    from ..state.directory import StateDirectory

    return StateDirectory.open(given, create=True).path


async def serve(state_dir: str | None = None, input_fd: int = 0, output_fd: int = 1) -> None:
    """Serve the host on these descriptors until it leaves or asks for shutdown; returns when our runs are over."""
    writer = LineWriter(output_fd)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(writer.run)
            server = SidecarServer(writer, tasks, state_dir)
            tasks.start_soon(_take_signals, server)
            await server.serve(input_fd)
            tasks.cancel_scope.cancel()
    finally:
        writer.close()


async def _take_signals(server: SidecarServer) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
        async for number in signals:
            server.stop(number.name)


def main(state_dir: str | None) -> int:
    """Run the whole program and return the exit code. Warnings go to stderr, which is usually the host's log."""
    sys.stdout = sys.stderr  # a stray print must not get into the protocol
    anyio.run(serve, state_dir)
    return 0
