"""A run on some node, as its supervisor sees it. The interface is that of `holdfast.Run`, on asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Any

from ..journal.facts import Detail, Fact
from ..outcome import decide
from ..projections.report import facts_of
from ..values.durations import parse_duration
from ..values.errors import HoldfastError, RequestError
from ..values.timestamps import format_timestamp
from .bindings import NodeUnreachableError
from .messages import DECIDED, SETTLED, STARTED, OutputPlace

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine

    from ..journal.part import JournalPart, JournalPlace
    from ..journal.reader import Chunk
    from ..outcome import Outcome
    from ..values.fields import Duration
    from .messages import OutputPart, RunNews
    from .node_link import NodeLink
    from .output_copy import OutputCopy

_INPUT_AT_ONCE = 1 << 20
_OUTPUT_WAIT_S = 5.0
_SILENT_S = 10.0  # beyond the time that a request may take


class RemoteRun:
    """A run on a node, live or over. Its verdict never changes, whatever the node says later."""

    def __init__(self, link: NodeLink, news: RunNews, lifetime: str) -> None:
        self.run_id = news.run_id
        self.ends_with_us = lifetime == "owner"
        self._link = link
        self._news = news
        self._outcome: Outcome | None = None
        self._begun = time.monotonic()
        self._changed = asyncio.Event()
        self._copy: OutputCopy | None = None  # of the output, if the head keeps it
        self._gone_by: Callable[[], Awaitable[float]] | None = None  # when the lease of the lost node is over

    def __repr__(self) -> str:
        return f"<RemoteRun {self.run_id} on {self.host} {self.report['state']}>"

    # What is known now.

    @property
    def host(self) -> str:
        """The name of the host on which the run was started."""
        return self._link.host

    @property
    def node_id(self) -> str:
        """Ray's id of the node on which the run was started."""
        return self._link.node.node_id

    @property
    def stage(self) -> int:
        """How far the run has come, as far as its supervisor knows."""
        return self._news.stage

    @property
    def report(self) -> dict[str, Any]:
        """The report as of the last news from the node, ready for JSON. `refresh` asks the node."""
        return self._news.report

    @property
    def outcome(self) -> Outcome:
        """The outcome as of the last news from the node."""
        if self._outcome is None:
            self._outcome = decide(facts_of(self._news.report))
        return self._outcome

    @property
    def status(self) -> str | None:
        """The status of the outcome; None before the verdict."""
        return self.outcome.status

    @property
    def cause(self) -> str | None:
        """The cause of the outcome; None before the verdict."""
        return self.outcome.cause

    @property
    def is_lost(self) -> bool:
        """Whether the node of this run was declared lost before the run was over."""
        return self._gone_by is not None

    @property
    def settle_bound_s(self) -> float:
        """How long the run may take from the request to stop until it is settled, when its node is well."""
        return self._news.settle_bound_s

    @property
    def takes_input(self) -> bool:
        """Whether the run was started with a pty or a stdin pipe."""
        return self._news.takes_input

    # Waiting.

    async def started(self) -> None:
        """Wait until the command was started, or never will be."""
        await self._until(STARTED)

    async def wait(self) -> Outcome:
        """Wait for the verdict and return the outcome. The tree may live on for a while."""
        await self._until(DECIDED)
        return self.outcome

    async def settled(self) -> dict[str, Any]:
        """Wait until the run is settled, or its node is lost, and return the final report.

        If the output is kept on the head, this also waits until the head has all of it.
        """
        await self._until(SETTLED)
        if self._copy is not None and not await self._copy.over():
            self._news.report["output"] = {**self._news.report["output"], "complete": False}
        return self.report

    async def gone(self) -> None:
        """Wait until no process of the run can be alive: it is settled, or the lease of its lost node is over.

        Only then may the same work be started again elsewhere. A lost node that is still there ends the run itself.
        """
        await self._until(SETTLED)
        if self._gone_by is not None:
            end = await self._gone_by() + self.settle_bound_s
            await asyncio.sleep(max(0.0, end - time.monotonic()))

    async def _until(self, stage: int) -> None:
        await asyncio.sleep(0)
        while self._news.stage < stage:
            self._link.check()
            changed = self._changed
            await changed.wait()

    async def refresh(self) -> dict[str, Any]:
        """Ask the node for the report as of now. NodeUnreachableError: the node does not answer."""
        if self._news.stage < SETTLED:
            self.take(await self._link.request("report", self.run_id))
        return self.report

    async def output(self, *, late: bool = False, start: OutputPlace | None = None) -> AsyncIterator[Chunk]:
        """The output as it comes, from the beginning or from a place on, also when the run is over.

        At most about a megabyte is under way at any time. If the node is lost, the output ends; the report says
        that it is not complete.
        """
        place = start or OutputPlace()
        parts = self._parts(place) if self._copy is None else self._copied(self._copy, place)
        async with contextlib.aclosing(parts):
            async for chunk in parts:
                if late or not chunk.late:
                    yield chunk

    @staticmethod
    async def _copied(copy: OutputCopy, place: OutputPlace) -> AsyncGenerator[Chunk, None]:
        async with contextlib.aclosing(copy.chunks(place.position)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def _parts(self, place: OutputPlace) -> AsyncGenerator[Chunk, None]:
        """The chunks from the node. While the caller uses one part, the next one is under way."""
        coming = self._ask_part(place)
        try:
            while True:
                try:
                    part = await coming
                except NodeUnreachableError:
                    return
                if part.over:
                    return
                coming = self._ask_part(part.place)
                for chunk in part.chunks:
                    yield chunk
        finally:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)

    def _ask_part(self, place: OutputPlace) -> asyncio.Task[OutputPart]:
        asking = self._link.request("read_output", self.run_id, place, _OUTPUT_WAIT_S)
        return asyncio.get_running_loop().create_task(asking)

    def copy_output(self, copy: OutputCopy, most: Callable[[], int]) -> Coroutine[Any, Any, None]:
        """Read the output from this copy on the head from now on; the coroutine fills it.

        The coroutine ends when the run has no more output, or its node is lost. `most` says how much to ask for.
        """
        self._copy = copy
        return self._fill(copy, most)

    async def _fill(self, copy: OutputCopy, most: Callable[[], int]) -> None:
        place, is_whole = OutputPlace(), False
        try:
            while not is_whole:
                part = await self._link.request("read_output", self.run_id, place, _OUTPUT_WAIT_S, most())
                await copy.add(part)
                place, is_whole = part.place, part.over
        except (HoldfastError, OSError):
            pass  # the node is lost, or the disk is full: the report says that the output is not complete
        finally:
            copy.end(whole=is_whole)

    async def read_journal(self, place: JournalPlace, wait_s: float) -> JournalPart:
        """Read the run's journal from a place on; wait at most `wait_s` for something new. For a copy of it.

        NodeUnreachableError: the node is lost. RunNotFoundError: the node has it no more.
        """
        while not self.is_lost:
            try:
                async with asyncio.timeout(wait_s + _SILENT_S):
                    part: JournalPart = await self._link.request("read_journal", self.run_id, place, wait_s)
                    return part
            except TimeoutError:
                await self._link.find_out()
        raise NodeUnreachableError(f"the node {self.host} is lost")

    # Asking.

    async def cancel(
        self, reason: str = "", *, cause: str = "user", now: bool = False, grace: Duration | None = None
    ) -> None:
        """Ask the run to end and return when that is recorded. Does nothing when the run is over. As `Run.cancel`."""
        if self._news.stage < SETTLED:
            bound_s = None if grace is None else parse_duration(grace, field="grace")
            await self._ask("cancel", reason, cause, now, bound_s)

    async def extend(self, seconds: Duration) -> None:
        """Move the deadline by this much. RequestError: it has passed, there is none, or the ceiling is lower."""
        self._check_live()
        await self._ask("extend", parse_duration(seconds, field="seconds"))

    async def signal(self, signal: str | int, *, tree: bool = False) -> None:
        """Send one signal to the command, or to every process of the run. RequestError: the run is over."""
        self._check_live()
        await self._ask("signal", signal, tree)

    async def write_stdin(self, data: bytes) -> bool:
        """Write to the command's stdin and return when all is written; False when it is closed."""
        view = memoryview(data)
        for at in range(0, len(view), _INPUT_AT_ONCE):
            if not await self._ask("write_stdin", bytes(view[at : at + _INPUT_AT_ONCE])):
                return False
        return True

    async def close_stdin(self) -> None:
        """End the command's stdin. Twice does no harm."""
        await self._ask("close_stdin")

    async def resize(self, rows: int, columns: int) -> None:
        """Tell the run's terminal its size. RequestError: the run has no terminal."""
        await self._ask("resize", rows, columns)

    def close(self) -> None:
        """Nothing to close here: the node keeps the record."""

    async def _ask(self, method: str, *arguments: object) -> Any:
        if self._gone_by is not None:
            raise RequestError.too_late(self.run_id)
        return await self._link.request(method, self.run_id, *arguments)

    def _check_live(self) -> None:
        if self._news.stage >= SETTLED:
            raise RequestError.too_late(self.run_id)

    # What the supervisor tells.

    def take(self, news: RunNews) -> None:
        """Take news from the node. News after the end is ignored: a verdict stays."""
        if self._news.stage < SETTLED and news.stage >= self._news.stage:
            self._news, self._outcome = news, None
            self._wake()

    def lose(self, gone_by: Callable[[], Awaitable[float]]) -> None:
        """The node is lost: nobody will tell how the run ended. Facts that are known decide, if they can.

        `gone_by` tells when the lease of the node is over. Then the guard of the run ends it, by its own ladder.
        """
        if self._news.stage < SETTLED:
            self._gone_by = gone_by
            self._news = self._news._replace(stage=SETTLED, report=_lost(self._news.report, self._begun))
            self._outcome = None
            self._wake()

    def fail(self) -> None:
        """Wake all waiters: the supervisor was left."""
        self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


def _lost(known: dict[str, Any], begun: float) -> dict[str, Any]:
    """The report of a run whose node is lost: what is known, and the fact that the host was lost."""
    at_s = max([round(time.monotonic() - begun, 6), *(entry["at_s"] or 0 for entry in known["evidence"])])
    fact = Fact("lost", round(at_s * 1e9), -1, Detail({"why": "host"}))
    outcome = decide([*facts_of(known), fact])
    if outcome.decided_by is None:  # cannot be: `lost` is decisive
        raise HoldfastError("this is a defect in Holdfast, please report it")
    now = format_timestamp(time.time_ns())
    return {
        **known,
        "state": outcome.state,
        "status": outcome.status,
        "cause": outcome.cause,
        "reason": outcome.reason,
        "verdict_at": known["verdict_at"] or now,
        "settled_at": known["settled_at"] or now,
        "output": {**known["output"], "complete": False},
        "evidence": [*known["evidence"], {"at_s": at_s, "fact": "lost", "why": "host"}],
    }
