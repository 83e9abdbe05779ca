"""The SQLite file of the index: open it, or make a new one and seal it."""

from __future__ import annotations

import os
import sqlite3

from ...sqlite import database
from ...values.errors import StateError
from .. import owned_files
from . import queries

APPLICATION_ID = 0x484F4C44  # "HOLD": tells the index from the SQLite files of other programs


class DamagedIndexError(Exception):
    """The file is not a usable index; the journals can replace it. The message completes "the index ..."."""


def connect(path: str) -> sqlite3.Connection:
    """Open an index and bring its schema up to date.

    DamagedIndexError: it is missing, or not ours, or not readable. StateVersionError: it is a newer Holdfast's.
    """
    if not owned_files.check_file(path):  # SQLite would follow a link
        raise DamagedIndexError("is missing")
    connection = database.open_file(path)  # never made here: an empty file in its place would pass for an empty history
    try:
        application = database.read_pragma(connection, "application_id")
        version = database.read_pragma(connection, "user_version")
        steps = queries.migrations()
        if application != APPLICATION_ID or version < 1:
            raise DamagedIndexError("is no index of Holdfast")
        database.check_version(f"the index {path}", version, len(steps))
        if version < len(steps):
            database.migrate(connection, steps)
        # A commit must be on disk before `refresh` removes a run's mark: after that no refresh reads the run again.
        database.make_durable(connection)
        connection.execute("PRAGMA foreign_keys = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def create(path: str) -> sqlite3.Connection:
    """Make an empty index under a name that no reader knows. It is not safe against a crash until `seal`."""
    os.close(owned_files.create(path))  # SQLite would make it readable
    connection = database.open_file(path)
    connection.execute("PRAGMA journal_mode = OFF")
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    database.migrate(connection, queries.migrations())
    return connection


def seal(connection: sqlite3.Connection, path: str) -> None:
    """Close a new index and write it to disk, so that it can be renamed into its place."""
    connection.execute("ANALYZE")
    connection.execute("PRAGMA journal_mode = WAL")  # the file remembers this
    connection.close()
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def as_state_error(error: sqlite3.Error, path: str) -> StateError:
    """The error for an index that cannot be used now."""
    remedy = database.remedy_for(error, "move it away: it is made again from the journals")
    return StateError(f"cannot use the index {path}: {error}", remedy=remedy)
