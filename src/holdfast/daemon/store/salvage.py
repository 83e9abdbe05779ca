"""Salvage of a damaged store: a new file with every row that can still be read, and a list of what was lost.

A table is read from its first row on until a page cannot be read, and then from its last row back. So one damaged page
costs the rows of that page only. Events are kept from the last row back only: the log promises ids without a gap.
The new file is complete and on disk before the damaged one is moved aside. A crash in between leaves the damaged file
in place, and the next start salvages it again.
"""

from __future__ import annotations

import os
import sqlite3
from typing import TYPE_CHECKING, NamedTuple

from ...sqlite import database

if TYPE_CHECKING:
    from collections.abc import Callable

_WITHOUT_GAP = "events"
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class SalvagedTable(NamedTuple):
    """How many rows of a table were kept, and whether these are all rows that it had."""

    name: str
    rows: int
    is_whole: bool


def is_damaged(error: Exception | None) -> bool:
    """Whether the error means that a page of the file cannot be read. A salvage helps then, and only then."""
    if isinstance(error, sqlite3.ProgrammingError):
        return "closed" in str(error)  # the file was so damaged that it could not be opened again
    return isinstance(error, sqlite3.Error) and (getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF in _DAMAGE


def check(connection: sqlite3.Connection) -> None:
    """Look at every page. sqlite3.DatabaseError: one of them is damaged."""
    found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if found != "ok":
        error = sqlite3.DatabaseError(" ".join(str(found).replace("*", "").split()))
        error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise error


def replace(path: str, why: Exception, connect: Callable[[str], sqlite3.Connection]) -> str:
    """Put a new file in the place of the damaged one, with every row that can be read; returns what to tell people.

    No connection to the file may be open. OSError, sqlite3.Error: the new file cannot be written, and the damaged one
    stays in its place.
    """
    new = f"{path}.new"
    _remove(new)  # left by a salvage that died
    try:
        fresh = connect(new)
        try:
            tables = _fill(path, fresh)
            fresh.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            fresh.close()
    except BaseException:
        _remove(new)
        raise
    kept = _move_aside(path)
    os.rename(new, path)
    return f"{path} is damaged ({why}); it was moved to {kept}; {_told(tables)}"


def _told(tables: list[SalvagedTable]) -> str:
    counts = ", ".join(f"{table.name} {table.rows}" for table in tables)
    lost = [table.name for table in tables if not table.is_whole]
    if not lost:
        return f"all rows were kept ({counts})"
    costs = [cost for name, cost in _COSTS.items() if name in lost]
    return f"rows that were kept: {counts}; rows of {', '.join(lost)} are lost: {'; '.join(costs)}"


_COSTS = {
    "queue": "runs that were queued in them never start",
    "active": "live runs are found by their directories",
    "idempotency": "a post that is repeated with a lost key starts a second run",
    "events": "clients that were behind are told that events are missing",
    "deliveries": "their webhooks are not delivered",
}


def _fill(path: str, fresh: sqlite3.Connection) -> list[SalvagedTable]:
    names = [name for (name,) in fresh.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")]
    old = database.open_file(path)
    try:
        with database.writing(fresh):
            found = [_copy(old, fresh, name) for name in names if not name.startswith("sqlite_")]
            _keep_sequences(old, fresh)
    finally:
        old.close()
    return found


def _copy(old: sqlite3.Connection, fresh: sqlite3.Connection, table: str) -> SalvagedTable:
    """Copy the readable rows of a table."""
    described = fresh.execute(f"PRAGMA table_info({table})").fetchall()
    columns = ", ".join(name for _, name, *_ in described)
    key = next(name for _, name, _, _, _, place in described if place == 1)
    insert = f"INSERT OR IGNORE INTO {table} ({columns}) VALUES ({', '.join('?' * len(described))})"
    is_whole = True
    for order in ("DESC",) if table == _WITHOUT_GAP else ("ASC", "DESC"):
        is_whole = _copy_until_damage(old, fresh, f"SELECT {columns} FROM {table} ORDER BY {key} {order}", insert)
        if is_whole:
            break
    rows: int = fresh.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
    return SalvagedTable(table, rows, is_whole)


def _copy_until_damage(old: sqlite3.Connection, fresh: sqlite3.Connection, select: str, insert: str) -> bool:
    """Copy rows in this order; False when a row could not be read, or is not what the table may hold."""
    is_whole = True
    try:
        for row in old.execute(select):
            try:
                fresh.execute(insert, row)
            except sqlite3.IntegrityError:
                is_whole = False
    except sqlite3.DatabaseError:
        return False
    return is_whole


def _keep_sequences(old: sqlite3.Connection, fresh: sqlite3.Connection) -> None:
    """Give no id a second time: the new file counts on where the damaged one has stopped."""
    try:
        sequences = old.execute("SELECT name, seq FROM sqlite_sequence").fetchall()
    except sqlite3.DatabaseError:
        return  # the largest kept id is what is known
    for name, number in sequences:
        changed = fresh.execute("UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = ?", (number, name))
        if changed.rowcount == 0:
            fresh.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (name, number))


def _move_aside(path: str) -> str:
    number = 1
    while os.path.lexists(f"{path}.damaged-{number}"):
        number += 1
    for found in list(database.files(path)):
        os.rename(found, found.replace(path, f"{path}.damaged-{number}", 1))
    return f"{path}.damaged-{number}"


def _remove(path: str) -> None:
    for file in database.files(path):
        os.unlink(file)
