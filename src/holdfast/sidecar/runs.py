"""The runs of a sidecar: live runs, runs whose output is not delivered yet, and the last runs that are over.

One task follows each run. It waits until the run is settled, then until its output is delivered or discarded, and then
closes its descriptors. The reports of the last thousand settled runs are remembered. Output without a subscriber is
held only for the last few settled runs, so that a client that never subscribes does not make the sidecar grow.
"""

from __future__ import annotations

from base64 import b64encode
from collections import deque
from functools import partial
from typing import TYPE_CHECKING

import anyio

from ..values.errors import HoldfastError, RequestError, RunNotFoundError
from .protocol import encode, notification

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anyio.abc import TaskGroup

    from ..runs.run import Run
    from ..streams.lines import LineWriter

MOST_OVER = 1000
MOST_UNREAD = 64
MOST_CREDIT = 1 << 53  # JavaScript counts exactly up to here
_PIECE = 48 << 10  # bytes of output in one line, which are 64 KiB as base64


class OutputCredit:
    """How many bytes of output the client is ready to receive: it gives credit, and sending output takes it.

    Only one task may take.
    """

    def __init__(self, bytes_: int = 0) -> None:
        self._left = min(bytes_, MOST_CREDIT)
        self._more = anyio.Event()
        self._is_over = False

    def give(self, bytes_: int) -> None:
        """Add credit."""
        self._left = min(self._left + bytes_, MOST_CREDIT)
        self._more.set()

    def end(self) -> None:
        """End the credit: the client wants no more output."""
        self._is_over = True
        self._more.set()

    async def take(self, most: int) -> int:
        """Wait for credit and take up to `most` bytes of it; 0 after `end`."""
        while self._left == 0 and not self._is_over:
            self._more = anyio.Event()
            await self._more.wait()
        taken = 0 if self._is_over else min(self._left, most)
        self._left -= taken
        return taken


class SidecarRun:
    """One run, and the delivery of its output."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.is_over = False
        self.is_subscribed = False
        self.delivered = anyio.Event()  # set when the output is delivered or dropped
        self._credit = OutputCredit()

    async def deliver(self, writer: LineWriter, *, late: bool) -> None:
        """Send the output as notifications, as the credit allows."""
        run, credit, complete = self.run, self._credit, True
        try:
            async for chunk in run.output(late=late):
                left = memoryview(chunk.data)
                while left and (taken := await credit.take(min(len(left), _PIECE))):
                    await writer.send(_output_line(run.run_id, chunk.stream, left[:taken], late=chunk.late))
                    left = left[taken:]
                if left:  # the run was released before all output was sent
                    complete = False
                    break
        except HoldfastError:  # the journal cannot be read, or the run was released meanwhile
            complete = False
        finally:
            self.delivered.set()
        await writer.send(encode(notification("output.end", {"run_id": run.run_id, "complete": complete})))

    async def discard(self) -> None:
        """Read the output and drop it, so that the command never waits for a reader."""
        try:
            async for _chunk in self.run.output(late=True):
                pass
        except HoldfastError:
            pass
        finally:
            self.delivered.set()

    def give_credit(self, bytes_: int) -> None:
        """Let more output be sent."""
        self._credit.give(bytes_)

    def release(self) -> None:
        """Close the run; the rest of its output is dropped."""
        self.run.close()
        self.delivered.set()
        self._credit.end()


class SidecarRuns:
    """All runs of a sidecar by id, in the order they were started or adopted."""

    def __init__(self, writer: LineWriter, tasks: TaskGroup) -> None:
        self._writer = writer
        self._tasks = tasks
        self._runs: dict[str, SidecarRun] = {}
        self._over: deque[str] = deque()
        self._unread: deque[SidecarRun] = deque()

    def __iter__(self) -> Iterator[SidecarRun]:
        return iter(tuple(self._runs.values()))

    def __contains__(self, run_id: str) -> bool:
        return run_id in self._runs

    def __getitem__(self, run_id: str) -> SidecarRun:
        """The run with this id. RunNotFoundError: it was never known, or is forgotten."""
        if run_id not in self._runs:
            remedy = f"it was never started here, or is over and forgotten (the last {MOST_OVER} are remembered)"
            raise RunNotFoundError("this sidecar knows no such run", run_id=run_id, remedy=remedy)
        return self._runs[run_id]

    def add(self, run: Run) -> SidecarRun:
        """Follow this run from now on."""
        known = self._runs[run.run_id] = SidecarRun(run)
        self._tasks.start_soon(self._follow, known)
        return known

    def subscribe(self, known: SidecarRun, credit_bytes: int, *, late: bool) -> None:
        """Send the output of a run. RequestError: it has a subscriber already, or the output is gone."""
        if known.is_subscribed or known.delivered.is_set():
            remedy = "give it more credit instead; output goes to one subscriber, once"
            raise RequestError("the output has a subscriber, or is gone", run_id=known.run.run_id, remedy=remedy)
        known.is_subscribed = True
        known.give_credit(credit_bytes)
        self._tasks.start_soon(partial(known.deliver, self._writer, late=late))

    def discard(self, known: SidecarRun) -> None:
        """Drop the output of a run."""
        known.is_subscribed = True
        self._tasks.start_soon(known.discard)

    def release(self, known: SidecarRun) -> None:
        """Forget a run that is over. RequestError: it is still live."""
        if not known.is_over:
            raise RequestError("the run is not over", run_id=known.run.run_id, remedy="cancel it, and wait for settled")
        known.release()
        self._runs.pop(known.run.run_id, None)
        if known.run.run_id in self._over:
            self._over.remove(known.run.run_id)

    async def _follow(self, known: SidecarRun) -> None:
        try:
            await known.run.settled()
        except HoldfastError:
            pass  # its record cannot be read, or it goes on without us: calls that wait for it get this error
        known.is_over = True
        if not known.is_subscribed:
            self._unread.append(known)
            if len(self._unread) > MOST_UNREAD:
                self._let_go_unread(self._unread.popleft())
        await known.delivered.wait()
        if known.run.run_id in self._runs:
            self._remember(known)

    @staticmethod
    def _let_go_unread(known: SidecarRun) -> None:
        if not known.is_subscribed:
            known.delivered.set()

    def _remember(self, known: SidecarRun) -> None:
        known.run.close()
        self._over.append(known.run.run_id)
        if len(self._over) > MOST_OVER:
            self._runs.pop(self._over.popleft(), None)


def _output_line(run_id: str, stream: str, data: memoryview, *, late: bool) -> bytes:
    params = {"run_id": run_id, "stream": stream, "data": b64encode(data).decode(), "late": late}
    return encode(notification("output", params))
