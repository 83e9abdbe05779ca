"""`holdfast cancel`: end runs, and say of each whether its processes are confirmed gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...projections.exit_code import OWN_FAILURE
from ...state.guard_connection import ask_stop
from ...state.parallel_stop import stop_all
from ...values.errors import HoldfastError, JournalError, RequestError
from ...values.ports import parse_port
from ..lookup.records import read_record
from ..lookup.selection import (
    LABEL,
    SESSION,
    filters_of,
    find_all,
    has_daemon,
    live_entries,
    needs_daemon,
    queued_entries,
    selects_by_filter,
)
from ..parsing.command import JSON, Command, open_state, put, show_json
from ..parsing.options import Option, UsageError
from ..parsing.stop_options import GRACE, grace_of
from ..printing import messages
from ..printing.stop_results import show_stop_results

if TYPE_CHECKING:
    from ...state.directory import StateDirectory
    from ...state.parallel_stop import StopResult
    from ..parsing.options import CommandLine


def act(given: CommandLine) -> int:
    port = _port(given)
    by_filter = port is None and selects_by_filter(given, "cancel")
    state = open_state(given)
    run_ids, complete = find_all(state, given.words)
    if port is not None:
        from ..lookup.port_owner import run_on_port

        run_ids = [run_on_port(state, port)]
    elif by_filter:
        # Queued runs first, so that none begins while the others end. Then live runs, newest first: a nested run ends
        # before the run that started it.
        filters = filters_of(given)
        run_ids = [entry.run_id for entry in queued_entries(state, filters)]
        run_ids += [entry.run_id for entry in live_entries(state, filters) if entry.run_id not in run_ids]
    # Through the daemon: queued runs, and runs on other hosts.
    queued = [run_id for run_id in run_ids if has_daemon(state) and needs_daemon(state, run_id)]
    run_ids = [run_id for run_id in run_ids if run_id not in queued]
    _finish(state, run_ids)
    if not run_ids and not queued and complete and not given.has("--json"):
        messages.say("no live run matches: there is nothing to cancel")
        return 0
    reason = given.last("--reason") or ""
    taken_out = _take_out(state, queued, reason, given)
    complete = complete and len(taken_out) == len(queued)
    if given.has("--no-wait"):
        return _ask_only(state, run_ids, reason, given, complete=complete, asked=[run.run_id for run in taken_out])
    results = stop_all(
        state, run_ids, cause="user", reason=reason, now=given.has("--now"), person=True, grace_s=grace_of(given)
    )
    return show_stop_results([*taken_out, *results], as_json=given.has("--json"), complete=complete)


def _port(given: CommandLine) -> int | None:
    """The port of --port; None when it was not given. UsageError: runs were chosen in another way, too."""
    text = given.last("--port")
    if text is None:
        return None
    if given.words or given.has("--session") or given.has("--label"):
        raise UsageError("--port chooses the run", remedy="leave out the other runs, --session and --label")
    return parse_port(text, field="--port")


def _take_out(state: StateDirectory, run_ids: list[str], reason: str, given: CommandLine) -> list[StopResult]:
    """Cancel queued runs through the daemon, and return the results. A run that is not cancelled is named on stderr."""
    if not run_ids:
        return []
    from ..lookup.queued_runs import cancel_queued, stopped

    found = []
    now, wait = given.has("--now"), not given.has("--no-wait")
    for run_id in run_ids:
        try:
            found.append(stopped(cancel_queued(state, run_id, reason, now=now, wait=wait, grace_s=grace_of(given))))
        except HoldfastError as error:  # the other runs must end all the same
            messages.say(f"run {run_id} is not cancelled: {error}")
    return found


def _finish(state: StateDirectory, run_ids: list[str]) -> None:
    """Finish each journal that is damaged from its start. That also ends the processes that are left of the run."""
    for run_id in run_ids:
        try:
            read_record(state, run_id).close()
        except JournalError:
            pass  # the stop result of this run reports the failure


def _ask_only(
    state: StateDirectory, run_ids: list[str], reason: str, given: CommandLine, *, complete: bool, asked: list[str]
) -> int:
    now = given.has("--now")
    results: dict[str, str] = dict.fromkeys(asked, "asked")
    for run_id in run_ids:
        try:
            ask_stop(state, run_id, reason, now=now, person=True, grace_s=grace_of(given))
            results[run_id] = "asked"
        except RequestError as error:
            results[run_id] = str(error)
    if given.has("--json"):
        show_json([{"run_id": run_id, "asked": what == "asked", "tree": "unknown"} for run_id, what in results.items()])
    else:
        put("".join(f"{run_id}  {what}\n" for run_id, what in results.items()))
    return 0 if complete else OWN_FAILURE


COMMAND = Command(
    "cancel [OPTIONS] ID...",
    "End runs: ask, climb their ladders, and say of each whether its processes are confirmed to be gone.",
    (
        SESSION,
        LABEL,
        Option("--port", "PORT", "end the run that listens on this TCP port, and nothing else"),
        Option("--now", None, "go to the last rung, SIGKILL, at once"),
        GRACE._replace(short="t"),
        Option("--reason", "TEXT", "why, for the record"),
        Option("--no-wait", None, "only ask; do not wait for the end"),
        JSON,
    ),
    act,
    "Exit codes: 0 every process is confirmed gone (or there was nothing to cancel), 1 not confirmed (survivors, or\n"
    "nobody saw the end), 125 a run was not found or could not be read, or none listens on the port of --port.\n",
)
