"""`holdfast reap --session`: close a session until it is opened again, and end its runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...state.sessions import close, counts
from ...wording.plain import plain
from ..lookup.selection import has_daemon
from ..parsing.command import JSON, Command, no_words, open_state, put
from ..parsing.options import Option, UsageError
from ..parsing.stop_options import GRACE, grace_of
from ..printing.stop_results import show_stop_results

if TYPE_CHECKING:
    from ...state.directory import StateDirectory
    from ...state.parallel_stop import StopResult
    from ..parsing.options import CommandLine


def act(given: CommandLine) -> int:
    no_words(given, "reap")
    session = given.last("--session")
    if session is None:
        raise UsageError("no session was given", remedy="write holdfast reap --session NAME")
    # Make the directory when it is missing: a user may close a session before its first run, which is then refused.
    state = open_state(given, create=True)
    reason = given.last("--reason") or ""
    closing = close(state, session, reason=reason, now=given.has("--now"), grace_s=grace_of(given))
    # A run on another host is in both lists: only the daemon's answer says how it ended.
    runs = list({run.run_id: run for run in [*closing.runs, *_queued(state, session, given)]}.values())
    code = show_stop_results(runs, closing.problems, as_json=given.has("--json"))
    if not given.has("--json"):
        number = counts(runs)
        put(
            f"session {plain(session)} is closed: {number['confirmed']} confirmed gone, "
            f"{number['survivors']} with survivors, {number['unknown']} unknown\n"
        )
    return code


def _queued(state: StateDirectory, session: str, given: CommandLine) -> list[StopResult]:
    """Take the runs of the session out of the queue. The session is already marked as closed, so none begins."""
    if not has_daemon(state):
        return []
    from ..lookup.queued_runs import close_session

    return close_session(state, session, given.last("--reason") or "", now=given.has("--now"), grace_s=grace_of(given))


COMMAND = Command(
    "reap --session NAME [OPTIONS]",
    "Close a session: end its runs, and refuse every later one until the session is opened again.",
    (
        Option("--session", "NAME", "the session; it stays closed until `holdfast session --open NAME`"),
        Option("--now", None, "go to the last rung, SIGKILL, at once"),
        GRACE,
        Option("--reason", "TEXT", "why, for the record"),
        JSON,
    ),
    act,
    "Exit codes: 0 every process is confirmed gone, 1 not confirmed, 125 Holdfast failed.\n",
)
