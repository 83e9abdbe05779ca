"""Sessions as the daemon sees them: the sessions on disk, and their queued runs."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from ...journal import unstarted
from ...state import sessions
from ...state.index.session_list import with_queued
from ...state.parallel_stop import HOW_FROM_TREE
from ...values.errors import HoldfastError

if TYPE_CHECKING:
    from ...state.directory import StateDirectory
    from ..queue.scheduled_run import ScheduledRun
    from ..queue.scheduler import Scheduler
    from .history import History


class DaemonSessions:
    """Lists, closes and opens the sessions of the state directory."""

    def __init__(self, state: StateDirectory, scheduler: Scheduler, history: History) -> None:
        self._state = state
        self._scheduler = scheduler
        self._history = history

    async def show(self) -> list[dict[str, Any]]:
        """Every session with runs or a closing mark: `name, queued, live, ended, closed, closed_at, reason`."""
        queued: dict[str, int] = {}
        for scheduled in self._scheduler.runs.values():
            if scheduled.spec is not None and scheduled.spec.session is not None:
                queued[scheduled.spec.session] = queued.get(scheduled.spec.session, 0) + 1
        found = with_queued(await self._history.sessions(), queued)
        return [session.shown(queued.get(session.name, 0)) for session in found]

    async def open_again(self, name: str) -> dict[str, Any]:
        """Open a closed session; returns `session, was_closed`. SessionClosedError: runs of it are still live.

        SpecError: the name is not a session's name.
        """
        return {"session": name, "was_closed": await asyncio.to_thread(sessions.open_again, self._state, name)}

    async def close(
        self, name: str, *, reason: str = "", now: bool = False, grace_s: float | None = None
    ) -> dict[str, Any]:
        """Close a session and end its runs; returns `session, confirmed, survivors, unknown` (ids), `problems`.

        SpecError: the name is not a session's name.
        """
        # Mark, then list: a run that is submitted now sees the mark, or is seen below; a run that is being started
        # sees the mark, or has a directory. state/sessions.py uses the same order.
        await asyncio.to_thread(sessions.mark_closed, self._state, name, reason)
        ended = self._end_queued(name, reason)
        away = await self._end_elsewhere(name, reason, now=now, grace_s=grace_s)
        closing = await asyncio.to_thread(sessions.close, self._state, name, reason=reason, now=now, grace_s=grace_s)
        for scheduled in ended:
            await scheduled.begun.wait()
        done = {how: closing.run_ids(how) for how in ("confirmed", "survivors", "unknown")}
        for report in away:
            done[HOW_FROM_TREE.get(report["tree"], "unknown")] += [report["run_id"]]
        done["confirmed"] += [run.run_id for run in ended if run.run is None and run.run_id not in done["confirmed"]]
        return {"session": name, **done, "problems": [*closing.problems]}

    async def _end_elsewhere(self, name: str, reason: str, *, now: bool, grace_s: float | None) -> list[dict[str, Any]]:
        """End the runs of this session on other hosts, and return their last reports. The rest ends here."""
        found = [run for run in self._scheduler.runs.values() if self._state.is_elsewhere(run.run_id)]
        runs = [run for run in found if run.run is not None and run.session == name]

        async def end(scheduled: ScheduledRun) -> dict[str, Any]:
            if scheduled.run is not None:
                with contextlib.suppress(HoldfastError):  # its node is lost: then it is over
                    await scheduled.run.cancel(reason, cause="session", now=now, grace=grace_s)
            await scheduled.settled.wait()
            return scheduled.report

        return await asyncio.gather(*map(end, reversed(runs)))

    def _end_queued(self, name: str, reason: str) -> list[ScheduledRun]:
        """End the queued runs of this session, without starting them."""
        runs = [run for run in self._scheduler.runs.values() if run.spec is not None and run.spec.session == name]
        stop = unstarted.stopped("session", reason)
        return [run for run in runs if self._scheduler.end_in_queue(run.run_id, stop)]
