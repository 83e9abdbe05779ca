"""A run on another host, as the daemon follows it: a copy of its journal here, and requests to its node.

Everything that the daemon tells about the run comes from the copy, so every reader of the state directory says the
same. One task copies: it asks the node for the journal from the end of the copy on, and waits there for more. When the
node is lost, the task writes the end. Until then nobody else writes to the copy, so a verdict in it stays.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ...proc.input_wait import NO_STDIN
from ...proc.run_tree import NO_TREE
from ...ray.bindings import NodeUnreachableError
from ...state.elsewhere import remove_note
from ...values.errors import HoldfastError, RequestError, RunNotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...journal.part import JournalPart
    from ...outcome import Outcome
    from ...proc.input_wait import Stdin
    from ...proc.run_tree import RunTree
    from ...ray.remote_run import RemoteRun
    from ...state.directory import StateDirectory
    from ...state.journal_copy import JournalCopy

_WAIT_S = 20.0  # for something new in the journal
_RETRY_S = 1.0
_END_S = 30.0  # how long the end may take from the node's word to the file
_LOOK_S = 0.05


class RayRun:
    """A run on some node, live or over, with the interface of `EngineRun`."""

    def __init__(
        self, state: StateDirectory, copy: JournalCopy, remote: RemoteRun | None, warn: Callable[[str], None]
    ) -> None:
        """`remote` is None if the run is over: then the copy has its end."""
        self.run_id = copy.run_id
        self._state = state
        self._copy = copy
        self._remote = remote
        self._warn = warn
        self._is_closed = False
        self._over_at = float("inf")
        self._told = ""
        self._changed = asyncio.Event()
        self._copying = None if remote is None else asyncio.get_running_loop().create_task(self._follow(remote))

    # What the copy tells.

    @property
    def outcome(self) -> Outcome:
        return self._copy.outcome

    @property
    def report(self) -> dict[str, Any]:
        return self._copy.report()

    @property
    def settle_bound_s(self) -> float:
        return 0.0 if self._remote is None else self._remote.settle_bound_s

    @property
    def takes_input(self) -> bool:
        spec = self._copy.spec
        return bool(spec.get("pty")) or spec.get("stdin") == "pipe"

    @property
    def input(self) -> Stdin:
        return NO_STDIN  # whether it waits for input is not known here

    @property
    def tree(self) -> RunTree:
        return NO_TREE

    async def started(self) -> None:
        await self._until(lambda: self.outcome.started is not None or self.outcome.decided_by is not None)

    async def wait(self) -> Outcome:
        await self._until(lambda: self.outcome.decided_by is not None)
        return self.outcome

    async def settled(self) -> dict[str, Any]:
        await self._until(lambda: False)
        return self.report

    async def more_output(self, seen: int) -> bool:
        if not self._copy.ended and self._copy.place.position <= seen:
            await self._changed.wait()
        return not self._copy.ended

    async def _until(self, is_reached: Callable[[], bool]) -> None:
        await asyncio.sleep(0)
        while not self._copy.ended and not is_reached():
            await self._changed.wait()

    # Requests, which the node takes. The answer comes when the copy has what the guard recorded.

    async def cancel(
        self, reason: str = "", *, cause: str = "user", now: bool = False, grace: float | None = None
    ) -> None:
        if not self._copy.ended and self._remote is not None:
            await self._remote.cancel(reason, cause=cause, now=now, grace=grace)
            await self._catch_up()

    async def extend(self, seconds: float) -> None:
        await self._live().extend(seconds)
        await self._catch_up()

    async def signal(self, signal: str | int, *, tree: bool = False) -> None:
        await self._live().signal(signal, tree=tree)
        await self._catch_up()

    async def write_stdin(self, data: bytes) -> bool:
        return await self._live().write_stdin(data)

    async def close_stdin(self) -> None:
        await self._live().close_stdin()

    async def resize(self, rows: int, columns: int) -> None:
        await self._live().resize(rows, columns)

    def close(self) -> None:
        """Follow no more. The run goes on."""
        self._is_closed = True
        if self._copying is not None:
            self._copying.cancel()
        self._copy.close()

    async def closed(self) -> None:
        """Follow no more, and return when the task that copies has ended."""
        self.close()
        if self._copying is not None:
            await asyncio.gather(self._copying, return_exceptions=True)

    def _live(self) -> RemoteRun:
        if self._copy.ended or self._remote is None:
            raise RequestError.too_late(self.run_id)
        return self._remote

    # Copying.

    async def _catch_up(self) -> None:
        remote = self._remote
        try:
            if remote is not None and not self._copy.ended:
                self._take(await remote.read_journal(self._copy.place, 0.0))
        except (HoldfastError, OSError):
            pass  # the task that copies meets the same error, and deals with it

    def _take(self, part: JournalPart) -> bool:
        is_new = not self._is_closed and self._copy.take(part)
        if is_new:
            self._wake()
        return is_new

    def _wake(self) -> None:
        if self._copy.ended:
            remove_note(self._state, self.run_id)  # before anybody hears of the end, and may close this run
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _follow(self, remote: RemoteRun) -> None:
        over = asyncio.get_running_loop().create_task(remote.settled())  # also when its node is lost
        over.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            while not self._copy.ended and not self._is_closed:
                try:
                    await self._copy_some(remote, over)
                except (NodeUnreachableError, RunNotFoundError):
                    self._end("host")
                except (HoldfastError, OSError) as error:
                    if str(error) != self._told:
                        self._told = str(error)
                        self._warn(f"the copy of its journal does not grow: {error}")
                    await asyncio.sleep(_RETRY_S)
        finally:
            over.cancel()

    async def _copy_some(self, remote: RemoteRun, over: asyncio.Task[dict[str, Any]]) -> None:
        is_over = over.done()
        place = self._copy.place
        reading = asyncio.ensure_future(remote.read_journal(place, 0.0 if is_over else _WAIT_S))
        try:
            await asyncio.wait([reading] if is_over else [reading, over], return_when=asyncio.FIRST_COMPLETED)
            if remote.is_lost:
                raise NodeUnreachableError("the node is lost")
            if reading.done() and not self._take(reading.result()) and is_over:
                await self._wait_for_end()
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def _wait_for_end(self) -> None:
        """The node says that the run is over, and the journal has no end yet. If none comes, its record is damaged."""
        now = asyncio.get_running_loop().time()
        self._over_at = min(self._over_at, now)
        if now - self._over_at > _END_S:
            self._end("guard")
        else:
            await asyncio.sleep(_LOOK_S)

    def _end(self, why: str) -> None:
        if self._is_closed:
            return  # the node may be well: only we do not ask it any more
        self._copy.end_lost(why)
        self._wake()
