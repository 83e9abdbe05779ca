"""The daemon's store: one SQLite file, one thread that writes, one thread that reads.

    queue         runs that have not started, with all that is needed to start them (deleted at the start)
    active        runs that were started and whose end has not been published
    idempotency   keys, the digest of the submission and the run that each was used for
    events, deliveries   see events/event_log.py and webhooks/deliveries.py

Writing. `write` and `post` hand an action to the writer thread. The actions of one turn of the event loop are handed
over together, because each handover wakes the writer thread, which then competes for the interpreter. The writer does
all waiting actions in one transaction and answers them after the commit: many actions share one fsync. A failed action
undoes only itself: when one fails, the writer does all of them again, each in a savepoint of its own. So an action does
nothing but SQL, and may be done twice. Guaranteed order: actions take effect in the order of the handover (from one
thread), they are answered in this order, and an answer means that the data is on disk.

Secrets. A queued run has the values of its environment in its row. When the row is deleted, SQLite overwrites it with
zeros (secure_delete), but older pages stay in the write-ahead log. So the writer empties the log a second after the
first write, and a daemon that starts empties what a killed one has left.

The schema is sql/migrations/NNNN_*.sql, applied in order. A new file gets all migrations.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
import time
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ...sqlite import database, sql_files
from ...state.owned_files import check_file, create
from ...values.errors import StateError
from . import salvage

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
APPLICATION_ID = 0x484F4C51  # "HOLQ": the daemon's file, not the index
_SQL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sql")
_MOST_AT_ONCE = 500
_CLOSE_S = 30.0
_EMPTY_LOG_S = 1.0  # after a write


class _StoreRequest(NamedTuple):
    action: Callable[[sqlite3.Connection], Any]
    done: Callable[[Any, Exception | None], None]  # called on the loop
    loop: asyncio.AbstractEventLoop


_StoreAnswer = tuple[_StoreRequest, Any, Exception | None]


class Store:
    """The open file. StateError from `open`, `write` and `read`: the file cannot be used now."""

    def __init__(self, path: str) -> None:
        """As `open`, but raises sqlite3.Error when the file is not a usable database."""
        self.path = path
        self.warnings: list[str] = []  # about a damaged file that was replaced before the start
        self.warn: Callable[[str], None] = self.warnings.append  # also called by the threads
        connections = _connect_twice(path)
        self._writer = _StoreThread(
            connections[0], path, _do_together, self._repair, "holdfast store writer", writes=True
        )
        self._reader = _StoreThread(connections[1], path, _do_one, self._repair, "holdfast store reader", 1)

    @classmethod
    def open(cls, path: str) -> Store:
        """Open or make the file (0600, WAL) and migrate it. A damaged file is replaced, with a warning."""
        try:
            try:
                return cls(path)
            except sqlite3.DatabaseError as error:
                if not database.is_damage(error):
                    raise
                told = salvage.replace(path, error, _connect)
                store = cls(path)
                store.warn(told)
                return store
        except sqlite3.Error as error:
            raise _state_error(error, path) from None
        except OSError as error:
            raise StateError(f"cannot use {path}: {error.strerror}", remedy="look at its directory") from None

    def _repair(self, seen: sqlite3.Connection, why: Exception) -> None:
        """Replace the damaged file while the daemon runs; a thread calls it between two pieces of its work.

        Does nothing when the other thread has replaced the file meanwhile. OSError, sqlite3.Error: it was not replaced.
        """
        # In one order for both threads. With both gates closed nobody uses a connection. All are closed before the new
        # file takes its place, because SQLite removes the log of a closed file by name.
        with self._writer.gate, self._reader.gate:
            if seen not in (self._writer.connection, self._reader.connection):
                return
            for thread in (self._writer, self._reader):
                thread.connection.close()
            try:
                self.warn(salvage.replace(self.path, why, _connect))
            finally:
                self._writer.connection, self._reader.connection = _connect_twice(self.path)

    def write(self, action: Callable[[sqlite3.Connection], T]) -> asyncio.Future[T]:
        """Do this in the writer thread; the future has the answer after the commit. Called on the event loop."""
        return _future_of(self._writer, action)

    def post(self, action: Callable[[sqlite3.Connection], T], done: Callable[[T, Exception | None], None]) -> None:
        """As `write`, without a future: `done` is called on the event loop with the answer or the error."""
        self._writer.hand_over(action, done)

    def read(self, action: Callable[[sqlite3.Connection], T]) -> asyncio.Future[T]:
        """Do this in the reader thread, which sees everything that is committed. The action must not write."""
        return _future_of(self._reader, action)

    def close(self) -> None:
        """Finish all actions that were handed over, then close. Blocks for that long."""
        self._reader.close()
        self._writer.close()


def _future_of(worker: _StoreThread, action: Callable[[sqlite3.Connection], T]) -> asyncio.Future[T]:
    future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def done(answer: T, error: Exception | None) -> None:
        if future.cancelled():
            return  # the caller went away; what was written stays
        if error is None:
            future.set_result(answer)
        else:
            future.set_exception(error)

    worker.hand_over(action, done)
    return future


def statements(name: str) -> dict[str, str]:
    """The named statements of `sql/NAME.sql`."""
    return sql_files.load_named(os.path.join(_SQL, f"{name}.sql"))


class _StoreThread:
    """A thread with its own connection, which does requests in order. It holds `gate` while it uses the connection."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        path: str,
        work: Callable[[sqlite3.Connection, list[_StoreRequest]], list[_StoreAnswer]],
        repair: Callable[[sqlite3.Connection, Exception], None],
        name: str,
        most_at_once: int = _MOST_AT_ONCE,
        *,
        writes: bool = False,
    ) -> None:
        self.connection = connection
        self.gate = threading.Lock()
        self._path = path
        self._work = work
        self._repair = repair
        self._most_at_once = most_at_once
        self._writes = writes
        self._empty_log_at: float | None = None
        self._gathered: list[_StoreRequest] = []  # handed over in this turn of the loop
        self._jobs: SimpleQueue[list[_StoreRequest] | None] = SimpleQueue()
        self._is_closed = False
        # A daemon thread, so that it never keeps the interpreter from ending.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def hand_over(
        self, action: Callable[[sqlite3.Connection], Any], done: Callable[[Any, Exception | None], None]
    ) -> None:
        loop = asyncio.get_running_loop()
        if self._is_closed:
            error = StateError(f"{self._path} is closed", remedy="the daemon is on its way out")
            loop.call_soon(done, None, error)
        else:
            if not self._gathered:
                loop.call_soon(self._pass_on)
            self._gathered.append(_StoreRequest(action, done, loop))
            if len(self._gathered) == _MOST_AT_ONCE:
                self._pass_on()

    def _pass_on(self) -> None:
        if self._gathered:
            self._jobs.put(self._gathered)
            self._gathered = []

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._pass_on()
            self._jobs.put(None)
            self._thread.join(_CLOSE_S)

    def _run(self) -> None:
        while (jobs := self._next()) is not None:
            while len(jobs) < _MOST_AT_ONCE and not self._jobs.empty():
                following = self._jobs.get()
                if following is None:
                    self._jobs.put(None)  # after these
                    break
                jobs += following
            for first in range(0, len(jobs), self._most_at_once):
                _tell(self._do(jobs[first : first + self._most_at_once]), self._path)
        self.connection.close()

    def _next(self) -> list[_StoreRequest] | None:
        """The next requests; while there are none, empty the log when it is time. None: no more will come."""
        while True:
            if self._empty_log_at is not None and time.monotonic() >= self._empty_log_at:
                with self.gate:
                    is_empty = _empty_log(self.connection)
                self._empty_log_at = None if is_empty else time.monotonic() + _EMPTY_LOG_S
            try:
                wait_s = None if self._empty_log_at is None else max(0.0, self._empty_log_at - time.monotonic())
                jobs = self._jobs.get(timeout=wait_s)
            except Empty:
                continue
            if self._writes and self._empty_log_at is None:
                self._empty_log_at = time.monotonic() + _EMPTY_LOG_S
            return jobs

    def _do(self, jobs: list[_StoreRequest]) -> list[_StoreAnswer]:
        """Do the requests. If a request fails because the file is damaged, do it again in the file that replaces it."""
        with self.gate:
            used = self.connection
            answers = self._work(used, jobs)
        failed = {place: error for place, (_, _, error) in enumerate(answers) if salvage.is_damaged(error)}
        if not failed:
            return answers
        try:
            self._repair(used, next(error for error in failed.values() if error is not None))
        except (OSError, sqlite3.Error):
            return answers
        with self.gate:
            again = self._work(self.connection, [jobs[place] for place in failed])
        for place, answer in zip(failed, again, strict=True):
            answers[place] = answer
        return answers


def _do_together(connection: sqlite3.Connection, jobs: list[_StoreRequest]) -> list[_StoreAnswer]:
    """Do all requests in one transaction."""
    try:
        with database.writing(connection):
            return [(job, job.action(connection), None) for job in jobs]
    except Exception as error:  # noqa: BLE001 - _do_apart finds out which request failed
        return [(jobs[0], None, error)] if len(jobs) == 1 else _do_apart(connection, jobs)


def _do_apart(connection: sqlite3.Connection, jobs: list[_StoreRequest]) -> list[_StoreAnswer]:
    """Do each request in a savepoint of its own, so that one failure does not fail the others."""
    try:
        with database.writing(connection):
            return [(job, *_savepoint(connection, job)) for job in jobs]
    except Exception as error:  # noqa: BLE001 - such as a full disk: all requests failed
        return [(job, None, error) for job in jobs]


def _savepoint(connection: sqlite3.Connection, job: _StoreRequest) -> tuple[Any, Exception | None]:
    connection.execute("SAVEPOINT one")
    try:
        answer = job.action(connection)
    except Exception as error:
        if not connection.in_transaction:
            raise  # such as a full disk: SQLite has undone the whole transaction
        connection.execute("ROLLBACK TO one")
        connection.execute("RELEASE one")
        return None, error
    connection.execute("RELEASE one")
    return answer, None


def _do_one(connection: sqlite3.Connection, jobs: list[_StoreRequest]) -> list[_StoreAnswer]:
    (job,) = jobs
    try:
        return [(job, job.action(connection), None)]
    except Exception as error:  # noqa: BLE001 - it is the answer to this request
        return [(job, None, error)]


def _tell(answers: list[_StoreAnswer], path: str) -> None:
    """Give the answers to their callers, with one wake-up of the event loop for all of them."""
    loop = answers[0][0].loop

    def tell() -> None:
        for job, answer, error in answers:
            try:
                job.done(answer, _state_error(error, path) if isinstance(error, sqlite3.Error) else error)
            except Exception as defect:  # noqa: BLE001 - the other callers still get their answers
                loop.call_exception_handler({"message": "an answer of the store was not taken", "exception": defect})

    try:
        loop.call_soon_threadsafe(tell)
    except RuntimeError:
        pass  # the loop is closed: no caller waits any more


def _empty_log(connection: sqlite3.Connection) -> bool:
    """Move the write-ahead log into the file and cut it to nothing; False when a reader still needs it."""
    try:
        # A reader must not hold up the writer: the next try is soon.
        connection.execute("PRAGMA busy_timeout = 0")
        try:
            busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        finally:
            connection.execute(f"PRAGMA busy_timeout = {round(database.BUSY_S * 1000)}")
    except sqlite3.Error:
        return True  # a full disk, or damage: the next write meets the same error and reports it
    return not busy


def _connect_twice(path: str) -> tuple[sqlite3.Connection, sqlite3.Connection]:
    """Two connections, after a look at the whole file."""
    first = _connect(path)
    try:
        salvage.check(first)
        _empty_log(first)
        return first, _connect(path)
    except BaseException:
        first.close()
        raise


def _connect(path: str) -> sqlite3.Connection:
    if not check_file(path):  # SQLite would follow a link
        os.close(create(path))  # SQLite would make it readable
    connection = database.open_file(path)
    try:
        database.make_durable(connection)  # an answered submit is on disk
        connection.execute("PRAGMA secure_delete = ON")
        _migrate(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _migrate(connection: sqlite3.Connection, path: str) -> None:
    version = database.read_pragma(connection, "user_version")
    application = database.read_pragma(connection, "application_id")
    steps = sql_files.load_migrations(os.path.join(_SQL, "migrations"))
    if application not in (0, APPLICATION_ID):
        raise StateError(f"{path} belongs to another program", remedy="move it away")
    database.check_version(path, version, len(steps))
    if version < len(steps):
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        database.migrate(connection, steps)


def _state_error(error: sqlite3.Error, path: str) -> StateError:
    remedy = database.remedy_for(error, "move it away: the daemon makes a new one, and the runs queued in it are lost")
    return StateError(f"cannot use the daemon's file {path}: {error}", remedy=remedy)
