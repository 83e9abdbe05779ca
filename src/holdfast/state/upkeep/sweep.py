"""The sweep of a state directory, which a long-lived owner does every half minute.

One pass finishes runs whose guard is gone, removes stale sockets and half-written directories, kills orphans, and
refreshes the index. Orphans of this state directory's runs are killed. Orphans of other runs are only reported, because
another owner may be about to handle them.

No failure is silent, and no failure stops the rest of a pass: it becomes a warning with the run's id, through the
logger `holdfast`, once for as long as it stays the same. A pass may run beside other passes, readers and starts: all of
its steps are safe to be done twice, or by another process first.
"""

from __future__ import annotations

import logging
import os
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ...values.errors import HoldfastError, JournalDamagedError, RunNotFoundError
from .. import removal, run_directory
from ..record import RunRecord
from . import orphans
from .lost_run import finish
from .stale_socket import remove_stale, socket_path

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..directory import StateDirectory
    from .orphans import Orphan, ReapedOrphan

T = TypeVar("T")
INTERVAL_S = 30.0
_KILL_S = 2.0  # a process that takes longer is a survivor, and the next pass tries again
_log = logging.getLogger("holdfast")


class SweepResult(NamedTuple):
    """The result of one pass: runs finished, paths removed, orphans killed, orphans only found, and problems."""

    finished: tuple[str, ...]
    removed: tuple[str, ...]
    reaped: tuple[ReapedOrphan, ...]
    orphans: tuple[Orphan, ...]
    problems: tuple[str, ...]


class Sweeper:
    """The sweeper of one state directory. `sweep` does one pass and blocks; `run` repeats it until it is cancelled."""

    def __init__(self, state: StateDirectory, *, age_s: float = 60.0) -> None:
        self.state = state
        self.age_s = age_s
        self._told: set[str] = set()
        self._problems: list[str] = []

    def sweep(self) -> SweepResult:
        """Do one pass. A failure is logged and added to `problems`; it is never raised."""
        self._problems = []
        finished, removed = self._runs()
        removed += self._half_written()
        found = self._attempt("look for orphans", None, lambda: orphans.find(self.state)) or []
        reaped = self._reap([orphan for orphan in found if orphan.known])
        strangers = [orphan for orphan in found if not orphan.known]
        for orphan in strangers:
            self._warn(
                f"process {orphan.pid} ({orphan.command}) has no guard, and its run is not in this state directory",
                orphan.run_id,
            )
        self._attempt("bring the index up to date", None, self._refresh)
        problems, self._told = tuple(self._problems), set(self._problems)
        return SweepResult(tuple(finished), tuple(removed), tuple(reaped), tuple(strangers), problems)

    async def run(self, interval_s: float = INTERVAL_S) -> None:
        """Sweep every `interval_s` in a thread, so that the event loop is not blocked, until cancelled."""
        import anyio

        while True:
            # A cancellation waits until the pass has ended, which takes a bounded time.
            await anyio.to_thread.run_sync(self.sweep)
            await anyio.sleep(interval_s)

    def _runs(self) -> tuple[list[str], list[str]]:
        finished: list[str] = []
        removed: list[str] = []
        for run_id in self._attempt("list the live runs", None, self.state.live_ids) or []:
            if self._attempt("finish it", run_id, partial(self._finish, run_id)):
                finished.append(run_id)
            if self._attempt("remove its socket", run_id, partial(remove_stale, self.state, run_id)):
                removed.append(socket_path(self.state, run_id))
        return finished, removed

    def _finish(self, run_id: str) -> bool:
        try:
            with RunRecord(self.state, run_id) as record:
                if not record.read().unfinished:
                    return False
        except RunNotFoundError:
            return False  # the run is being made, or being removed
        except JournalDamagedError:
            pass  # `finish` replaces the damaged journal if the guard is gone
        confirmed, what = finish(self.state, run_id)
        self._warn(f"its guard was lost: {what}", run_id)
        return confirmed

    def _half_written(self) -> list[str]:
        removed = []
        abandoned = partial(removal.find_abandoned, self.state, self.age_s)
        for path in self._attempt("look for half-written runs", None, abandoned) or []:
            run_id = os.path.basename(path).removeprefix(".new-")
            if self._attempt("remove what its maker left", run_id, partial(_remove, path)):
                removed.append(path)
        return removed

    def _reap(self, found: list[Orphan]) -> list[ReapedOrphan]:
        reaped = self._attempt("end orphans", None, lambda: orphans.reap(found, within_s=_KILL_S)) or []
        for orphan, how, why in reaped:
            text = f"process {orphan.pid} ({orphan.command}) was left of it: {how}{f', {why}' if why else ''}"
            self._warn(text, orphan.run_id)
        return reaped

    def _refresh(self) -> None:
        from ..index.index import Index

        with Index.open(self.state) as index:
            live = index.refresh()
        for warning in index.warnings:
            self._warn(warning, None)
        for entry in live:
            if entry.problem is not None:
                self._warn(entry.problem, entry.run_id)

    def _attempt(self, what: str, run_id: str | None, action: Callable[[], T]) -> T | None:
        try:
            return action()
        except (HoldfastError, OSError) as error:
            self._warn(f"could not {what}: {error}", run_id)
        except Exception as error:  # noqa: BLE001 - a defect that one run triggers must not stop the other runs
            self._warn(f"could not {what}, which is a defect in Holdfast: {error!r}", run_id)
        return None

    def _warn(self, text: str, run_id: str | None) -> None:
        problem = text if run_id is None else f"{text} (run {run_id})"
        self._problems.append(problem)
        if problem not in self._told:
            _log.warning("%s", problem)


def _remove(path: str) -> bool:
    run_directory.remove(path)
    return True
