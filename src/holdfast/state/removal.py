"""Removing ended runs in steps that survive a crash, and finding half-written run directories."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from .run_directory import is_starting, open_journal, remove

if TYPE_CHECKING:
    from .directory import StateDirectory


def begin(state: StateDirectory, run_id: str) -> int:
    """Remove an ended run's directory; returns the bytes freed. From here on readers do not find the run.

    The run's mark is set first. After a crash, the next reader of `live` removes what is left: the rest of the
    directory, the row in the index, and the mark (`finish`). OSError: the directory cannot be removed.
    """
    state.mark_live(run_id)
    gone = state.hidden_path(run_id, "gone")
    remove(gone)  # left by a process that died at this point
    try:
        os.rename(state.run_path(run_id), gone)
    except FileNotFoundError:
        return 0
    return remove(gone)


def finish(state: StateDirectory, run_id: str) -> None:
    """Remove the rest of a removed run, and its mark. Call this when the index has no row of the run any more."""
    remove(state.hidden_path(run_id, "gone"))
    state.unmark_missing(run_id)


def find_abandoned(state: StateDirectory, older_than_s: float = 60.0) -> list[str]:
    """The paths of half-written run directories whose launcher died. `run_directory.remove` removes them."""
    limit = time.time() - older_than_s  # a live launcher may be between two steps, but not for a minute
    with os.scandir(state.runs_path) as entries:
        hidden = [entry.path for entry in entries if entry.name.startswith(".new-")]
    return [path for path in hidden if _is_older(path, limit) and not _is_being_made(path)]


def _is_older(path: str, limit: float) -> bool:
    try:
        return os.lstat(path).st_mtime < limit
    except FileNotFoundError:
        return False  # its launcher has finished it meanwhile


def _is_being_made(path: str) -> bool:
    try:
        journal = open_journal(path)
    except OSError:
        return False
    try:
        return is_starting(journal, has_facts=False)
    finally:
        os.close(journal)
