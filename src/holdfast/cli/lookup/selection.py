"""Select the runs that a command line names: one by one, or by filters."""

from __future__ import annotations

import os
from contextlib import nullcontext
from typing import TYPE_CHECKING

from ...projections.exit_code import OWN_FAILURE
from ...state import run_directory
from ...state.directory import DAEMON_SOCKET, DAEMON_STORE
from ...state.index.summary import Filters, newest_first, read_live_summaries
from ...values.errors import HoldfastError, StateError
from ..parsing.command import die_with_reader, open_state
from ..parsing.options import CommandLine, Option, UsageError, pair
from ..printing import messages
from .records import damage_of, read_record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager
    from typing import Any

    from ...state.directory import StateDirectory
    from ...state.index.index import Index
    from ...state.index.summary import RunSummary
    from ...state.record import RunRecord

SESSION = Option("--session", "NAME", "select the runs of this session")
LABEL = Option("--label", "NAME=VALUE", "select the runs with this label; of several labels, all must match", many=True)


def find(state: StateDirectory, text: str) -> str:
    """The id of the one run that the text names, by the rules of `run_names`.

    RunNotFoundError: it names no run. AmbiguousRunError: it names several. StateError: the run has no journal.
    StillQueuedError, with the id: the run is still in the daemon's queue.
    """
    if state.has(wanted := text.lower()):
        return _whole(state, wanted)
    from .run_names import RunNames

    # First the queue, then the directories: a run that begins in between is found in the directories.
    queued = _queued(state, wanted)
    with _history(state) as index:
        run_id = RunNames(state, index, queued).find(text)
    if not state.has(run_id) and any(entry.run_id == run_id for entry in queued):
        from .queued_runs import still_queued

        raise still_queued(run_id)
    return _whole(state, run_id)


def find_all(state: StateDirectory, words: Iterable[str]) -> tuple[list[str], bool]:
    """The ids of the runs that the words name, each once, queued runs too; and whether all were found.

    A word that names no run is reported on stderr and does not stop the others.
    """
    found: dict[str, None] = {}
    complete = True
    for word in words:
        try:
            found[find(state, word)] = None
        except StateError as error:
            if (queued := queued_id(error)) is not None:
                found[queued] = None
                continue
            messages.say(str(error))
            complete = False
    return list(found), complete


def queued_id(error: StateError) -> str | None:
    """The id of the run, if the error says that the run is still queued; else None."""
    from .queued_runs import StillQueuedError

    return error.run_id if isinstance(error, StillQueuedError) else None


def only_run(given: CommandLine, command: str) -> str:
    """The word that names the run, of a command about one run. UsageError when there is no word, or more than one."""
    if len(given.words) != 1:
        what = "no run was given" if not given.words else f"{command} is about one run, {len(given.words)} were given"
        raise UsageError(what, remedy=f"write holdfast {command} ID; holdfast ps --all lists the ids")
    return given.words[0]


def selects_by_filter(given: CommandLine, command: str) -> bool:
    """Whether --session or --label chooses the runs, and not their ids. UsageError: both were given, or neither."""
    by_filter = given.has("--session") or given.has("--label")
    if bool(given.words) == by_filter:
        what = "runs and --session or --label were both given" if given.words else "no run was given"
        remedy = f"write holdfast {command} ID..., or holdfast {command} --session NAME, --label NAME=VALUE"
        raise UsageError(what, remedy=remedy)
    return by_filter


def filters_of(given: CommandLine) -> Filters:
    """The filters of a command line."""
    return Filters(
        session=given.last("--session"),
        name=given.last("--name"),
        statuses=tuple(_words(given, "--status")),
        causes=tuple(_words(given, "--cause")),
        labels=tuple(pair(text, "--label", "NAME=VALUE") for text in given.all("--label")),
    )


def open_index(state: StateDirectory) -> Index:
    """The index of the runs; a line on stderr says when it had to be rebuilt."""
    from ...state.index.index import Index

    index = Index.open(state)
    for warning in index.warnings:
        messages.say(warning)
    return index


def live_entries(state: StateDirectory, filters: Filters) -> list[RunSummary]:
    """The live runs that match, newest first. A run that cannot be read is reported on stderr."""
    found = []
    for entry in read_live_summaries(state):
        if entry.problem is not None:
            messages.say(f"{entry.problem} (run {entry.run_id})")
        if not entry.final and filters.matches(entry):
            found.append(entry)
    return newest_first(found)


def show_run(
    given: CommandLine, command: str, record: Callable[[RunRecord], None], queued: Callable[[dict[str, Any]], None]
) -> int:
    """Show the run that the command line names, from its record or from the queue; return the exit code."""
    text = only_run(given, command)
    state = open_state(given)
    die_with_reader()
    try:
        run_id = find(state, text)
    except StateError as error:
        if (waiting := queued_id(error)) is None:
            raise
        from .queued_runs import queued_report

        queued(queued_report(state, waiting))
        return 0
    with read_record(state, run_id) as found:
        record(found)
        damage = damage_of(found)
    if damage is None:
        return 0
    messages.say(damage)
    return OWN_FAILURE


def _history(state: StateDirectory) -> AbstractContextManager[Index | None]:
    """The index; None if it cannot be opened, for example in a read-only directory."""
    try:
        return open_index(state)
    except StateError:
        return nullcontext()


def has_daemon(state: StateDirectory) -> bool:
    """Whether there may be a daemon: its socket exists. Callers import the client only then."""
    return os.path.exists(os.path.join(state.path, DAEMON_SOCKET))


def has_queue(state: StateDirectory) -> bool:
    """Whether there may be queued runs: there is a daemon, or one was there and left its store."""
    return has_daemon(state) or os.path.exists(os.path.join(state.path, DAEMON_STORE))


def needs_daemon(state: StateDirectory, run_id: str) -> bool:
    """Whether only the daemon reaches this run: it has no directory yet, or it is on another host."""
    return not state.has(run_id) or state.is_elsewhere(run_id)


def queued_entries(state: StateDirectory, filters: Filters, most: int | None = None) -> list[RunSummary]:
    """The queued runs that match, oldest first; of more than `most` the newest, and a line on stderr says so."""
    if not has_queue(state) or filters.statuses or filters.causes:
        return []
    from .queued_runs import entries

    return entries(state, filters, most)


def _queued(state: StateDirectory, text: str) -> list[RunSummary]:
    if not has_queue(state):
        return []
    from .queued_runs import entries, entry_of, queued_report

    try:
        report = queued_report(state, text)  # a whole id: nobody has to read the queue
    except HoldfastError:
        return entries(state, Filters())
    return [entry_of(report)] if report["state"] == "queued" else []


def _whole(state: StateDirectory, run_id: str) -> str:
    path = state.run_path(run_id)
    if not os.path.exists(os.path.join(path, run_directory.JOURNAL)):
        remedy = "look at it, then remove it: holdfast prune, or by hand"
        raise StateError(f"its directory {path} holds no journal", run_id=run_id, remedy=remedy)
    return run_id


def _words(given: CommandLine, flag: str) -> list[str]:
    return [word for text in given.all(flag) for word in text.split(",") if word]
