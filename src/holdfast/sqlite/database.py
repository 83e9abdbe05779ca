"""A SQLite file: open it, write in transactions, migrate its schema, explain its errors.

Only SQLite may open the file while a connection to it exists: when a process closes any descriptor of the file, the
kernel drops the locks that SQLite holds in this process. `stat` tells whether a file is still the one that was opened.
"""

from __future__ import annotations

import os
import sqlite3
from typing import TYPE_CHECKING

from ..values.errors import StateVersionError

if TYPE_CHECKING:
    from collections.abc import Iterator

BUSY_S = 15.0
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT, sqlite3.SQLITE_SCHEMA)
_REMEDIES = {
    sqlite3.SQLITE_BUSY: "another process has been writing to it for too long: try again, or look what hangs",
    sqlite3.SQLITE_READONLY: "you may not write there: choose another with --state-dir or HOLDFAST_STATE_DIR",
    sqlite3.SQLITE_CANTOPEN: "you may not write there: choose another with --state-dir or HOLDFAST_STATE_DIR",
    sqlite3.SQLITE_FULL: "its disk is full: free space, prune old runs (holdfast prune), or choose another directory",
    sqlite3.SQLITE_IOERR: "its disk is full or failing: look at the system's log",
}


def open_file(path: str, mode: str = "rw", *, busy_s: float = BUSY_S) -> sqlite3.Connection:
    """Open an existing file. `mode` is `rw` or `ro`. The connection begins no transaction by itself.

    Several threads may use the connection, one at a time.
    """
    return sqlite3.connect(_uri(path, mode), uri=True, timeout=busy_s, isolation_level=None, check_same_thread=False)


def make_durable(connection: sqlite3.Connection) -> None:
    """Make every later commit of this connection survive a power failure."""
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")


def read_pragma(connection: sqlite3.Connection, name: str) -> int:
    """The value of a numeric pragma, such as `user_version`."""
    value: int = connection.execute(f"PRAGMA {name}").fetchone()[0]
    return value


def check_version(file: str, version: int, latest: int) -> None:
    """Raise StateVersionError if `version` is newer than `latest`. `file` is the file's name in the message."""
    if version > latest:
        raise StateVersionError(
            f"{file} has version {version}, this Holdfast knows {latest}",
            remedy="use the Holdfast that made it, or another state directory (--state-dir)",
        )


def migrate(connection: sqlite3.Connection, steps: list[tuple[int, list[str]]]) -> None:
    """Apply the migrations that the file lacks, in one transaction."""
    with writing(connection):
        version = read_pragma(connection, "user_version")  # again: another process may have been faster
        for number, statements in steps:
            if number <= version:
                continue
            for statement in statements:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number}")


class writing:  # noqa: N801 - reads as a statement: `with writing(connection):`
    """One write transaction: committed at the end of the block, rolled back after an error.

    It takes the write lock at once. A transaction that begins as a reader may fail when it turns into a writer.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                self._connection.execute("COMMIT")
        finally:
            if self._connection.in_transaction:  # also after a failed commit: the next transaction must begin
                self._connection.execute("ROLLBACK")


def is_damage(error: sqlite3.Error) -> bool:
    """Whether the error means a damaged file, rather than one that is busy or full now."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        return False
    return code & 0xFF in _DAMAGE or (code == sqlite3.SQLITE_ERROR and "no such" in str(error))


def remedy_for(error: sqlite3.Error, otherwise: str) -> str:
    """What a person can do about this error; the text `otherwise` for an error code that is not in the table."""
    return _REMEDIES.get((getattr(error, "sqlite_errorcode", None) or 0) & 0xFF, otherwise)


def files(path: str) -> Iterator[str]:
    """The database and the files that SQLite keeps beside it, as far as they exist; the database first."""
    for ending in ("", "-wal", "-shm", "-journal"):
        if os.path.lexists(path + ending):
            yield path + ending


def _uri(path: str, mode: str) -> str:
    return f"file:{path.replace('%', '%25').replace('?', '%3f').replace('#', '%23')}?mode={mode}"
