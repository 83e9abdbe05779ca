"""The history of runs on disk, for an event loop: one thread reads records and keeps the index.

The index is made from journals alone, so nothing here can lose data. A run is found whether the index has it or not.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from ...state.index import prune
from ...state.index.index import Index
from ...state.index.page_query import make_cursor, parse_cursor
from ...state.index.session_list import list_sessions
from ...state.index.summary import RunSummary, read_summary
from ...values.errors import RunNotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ...state.directory import StateDirectory
    from ...state.index.prune import PruneBounds, PruneResult
    from ...state.index.session_list import SessionState
    from ...state.index.summary import Filters
    from ..process.log import Log

T = TypeVar("T")
_MOST_TIMINGS = 100_000
_SOON_S = 0.5  # how long after its end a run may be missing in the index


class History:
    """Reads runs from the state directory. StateError from every method: it cannot be used now."""

    def __init__(self, state: StateDirectory, log: Log) -> None:
        self.state = state
        self._log = log
        self._thread = ThreadPoolExecutor(1, "holdfast history")
        self._index = Index(state)
        self._due: asyncio.TimerHandle | None = None

    async def report(self, run_id: str) -> dict[str, Any]:
        """The report of a run with a directory; the record of a lost guard is finished first. RunNotFoundError."""
        entry = await self._do(lambda: read_summary(self.state, run_id) if self.state.has(run_id) else None)
        if entry is None:
            raise not_found(self.state, run_id)
        return entry.shown()

    async def page(
        self,
        filters: Filters,
        waiting: Iterable[RunSummary],
        states: tuple[str, ...],
        cursor: str | None,
        limit: int,
        *,
        cut_at: tuple[int, str] | None = None,
    ) -> tuple[list[dict[str, Any]], str | None]:
        """A page of all runs, newest first, and the cursor of the next page; None on the last page.

        `waiting` are the next queued runs, all of them down to the place `cut_at`; None: there are no more. SpecError:
        the cursor is not one of ours.
        """
        after = None if cursor is None else parse_cursor(cursor)

        def find() -> tuple[list[dict[str, Any]], str | None]:
            # A run with a directory is not queued any more. We check this before the refresh, so that the refresh finds
            # every run that is left out here.
            found = {entry.run_id: entry for entry in waiting if not self.state.has(entry.run_id)}
            found |= {entry.run_id: entry for entry in self._index.refresh()}  # started meanwhile: not queued any more
            wanted = [entry for entry in found.values() if filters.matches(entry) and _is_after(entry, after)]
            if states:
                wanted = [entry for entry in wanted if entry.report.get("state") in states]
            if not states or "settled" in states:
                ended = {entry.run_id: entry for entry in self._index.list(filters, limit + 1, cursor).entries}
                wanted = [*(entry for entry in wanted if entry.run_id not in ended), *ended.values()]
            if cut_at is not None:  # older runs come on a later page, after the queued ones that are not here
                wanted = [entry for entry in wanted if _place(entry) >= cut_at]
            wanted.sort(key=_place, reverse=True)
            page = wanted[:limit]
            end = _place(page[-1]) if len(wanted) > limit > 0 else cut_at
            return [entry.shown() for entry in page], None if end is None else make_cursor(*end)

        return await self._do(find)

    async def sessions(self) -> list[SessionState]:
        """Every session that has runs or is closed."""
        return await self._do(lambda: list_sessions(self._index))

    async def ended_between(self, since_ns: int, until_ns: int) -> tuple[list[Any], bool]:
        """The timings of ended runs that began in this time, newest first, and whether some are left out."""
        rows = await self._do(lambda: self._index.timings(since_ns, until_ns, _MOST_TIMINGS + 1))
        return rows[:_MOST_TIMINGS], len(rows) > _MOST_TIMINGS

    async def prune(self, bounds: PruneBounds) -> PruneResult:
        """Remove old runs."""
        return await self._do(lambda: prune.prune(self._index, bounds))

    async def prune_largest(self, needed_bytes: int) -> PruneResult:
        """Remove the largest runs, until this many bytes are free."""
        return await self._do(lambda: prune.prune_largest(self._index, needed_bytes))

    async def refresh(self) -> list[RunSummary]:
        """Add ended runs to the index and finish the records of lost guards. Returns live and unreadable runs."""
        entries = await self._do(self._index.refresh)
        while self._index.warnings:
            self._log.warning(self._index.warnings.pop(0))
        return entries

    def refresh_soon(self) -> None:
        """Refresh in a moment, once for all runs that end until then."""
        if self._due is None:
            self._due = asyncio.get_running_loop().call_later(_SOON_S, self._begin_refresh)

    def _begin_refresh(self) -> None:
        self._due = None
        task = asyncio.ensure_future(self.refresh())
        task.add_done_callback(self._refreshed)

    def _refreshed(self, task: asyncio.Task[list[RunSummary]]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._log.warning(f"the index was not brought up to date: {error}")

    async def _do(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def close(self) -> None:
        """Finish the work that has begun, then close."""
        if self._due is not None:
            self._due.cancel()
        self._thread.shutdown(cancel_futures=True)
        self._index.close()


def not_found(state: StateDirectory, run_id: str) -> RunNotFoundError:
    """The error for an id that no run has."""
    return RunNotFoundError(
        "there is no such run", run_id=run_id, remedy=f"holdfast ps --all lists those in {state.path}"
    )


def _place(entry: RunSummary) -> tuple[int, str]:
    return entry.begun_ns, entry.run_id


def _is_after(entry: RunSummary, after: tuple[int, str] | None) -> bool:
    return after is None or _place(entry) < after
