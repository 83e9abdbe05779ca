"""The rows of the queue in the daemon's store: queued runs, active runs, idempotency keys.

A function that takes a connection runs inside a transaction of the caller. The other functions return an action for
`Store.write` or `Store.post`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ...values.errors import IdempotencyConflictError
from ..store.store import statements

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Mapping

_SQL = statements("queue")


class QueueRow(NamedTuple):
    """A run that has not started; `submission` is the posted JSON, `role` and `uid` are those of its client."""

    sequence: int
    run_id: str
    queued_ns: int
    submission: bytes
    role: str | None  # None: the policy does not judge the run when it starts
    uid: int | None


class ActiveRow(NamedTuple):
    """A run that was started and whose end has not been published."""

    run_id: str
    queued_ns: int
    concurrency_key: str | None


def queued(connection: sqlite3.Connection) -> list[QueueRow]:
    """All queued runs, in the order in which they were queued."""
    return [QueueRow(*row) for row in connection.execute(_SQL["all"])]


def queued_run(connection: sqlite3.Connection, run_id: str) -> QueueRow | None:
    """One queued run; None: it is not queued."""
    row = connection.execute(_SQL["one"], {"run_id": run_id}).fetchone()
    return None if row is None else QueueRow(*row)


def active(connection: sqlite3.Connection) -> list[ActiveRow]:
    """All active runs, the oldest first."""
    return [ActiveRow(*row) for row in connection.execute(_SQL["active"])]


def put(connection: sqlite3.Connection, row: Mapping[str, Any]) -> int:
    """Insert a queued run; returns its place in the queue."""
    return int(connection.execute(_SQL["put"], row).lastrowid or 0)


def move_to_active(row: ActiveRow) -> Callable[[sqlite3.Connection], None]:
    """Move the row of a started run from `queue` to `active`, in one transaction."""
    values = row._asdict()

    def move(connection: sqlite3.Connection) -> None:
        connection.execute(_SQL["begin"], values)
        connection.execute(_SQL["drop"], values)

    return move


def remove(run_id: str) -> Callable[[sqlite3.Connection], None]:
    """Delete the rows of a run that is over."""

    def delete(connection: sqlite3.Connection) -> None:
        connection.execute(_SQL["drop"], {"run_id": run_id})
        connection.execute(_SQL["end"], {"run_id": run_id})

    return delete


def run_of_key(connection: sqlite3.Connection, key: str, digest: str) -> str | None:
    """The run that has this idempotency key; None: the key is new. IdempotencyConflictError: the spec is another."""
    found = connection.execute(_SQL["key"], {"key": key}).fetchone()
    if found is None:
        return None
    used_digest, run_id = found
    if used_digest != digest:
        remedy = "use a new key for a new run"
        raise IdempotencyConflictError("the idempotency key was used for another spec", run_id=run_id, remedy=remedy)
    return str(run_id)


def use_key(connection: sqlite3.Connection, use: Mapping[str, Any]) -> None:
    """Remember which run this idempotency key was used for."""
    connection.execute(_SQL["use_key"], use)


def forget_keys(before_ns: int) -> Callable[[sqlite3.Connection], None]:
    """Delete the idempotency keys that were used before this time."""

    def delete(connection: sqlite3.Connection) -> None:
        connection.execute(_SQL["forget_keys"], {"before_ns": before_ns})

    return delete
