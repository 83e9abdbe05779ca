"""`holdfast wait`: wait until runs are decided or settled, and exit with the exit code of the worst."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ...values.durations import parse_duration
from ..following.waited_runs import WaitedRuns
from ..lookup.selection import LABEL, SESSION, filters_of, find_all, selects_by_filter
from ..parsing.command import JSON, Command, open_state
from ..parsing.options import Option, UsageError
from ..parsing.points_in_time import since

if TYPE_CHECKING:
    from ...state.directory import StateDirectory
    from ..parsing.options import CommandLine


def act(given: CommandLine) -> int:
    by_filter = selects_by_filter(given, "wait")
    until = given.last("--until") or "settled"
    if until not in ("verdict", "settled"):
        raise UsageError(f"--until {until!r} is unknown", remedy="use verdict or settled")
    bound_s = given.last("--timeout")
    deadline = None if bound_s is None else time.monotonic() + parse_duration(bound_s, field="--timeout")
    if given.has("--ready") and (by_filter or given.has("--until")):
        raise UsageError("--ready is for runs by their ids", remedy="leave out --session, --label and --until")
    if given.has("--since") and not by_filter:
        raise UsageError("--since is for --session and --label", remedy="leave it out: runs by their ids always count")
    filters = filters_of(given)._replace(since_ns=since(given.last("--since"))) if by_filter else None
    state = open_state(given)
    waiting = _waiting(given, state, settled=until == "settled", deadline=deadline)
    try:
        if filters is not None:
            waiting.run_matching(filters)
        else:
            run_ids, waiting.complete = find_all(state, given.words)
            waiting.add(run_ids)
            waiting.run()
        return waiting.tell(as_json=given.has("--json"))
    finally:
        waiting.close()


def _waiting(given: CommandLine, state: StateDirectory, *, settled: bool, deadline: float | None) -> WaitedRuns:
    if not given.has("--ready"):
        return WaitedRuns(state, settled=settled, deadline=deadline, quiet=_is_quiet(given))
    from ..following.ready_runs import ReadyRuns

    return ReadyRuns(state, deadline=deadline, quiet=_is_quiet(given))


def _is_quiet(given: CommandLine) -> bool:
    return given.has("--quiet") or given.has("--json")


COMMAND = Command(
    "wait [OPTIONS] ID...",
    "Wait for runs to end, and exit with their exit code; of several runs the worst counts.",
    (
        SESSION,
        LABEL,
        Option("--since", "WHEN", "with --session or --label: only runs begun since then: 10m (ago), or a time"),
        Option(
            "--until", "MOMENT", "verdict (the outcome is decided) or settled (the record is complete; the default)"
        ),
        Option("--ready", None, "wait until the runs are ready, by the conditions of run --ready"),
        Option("--timeout", "DURATION", "wait no longer than this, then exit with 125; the runs go on"),
        Option("--quiet", None, "print no line for each run", short="q"),
        JSON,
    ),
    act,
    "The exit codes are those of `holdfast run`. From worst to best: lost, failed, timed out, cancelled, succeeded;\n"
    "of equally bad runs the first one named counts. 125 also when a run is not found or the time to wait is over.\n"
    "With --ready: 0 all are ready; 124 the time to wait is over, and the runs go on; else the exit code of a run\n"
    "that ended before it was ready, and 1 if that was 0.\n",
)
