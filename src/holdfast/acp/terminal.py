"""One ACP terminal: a run, the last bytes of its output, and its answers.

ACP has no word for a command that cannot be started or for a run that was lost: both are errors of the call. A terminal
that we ended has a signal and no exit code, whatever exit code the command gave; `_meta` has the outcome.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import anyio
from acp.exceptions import RequestError

from ..projections.acp_v1 import acp_v1_terminal
from ..values.errors import HoldfastError
from ..values.utf8_cut import end_of_last, start_of_first

if TYPE_CHECKING:
    from ..runs.supervisor import Run

INTERNAL_ERROR = -32603
_SETTLE_S = 1.0
_EXEC_S = 0.002


class AcpTerminal:
    """One terminal: the run, and the tail of its output."""

    def __init__(self, session_id: str, run: Run, limit: int) -> None:
        self.session_id = session_id
        self.run = run
        self.tail = OutputTail(limit)
        self.drained = anyio.Event()
        self._has_waited = False

    async def read(self) -> None:
        """Read the output until it ends."""
        try:
            async for chunk in self.run.output():
                self.tail.add(chunk.data)
        except HoldfastError:
            pass  # the journal cannot be read: the caller that waits for the run gets this error
        finally:
            self.drained.set()

    async def settle(self) -> None:
        """Wait a moment, once, for the rest of the output after the verdict. Only late output can take longer."""
        if not self._has_waited:
            with anyio.move_on_after(_SETTLE_S):
                await self.drained.wait()
            self._has_waited = True

    async def until_begun(self) -> None:
        """Wait until the command itself runs, or until the verdict says that the run is over."""
        while self.run.status is None and not is_past_exec(self.run):
            with anyio.move_on_after(_EXEC_S):  # there is an event only for an exec that failed
                await self.run.wait()

    async def end(self, reason: str) -> None:
        """Ask the run to end. RequestError: its guard did not take the request."""
        try:
            await self.run.cancel(reason)
        except HoldfastError as error:
            raise RequestError(INTERNAL_ERROR, str(error)) from error

    def exit_status(self) -> dict[str, Any]:
        """How the command ended, after the verdict. RequestError: the run was lost."""
        answer = acp_v1_terminal(self.run.outcome, self.run.run_id)
        if answer.result is None:
            raise self.error()
        return answer.result

    def error(self) -> RequestError:
        """The error that stands for the run's outcome."""
        error = acp_v1_terminal(self.run.outcome, self.run.run_id).error
        assert error is not None
        return RequestError(error["code"], error["message"], error["data"])


class OutputTail:
    """The last bytes of a stream: keeps at most `limit` and drops the oldest."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._bytes = bytearray()
        self._forgotten = 0

    def add(self, data: bytes) -> None:
        """Add the bytes that follow."""
        self._bytes += data
        # Dropped only now and then: to move the rest for every chunk would cost more than the output itself.
        if len(self._bytes) > 2 * self._limit:
            self._forget()

    def text(self, *, ended: bool) -> tuple[str, bool]:
        """The kept text in whole characters, and whether older bytes were dropped.

        The end of the last character may still come, unless the stream has `ended`.
        """
        self._forget()
        start = start_of_first(self._bytes) if self._forgotten else 0
        end = len(self._bytes) if ended else end_of_last(self._bytes)
        return self._bytes[start:end].decode("utf-8", "replace"), self._forgotten > 0

    def _forget(self) -> None:
        if (excess := len(self._bytes) - self._limit) > 0:
            del self._bytes[:excess]
            self._forgotten += excess


def is_past_exec(run: Run) -> bool:
    """Whether the process runs another program than the guard's."""
    pid = run.pid
    if pid is None:
        return False
    try:  # the links' texts, and not `samefile`: that asks the program's file system, which may never answer
        return os.readlink(f"/proc/{pid}/exe") != os.readlink(f"/proc/{run.guard_pid}/exe")
    except PermissionError:
        return True  # a program of another user, so not the guard's
    except OSError:
        return False  # it has exited; the verdict says whether the command ever ran
