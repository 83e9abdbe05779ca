"""The index as a SQLite file: opened, made, migrated, or found to be none.

Nothing but SQLite may open the file while a connection to it is there: closing any descriptor of it drops the locks
that SQLite holds in this process. Whether the file is still the one that was opened is told by `stat` alone.
"""

from __future__ import annotations

import os
import sqlite3
from typing import TYPE_CHECKING

from ...values.errors import StateError, StateVersionError
from . import queries

if TYPE_CHECKING:
    from collections.abc import Iterator

APPLICATION_ID = 0x484F4C44  # "HOLD": tells our file from anybody else's
BUSY_S = 15.0
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT, sqlite3.SQLITE_SCHEMA)
_REMEDIES = {
    sqlite3.SQLITE_BUSY: "another process has been writing to it for too long: try again, or look what hangs",
    sqlite3.SQLITE_READONLY: "you may not write there: choose another with --state-dir or HOLDFAST_STATE_DIR",
    sqlite3.SQLITE_CANTOPEN: "you may not write there: choose another with --state-dir or HOLDFAST_STATE_DIR",
    sqlite3.SQLITE_FULL: "its disk is full: free space, prune old runs (holdfast prune), or choose another directory",
    sqlite3.SQLITE_IOERR: "its disk is full or failing: look at the system's log",
}


class DamagedIndexError(Exception):
    """The file is not an index we can use, and its content can be made again: why, as the end of a sentence."""


def connect(path: str) -> sqlite3.Connection:
    """Open an index and bring its schema up to date.

    DamagedIndexError: it is missing, or not ours, or not readable. StateVersionError: a newer Holdfast's.
    """
    if not os.path.exists(path):
        raise DamagedIndexError("is missing")
    connection = _open(path, "rw")  # never made here: an empty file in its place would pass for an empty history
    try:
        application, version = _pragma(connection, "application_id"), _pragma(connection, "user_version")
        latest = len(queries.migrations())
        if application != APPLICATION_ID or version < 1:
            raise DamagedIndexError("is no index of Holdfast")
        if version > latest:
            raise StateVersionError(
                f"the index {path} has version {version}, this Holdfast knows {latest}",
                remedy="use the Holdfast that made it, or another state directory (--state-dir)",
            )
        if version < latest:
            migrate(connection, queries.migrations())
        _configure(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def create(path: str) -> sqlite3.Connection:
    """Make a fresh, empty index that nobody else sees yet: fast, and not safe against a crash until `seal`."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))  # nobody else's to read
    connection = _open(path, "rw")
    connection.execute("PRAGMA journal_mode = OFF")
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("PRAGMA foreign_keys = ON")
    for statement in queries.schema():
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {len(queries.migrations())}")
    return connection


def seal(connection: sqlite3.Connection, path: str) -> None:
    """Close a fresh index so that it can take its place."""
    connection.execute("ANALYZE")
    connection.execute("PRAGMA journal_mode = WAL")  # remembered in the file
    connection.close()
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def migrate(connection: sqlite3.Connection, steps: list[tuple[int, list[str]]]) -> None:
    """Apply what is missing, all of it or nothing."""
    with writing(connection):
        version = _pragma(connection, "user_version")  # again: another process may have been faster
        for number, statements in steps:
            if number <= version:
                continue
            for statement in statements:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number}")


class writing:  # noqa: N801 - reads as a statement: `with writing(connection):`
    """One write transaction. It begins as a writer: one that begins as a reader may find that it cannot become one."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                self._connection.execute("COMMIT")
        finally:
            if self._connection.in_transaction:  # also after a commit that failed: the next one must be able to begin
                self._connection.execute("ROLLBACK")


def is_damage(error: sqlite3.Error) -> bool:
    """Whether the error means that the file cannot be used any more, rather than that it cannot be used now."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        return False
    return code & 0xFF in _DAMAGE or (code == sqlite3.SQLITE_ERROR and "no such" in str(error))


def as_state_error(error: sqlite3.Error, path: str) -> StateError:
    """The error for an index that cannot be used now."""
    code = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
    remedy = _REMEDIES.get(code, "move it away: it is made again from the journals")
    return StateError(f"cannot use the index {path}: {error}", remedy=remedy)


def files(path: str) -> Iterator[str]:
    """The database and what SQLite keeps beside it, the database first."""
    for ending in ("", "-wal", "-shm", "-journal"):
        if os.path.lexists(path + ending):
            yield path + ending


def _open(path: str, mode: str) -> sqlite3.Connection:
    # No transactions behind our back, and whoever has the connection may use it from any one thread at a time.
    return sqlite3.connect(_uri(path, mode), uri=True, timeout=BUSY_S, isolation_level=None, check_same_thread=False)


def _uri(path: str, mode: str) -> str:
    return f"file:{path.replace('%', '%25').replace('?', '%3f').replace('#', '%23')}?mode={mode}"


def _configure(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    # A commit must be on disk before a run's mark is taken: nobody would look again after a power failure.
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    value: int = connection.execute(f"PRAGMA {name}").fetchone()[0]
    return value
