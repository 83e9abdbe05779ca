"""Read and cancel queued runs through the daemon, because they have no directory yet.

Commands read all other runs from the state directory, with or without a daemon: once a run has a directory, the daemon
and the commands use the same record. See docs/decisions/0012-cli-and-daemon.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from ...client import calls
from ...state.sessions import live_runs
from ...values.errors import DaemonUnreachableError, HoldfastError, RunNotFoundError
from ..printing import messages
from .daemon_request import ask, drive

if TYPE_CHECKING:
    from ...client.calls import RunFilters
    from ...state.directory import StateDirectory
    from ...state.index.summary import Filters, RunSummary
    from ...state.parallel_stop import StopResult

PATIENCE_S = 60.0  # how long a daemon may be away, for a restart


class StillQueuedError(RunNotFoundError):
    """The run is still in the daemon's queue."""


def still_queued(run_id: str) -> StillQueuedError:
    """The error for a queued run, when the command needs a run that has begun."""
    remedy = "it begins when there is room; holdfast wait waits for its end, holdfast cancel takes it out"
    return StillQueuedError("the run is still queued", run_id=run_id, remedy=remedy)


def queued_reports(
    state: StateDirectory, filters: Filters | None = None, most: int | None = None
) -> dict[str, dict[str, Any]]:
    """The reports of the queued runs that match, by id, at most so many.

    A line on stderr says when a live daemon does not answer, or answers with an error, or when some are left out.
    """
    wanted: dict[str, Any] = {"state": "queued"}
    if filters is not None:
        wanted |= {**filters.columns(), "label": [f"{name}={value}" for name, value in filters.labels]}
    try:
        page = drive(state, calls.some_pages(cast("RunFilters", wanted), most))
        if page.cursor is not None:
            messages.say(f"only the newest {most} queued runs are shown: --limit 0 shows all")
        return {report["run_id"]: report for report in page.runs}
    except DaemonUnreachableError:
        from ...state import owner_lock

        seen = owner_lock.look(state)
        if seen.state != owner_lock.ALIVE:
            return _stored(state, most)
        who = "" if seen.owner is None else f" (process {seen.owner.pid})"
        messages.say(f"queued runs are not known: the daemon{who} does not answer")
    except HoldfastError as error:
        messages.say(f"queued runs are not known: {error}")
    return {}


def _stored(state: StateDirectory, most: int | None) -> dict[str, dict[str, Any]]:
    """The queue as a daemon that is not running has left it; a line on stderr says who starts its runs."""
    from ...daemon.stored_queue import stored_reports

    try:
        found = stored_reports(state)
    except HoldfastError as error:
        messages.say(f"queued runs are not known: the daemon is not running, and {error}")
        return {}
    if found:
        runs = "1 queued run waits" if len(found) == 1 else f"{len(found)} queued runs wait"
        messages.say(f"the daemon is not running: {runs} for it (holdfast serve)")
    newest = sorted(found, key=lambda report: str(report["queued_at"]), reverse=True)[:most]
    return {report["run_id"]: report for report in newest}


def entries(state: StateDirectory, filters: Filters, most: int | None = None) -> list[RunSummary]:
    """Summaries of the queued runs that match, oldest first; of more than `most` the newest."""
    found = [
        entry_of(report) for run_id, report in queued_reports(state, filters, most).items() if not state.has(run_id)
    ]
    return sorted((entry for entry in found if filters.matches(entry)), key=lambda entry: entry[1::-1])


def entry_of(report: dict[str, Any]) -> RunSummary:
    """The summary of a queued run, which has no directory yet, from its report."""
    from ...state.index.summary import RunSummary

    return RunSummary(report["run_id"], _ns(report.get("queued_at")), report, None, 0, 0, guard="none", final=False)


def queued_report(state: StateDirectory, run_id: str) -> dict[str, Any]:
    """The report of a queued run, as it is now; without a daemon, as the last one has left it."""
    try:
        report: dict[str, Any] = ask(state, calls.about(run_id))
    except DaemonUnreachableError:
        from ...daemon.stored_queue import stored_reports

        found = [stored for stored in stored_reports(state) if stored["run_id"] == run_id]
        if not found:
            raise
        return found[0]
    return report


def cancel_queued(
    state: StateDirectory, run_id: str, reason: str, *, now: bool, wait: bool = True, grace_s: float | None = None
) -> dict[str, Any]:
    """Take a run out of the queue, or end it if it has begun meanwhile; return its report.

    With `wait` the report is that of the settled run; without, the report right after the request.
    """
    report: dict[str, Any] = ask(state, calls.cancel(run_id, reason, now=now, grace=grace_s))
    if wait and report["state"] != "settled":
        report = drive(state, calls.waiting(run_id, "settled", None))
    return report


def stopped(report: dict[str, Any]) -> StopResult:
    """The result of a stop, from the daemon's report."""
    from ...state.parallel_stop import HOW_FROM_TREE, StopResult

    return StopResult(
        report["run_id"], HOW_FROM_TREE.get(report["tree"], "unknown"), report["status"] == "cancelled", report
    )


def close_session(
    state: StateDirectory, session: str, reason: str, *, now: bool, grace_s: float | None = None
) -> list[StopResult]:
    """Let the daemon end the queued runs of a closed session, and those on other hosts, and return the results.

    A line on stderr says when the daemon does not answer.
    """
    queued = [run_id for run_id, report in queued_reports(state).items() if report["session"] == session]
    queued += [run_id for run_id in live_runs(state, session)[0] if state.is_elsewhere(run_id)]
    found = []
    try:
        if queued:
            ask(state, calls.close_session(session, reason, now=now, grace=grace_s), within_s=PATIENCE_S)
        for run_id in queued:
            ended = drive(state, calls.waiting(run_id, "settled", None))
            found.append(stopped(ended))
    except DaemonUnreachableError as error:
        messages.say(f"its queued runs will be refused when they are to begin: {error.message}")
    return found


def _ns(text: object) -> int:
    from datetime import datetime

    return round(datetime.fromisoformat(text).timestamp() * 1e9) if isinstance(text, str) else 0
