"""`--ready-timeout`: wait until a run that was just started is ready, and end it when the time is over."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ...projections.exit_code import TIMED_OUT
from ...state.parallel_stop import stop_all
from ...values.durations import parse_duration
from ...wording.plain import span
from ..parsing.options import UsageError
from ..printing import messages
from .ready_runs import ReadyRuns

if TYPE_CHECKING:
    from ...state.directory import StateDirectory
    from ..parsing.options import CommandLine


def ready_timeout(given: CommandLine) -> float | None:
    """The bound of --ready-timeout; None when it was not given. UsageError: the run has no condition."""
    text = given.last("--ready-timeout")
    if text is None:
        return None
    if not given.has("--ready"):
        remedy = "add --ready port:3000, log:REGEX or http:URL"
        raise UsageError("--ready-timeout needs a condition", remedy=remedy)
    return parse_duration(text, field="--ready-timeout")


def until_ready(state: StateDirectory, run_id: str, within_s: float) -> int:
    """Wait until the run is ready, and return the exit code: 0 ready, 124 not in time: then the run is ended."""
    waiting = ReadyRuns(state, deadline=time.monotonic() + within_s, quiet=True)
    try:
        waiting.add([run_id])
        waiting.run()
        if not waiting.timed_out:
            return waiting.tell(as_json=False)
        reason = f"not ready within {span(within_s)}: {waiting.missing(run_id)}"
    finally:
        waiting.close()
    messages.say(f"{reason}; the run is ended; run {run_id}")
    _end(state, run_id, reason)
    return TIMED_OUT


def _end(state: StateDirectory, run_id: str, reason: str) -> None:
    if not state.has(run_id):
        from ..lookup.queued_runs import cancel_queued

        cancel_queued(state, run_id, reason, now=False, wait=True, grace_s=None)
        return
    stop_all(state, [run_id], cause="user", reason=reason, now=False, person=False, grace_s=None)
