"""The rebuild of the index from all journals. The caller holds the index lock exclusively.

The new file is filled under another name, closed, and renamed into place. The old database is removed first, and its
log after it. A crash in between leaves no database, and the next reader makes a new one. In the other order, a crash
would leave a database without its log, or worse, a log that belongs to another database.
"""

from __future__ import annotations

import os
import time
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from ...sqlite import database
from .. import run_directory
from . import index_file
from .summary import read_summary
from .summary_rows import put

if TYPE_CHECKING:
    import sqlite3

    from ..directory import StateDirectory

_BATCH = 500


def move_aside(path: str) -> str | None:
    """Rename an unusable index; returns its new path, or None when there is no file."""
    kept = f"{path}.damaged-{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{os.getpid()}"
    moved = None
    for file in database.files(path):
        os.rename(file, kept + file.removeprefix(path))
        moved = kept
    return moved


class RebuildCounts(NamedTuple):
    """How many ended runs the new index has, and how many of them (`known`) an earlier index must have had."""

    ended: int
    known: int


def rebuild(state: StateDirectory) -> RebuildCounts:
    """Make the index from all run directories.

    A run that cannot be read gets a row with its problem. A run that is not over gets its mark in `live`. OSError,
    sqlite3.Error: the new file cannot be written, and the old one is unchanged.
    """
    aside = f"{state.index_path}.new"
    _remove(aside)  # left by a rebuild that died
    ended: set[str] = set()
    live = set(state.live_ids())
    try:
        connection = index_file.create(aside)
        try:
            run_ids = state.all_ids()
            while batch := list(islice(run_ids, _BATCH)):
                ended |= _fill(state, connection, batch, live)
            index_file.seal(connection, aside)
        finally:
            connection.close()
    except BaseException:
        _remove(aside)
        raise
    _remove(state.index_path)
    os.rename(aside, state.index_path)
    for run_id in ended & live:
        if run_directory.drop_socket(state.run_path(run_id)):
            state.unmark_live(run_id)
    return RebuildCounts(len(ended), len(ended - live))


def _fill(state: StateDirectory, connection: sqlite3.Connection, run_ids: list[str], live: set[str]) -> set[str]:
    entries = [entry for run_id in run_ids if (entry := read_summary(state, run_id)) is not None]
    ended = [entry for entry in entries if entry.final]
    with database.writing(connection):
        put(connection, ended)
    for entry in entries:
        if not entry.final and entry.run_id not in live:
            state.mark_live(entry.run_id)
    return {entry.run_id for entry in ended}


def _remove(path: str) -> None:
    for file in database.files(path):
        os.unlink(file)
