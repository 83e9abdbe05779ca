"""The queue of a daemon that is not running, read from its store: `ps` and `show` know it without a daemon.

The file is only read: a daemon that starts meanwhile is not disturbed. Rows that cannot be decoded are left out here,
because the daemon decides about them when it starts.
"""

from __future__ import annotations

import os
import sqlite3
from typing import TYPE_CHECKING, Any

import msgspec

from ..sqlite import database
from ..state.directory import DAEMON_STORE
from ..values.errors import HoldfastError, StateError
from ..values.timestamps import format_timestamp
from .queue import queue_rows
from .queue.scheduled_run import queued_report
from .queue.submission import Submission

if TYPE_CHECKING:
    from ..state.directory import StateDirectory
    from .queue.queue_rows import QueueRow

WAITS_FOR = "the daemon, which is not running"


def stored_reports(state: StateDirectory) -> list[dict[str, Any]]:
    """The reports of the runs in the store's queue, by priority and time. StateError: the store cannot be read."""
    path = os.path.join(state.path, DAEMON_STORE)
    if not os.path.exists(path):
        return []
    try:
        connection = database.open_file(path, "ro")
        try:
            rows = [row for row in queue_rows.queued(connection) if not state.has(row.run_id)]
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise StateError(f"cannot read {path}: {error}", remedy="start the daemon: holdfast serve") from None
    found = sorted(((one, row) for row in rows if (one := _decoded(row)) is not None), key=_rank)
    return [_report(submission, row, place) for place, (submission, row) in enumerate(found, 1)]


def _decoded(row: QueueRow) -> Submission | None:
    try:
        return msgspec.json.decode(row.submission, type=Submission)
    except msgspec.MsgspecError:
        return None


def _rank(entry: tuple[Submission, QueueRow]) -> tuple[int, int]:
    return -entry[0].priority, entry[1].sequence


def _report(submission: Submission, row: QueueRow, position: int) -> dict[str, Any]:
    place = {"position": position, "priority": submission.priority, "waits_for": WAITS_FOR}
    try:
        spec = submission.spec(row.run_id, format_timestamp(row.queued_ns))
    except HoldfastError as error:
        raise StateError(f"its entry in the queue cannot be used: {error}", run_id=row.run_id) from None
    return {**queued_report(spec), "queue": place}
