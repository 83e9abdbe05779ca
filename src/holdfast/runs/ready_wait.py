"""Waiting until a supervised run is ready: the conditions are looked at in a thread, and the end ends the waiting."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import anyio

from ..readiness.check import ReadyCheck
from ..readiness.last_lines import last_lines
from ..values.errors import NotReadyError

if TYPE_CHECKING:
    from .live import LiveRun
    from .watched_run import WatchedRun


async def wait_ready(live: LiveRun, watched: WatchedRun, within_s: float | None) -> None:
    """Wait until all conditions of the run hold. Fails as `Run.ready`."""
    with _check_of(live) as check:
        with anyio.move_on_after(within_s):
            while live.outcome.status is None and not live.ended:
                live.refresh()  # the guard wakes nobody for the start
                if live.outcome.started is not None and await anyio.to_thread.run_sync(check.is_ready, live.tree):
                    return
                with anyio.move_on_after(check.pause_s):
                    await _verdict(live, watched)
        if live.outcome.status is None and not live.ended:
            message = f"the run is not ready after {within_s:g}s: {check.missing()}"
            raise NotReadyError(message, run_id=live.spec.run_id, remedy="it goes on: wait again, or cancel it")
    raise _ended(live)


async def _verdict(live: LiveRun, watched: WatchedRun) -> None:
    while live.outcome.status is None and not live.ended:
        await watched.changed()


def _check_of(live: LiveRun) -> ReadyCheck:
    conditions, run_id = live.spec.ready, live.spec.run_id
    if not conditions:
        remedy = 'start it with ready="port:3000", "log:REGEX" or "http:URL"'
        raise NotReadyError("the run has no condition of being ready", run_id=run_id, remedy=remedy)
    live.check_open()
    if live.windowed and any(condition.startswith("log:") for condition in conditions):
        remedy = "start it with keep_output=True"
        raise NotReadyError("the output of the run is not kept, so it cannot be searched", run_id=run_id, remedy=remedy)
    return ReadyCheck(run_id, conditions, os.dup(live.journal))


def _ended(live: LiveRun) -> NotReadyError:
    outcome = live.outcome
    message = f"the run ended before it was ready, {outcome.status}/{outcome.cause}: {outcome.reason}"
    lines = [] if live.journal < 0 or live.windowed else last_lines(os.dup(live.journal))
    return NotReadyError(message, run_id=live.spec.run_id, remedy=f"its last lines: {lines}" if lines else None)
