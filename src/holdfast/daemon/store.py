"""The daemon's own durable data: one SQLite file, one thread that writes, one that reads.

    queue         runs that have not started, with all that is needed to start them (deleted at the start)
    active        runs that were started and whose end has not been announced
    idempotency   keys, what they were used for, and which run that is
    events, deliveries   see events.py and deliveries.py

Writing. `write` hands an action to the writer thread. Whatever waits there is done in one transaction, each action in a
savepoint of its own, and all are told after the commit: many writers share one fsync, and a failed action undoes
itself only. Order that is guaranteed: actions take effect in the order in which `write` was called (from one thread),
and an answer means that it is on disk.

The schema is migrations/NNNN_*.sql, applied in order; a new file is the same migrations from zero.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import asyncio
    import sqlite3
    from collections.abc import Callable

T = TypeVar("T")


class Store:
    """The open file. StateError from `open`, `write` and `read`: it cannot be used (now)."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.warnings: list[str] = []  # what had to be done about a file that was damaged

    @classmethod
    def open(cls, path: str) -> Store:
        """Open or make it (0600, WAL) and bring its schema up to date. A damaged one is moved aside, with a warning."""
        raise NotImplementedError

    def write(self, action: Callable[[sqlite3.Connection], T]) -> asyncio.Future[T]:
        """Do it in the writer thread; the future has the answer after the commit. To be called on the event loop."""
        raise NotImplementedError

    def read(self, action: Callable[[sqlite3.Connection], T]) -> asyncio.Future[T]:
        """Do it in the reader thread, which sees everything that was committed before. No writing."""
        raise NotImplementedError

    def close(self) -> None:
        """Finish what was handed over, then close. Blocks for that long."""
        raise NotImplementedError


def statements(name: str) -> dict[str, str]:
    """The named statements of `sql/NAME.sql`."""
    raise NotImplementedError
