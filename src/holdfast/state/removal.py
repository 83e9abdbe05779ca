"""Removing ended runs in steps that survive a crash, and finding directories that were never finished."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from .run_directory import is_starting, open_journal, remove

if TYPE_CHECKING:
    from .directory import StateDirectory


def begin(state: StateDirectory, run_id: str) -> int:
    """Take an ended run away: from here on it is not found any more; returns the bytes that were freed. OSError.

    Its mark is set first, so whoever reads `live` next finishes what a crash leaves: the rest of the directory, the row
    in the index, the mark (`finish`).
    """
    state.mark_live(run_id)
    gone = state.hidden_path(run_id, "gone")
    remove(gone)  # of somebody who died here
    try:
        os.rename(state.run_path(run_id), gone)
    except FileNotFoundError:
        return 0
    return remove(gone)


def finish(state: StateDirectory, run_id: str) -> None:
    """The index has no row of this missing run any more."""
    remove(state.hidden_path(run_id, "gone"))
    state.unmark_missing(run_id)


def find_abandoned(state: StateDirectory, older_than_s: float = 60.0) -> list[str]:
    """Directories that were never finished: their maker died. The names, to be removed with `remove`."""
    limit = time.time() - older_than_s  # its maker may be between two steps; nobody is for a minute
    with os.scandir(state.runs_path) as entries:
        hidden = [entry.path for entry in entries if entry.name.startswith(".new-")]
    return [path for path in hidden if _is_older(path, limit) and not _is_being_made(path)]


def _is_older(path: str, limit: float) -> bool:
    try:
        return os.lstat(path).st_mtime < limit
    except FileNotFoundError:
        return False  # finished meanwhile


def _is_being_made(path: str) -> bool:
    try:
        journal = open_journal(path)
    except OSError:
        return False
    try:
        return is_starting(journal, has_facts=False)
    finally:
        os.close(journal)
