"""The agent's stdin: a queue of lines with one writer, so that an agent that does not read holds up nobody else."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import anyio

from ..values.errors import HoldfastError

if TYPE_CHECKING:
    from ..runs.supervisor import Run

_MOST_QUEUED = 16 << 20


class AgentInput:
    """Lines for the agent, in the order they were sent."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._lines: deque[bytes] = deque()
        self._queued = 0
        self._change = anyio.Event()
        self._is_closed = False

    def send(self, line: bytes) -> None:
        """Queue a line. If the agent has closed its stdin, the line is dropped."""
        self._lines.append(line)
        self._queued += len(line)
        self._announce()

    async def room(self) -> None:
        """Wait while too much is queued: the editor then waits as it would for an agent without a proxy."""
        while self._queued > _MOST_QUEUED and not self._is_closed:
            await self._change.wait()

    def close(self) -> None:
        """Close the agent's stdin after the queued lines are written."""
        self._is_closed = True
        self._announce()

    async def run(self) -> None:
        """Write queued lines until `close`, then close the agent's stdin."""
        while True:
            while self._lines:
                data = self._lines.popleft()
                if not await self._write(data):
                    self._lines.clear()
                self._queued = sum(map(len, self._lines)) if self._lines else 0
                self._announce()
            if self._is_closed:
                break
            await self._change.wait()
        try:
            await self._run.close_stdin()
        except HoldfastError:
            pass  # the run is over

    async def _write(self, data: bytes) -> bool:
        try:
            return await self._run.write_stdin(data)
        except HoldfastError:
            return False  # the run is over, which the proxy learns from the run itself

    def _announce(self) -> None:
        self._change.set()
        self._change = anyio.Event()
