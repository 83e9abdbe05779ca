"""The examination of the index: is the file sound, and does it match the run directories? It changes nothing."""

from __future__ import annotations

import os
import sqlite3
from typing import TYPE_CHECKING

from ..sqlite import database
from ..state.file_lock import FileLock
from ..state.index import index_file
from ..state.index.index import Index
from ..values.errors import StateError
from .finding import OK, PROBLEM, REAP, WARNING, DoctorFinding, PlannedRepair

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..state.directory import StateDirectory
    from .finding import FindingAndRepair

_WAIT_S = 5.0
_AGAIN = PlannedRepair("index", "make the index again from the journals")


def examine(state: StateDirectory) -> Iterator[FindingAndRepair]:
    """Examine the index: one finding, with a repair if it has to be made again."""
    problem = check(state)
    if problem == "is missing":
        yield DoctorFinding(OK, "index", f"{state.index_path} is made by the next command that lists runs"), None
        return
    if problem is not None:
        yield DoctorFinding(PROBLEM, "index", f"{state.index_path} {problem}", remedy=REAP), _AGAIN
        return
    try:
        yield _compare(state)
    except (StateError, OSError) as error:
        remedy = getattr(error, "remedy", None) or "look at the state directory"
        yield DoctorFinding(PROBLEM, "index", str(getattr(error, "message", error)), remedy=remedy), None


def check(state: StateDirectory) -> str | None:
    """What is wrong with the file; None when it is sound. The text completes "the index ..."."""
    if not os.path.exists(state.index_path):
        return "is missing"
    try:
        # A shared lock, so that no process replaces the file meanwhile.
        with FileLock(os.path.join(state.path, "index.lock"), _WAIT_S).shared():
            return _quick_check(state.index_path)
    except StateError as error:
        return f"cannot be examined: {error.message}"
    except (sqlite3.Error, OSError) as error:
        return f"cannot be read: {error}"


def survivor_ids(state: StateDirectory) -> list[str]:
    """The ids of ended runs with survivors. Without a sound index, the ids of all runs."""
    if check(state) is not None:
        return list(state.all_ids())
    try:
        with Index(state) as index:
            return [run_id for run_id, _begun, _bytes, tree in index.sizes() if tree == "survivors"]
    except StateError:
        return list(state.all_ids())


def _quick_check(path: str) -> str | None:
    connection = database.open_file(path, "ro", busy_s=_WAIT_S)
    try:
        if database.read_pragma(connection, "application_id") != index_file.APPLICATION_ID:
            return "is no index of Holdfast"
        (answer,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        return None if answer == "ok" else f"is damaged: {answer}"
    finally:
        connection.close()


def _compare(state: StateDirectory) -> FindingAndRepair:
    # Runs begin and end meanwhile. So only a difference that both looks find is reported.
    first = _out_of_step(state)
    missing, surplus = (once & again for once, again in zip(first, _out_of_step(state), strict=True))
    if not missing and not surplus:
        with Index(state) as index:
            return DoctorFinding(OK, "index", f"{state.index_path}, sound, {index.count()} ended runs"), None
    what = f"{state.index_path} lacks {len(missing)} ended runs, and has {len(surplus)} that are gone"
    return DoctorFinding(WARNING, "index", what, remedy=REAP), _AGAIN


def _out_of_step(state: StateDirectory) -> tuple[set[str], set[str]]:
    live = set(state.live_ids())
    there = set(state.all_ids())
    with Index(state) as index:
        rows = {row[0] for row in index.sizes()}
    live.update(state.live_ids())
    return there - rows - live, {run_id for run_id in rows - there - live if not state.has(run_id)}
