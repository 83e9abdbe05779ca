"""The index of a state directory: refresh it from the journals, look up ended runs, replace a damaged file.

Refreshing. A run's mark stays in `live` until the index has the run's end. `refresh` reads the marked runs, finishes
the runs whose guard is gone, writes all ended runs in one transaction, and removes their marks after the commit. After
a crash in between, the next refresh does it again; two refreshes at once do the same work twice. So no process that
starts or ends a run waits for this file.

Replacing. An index that is missing, damaged or not ours is moved aside. A new one is made under another name and
renamed into place. SQLite must not work on a file whose name changes. So every operation holds `index.lock` shared, and
a replacement holds it exclusively. Each operation first compares the identity of the file with the one it has open. A
process that committed to the old file while a new one was made notices that the file has changed, and repeats its
operation before it removes any mark from `live`.
"""

from __future__ import annotations

import os
import sqlite3
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from ...sqlite import database
from ...values.errors import ResourceError, StateError
from .. import disk_reserve, removal, run_directory
from ..directory import StateDirectory, state_error
from ..file_lock import FileLock
from . import index_file, rebuild
from .page_query import PageQuery, make_cursor
from .queries import STATEMENTS as _SQL
from .summary import Filters, RunSummary, newest_first, read_summary
from .summary_rows import entry_of, put

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Self

T = TypeVar("T")
# `Index.list` is a method, and inside the class the name `list` would mean that method.
Entries: TypeAlias = list[RunSummary]
RunIds: TypeAlias = list[str]
Rows: TypeAlias = list[Any]
_BATCH = 500  # runs per transaction: bounds the memory, and how long other writers wait


class SummaryPage(NamedTuple):
    """One page of runs, newest first, and the cursor of the next page; None on the last page."""

    entries: list[RunSummary]
    cursor: str | None


class Index:
    """An open index. When it replaced a damaged file, `warnings` says so, for the caller to show.

    StateError from every method: the index cannot be used now (no space, no permission, busy). StateVersionError: a
    newer Holdfast made it.
    """

    def __init__(self, state: StateDirectory) -> None:
        self.state = state
        self.path = state.index_path
        self.warnings: RunIds = []
        self._lock = FileLock(os.path.join(state.path, "index.lock"))
        self._connection: sqlite3.Connection | None = None
        self._identity: tuple[int, int] | None = None

    @classmethod
    def open(cls, state: StateDirectory) -> Index:
        """Open the index of this state directory. If it has no usable index, make one from the journals."""
        index = cls(state)
        index._run(lambda _connection: None)
        return index

    # Refreshing.

    def refresh(self) -> Entries:
        """Add all runs that ended since the last refresh; returns the live and the unreadable runs, newest first.

        On a full disk nothing is added: the ended runs are returned with the live ones, and the next refresh adds them.
        """
        live: Entries = []
        run_ids = iter(self.state.live_ids())
        while batch := list(islice(run_ids, _BATCH)):
            live += self._take_in(batch)
        disk_reserve.keep(self.state.path)
        return newest_first(live)

    def _take_in(self, run_ids: RunIds) -> Entries:
        found: dict[str, RunSummary | None] = {}
        for run_id in run_ids:
            try:
                found[run_id] = read_summary(self.state, run_id)
            except OSError as error:
                raise ResourceError.from_os_error(error, doing="read a run", run_id=run_id) from None
        ended = [entry for entry in found.values() if entry is not None and entry.final]
        missing = [run_id for run_id, entry in found.items() if entry is None and self.state.is_missing(run_id)]
        if ended or missing:
            try:
                self._write(ended, missing)
            except StateError:
                if not disk_reserve.is_full(self.state.path):
                    raise
                warning = "the disk is full, so runs that have ended are not added to the index yet: holdfast prune"
                self.warnings = [*(known for known in self.warnings if known != warning), warning]
                return [entry for entry in found.values() if entry is not None]  # they stay marked
        # A run that was removed while we read it: its row may have been dropped before we wrote ours, so drop it again.
        # If a run is removed from here on, its row is dropped after ours was written.
        if removed := [entry.run_id for entry in ended if self.state.is_missing(entry.run_id)]:
            self._write([], removed)
        for entry in ended:
            # Without the mark no reader would find a socket that is left. A run whose guard is still exiting keeps its
            # mark, and the next refresh adds it again.
            if run_directory.drop_socket(self.state.run_path(entry.run_id)):
                self.state.unmark_live(entry.run_id)
        for run_id in [*missing, *removed]:
            removal.finish(self.state, run_id)
        return [entry for entry in found.values() if entry is not None and not entry.final]

    def forget(self, run_ids: Iterable[str]) -> None:
        """Drop the rows of these runs. Their directories must be gone, or the next rebuild brings the rows back."""
        self._write([], list(run_ids))

    def _write(self, ended: Entries, gone: RunIds) -> None:
        def write(connection: sqlite3.Connection) -> None:
            with database.writing(connection):
                connection.executemany(_SQL["forget"], [(run_id,) for run_id in gone])
                put(connection, ended)

        self._run(write)

    # Looking things up.

    def get(self, run_id: str) -> RunSummary | None:
        """The ended run of exactly this id; None when there is none."""
        found = self._select(_SQL["get"], {"run_id": run_id})
        return entry_of(found[0]) if found else None

    def find_part(self, text: str, limit: int = 20) -> RunIds:
        """The ids of ended runs with this part in them. Ids with the part at an end come first."""
        return [run_id for (run_id,) in self._select(_SQL["part"], {"text": text, "limit": limit})]

    def sessions(self) -> dict[str, tuple[int, int]]:
        """Each session with ended runs: how many they are, and when the newest was begun."""
        return {session: (count, newest_ns) for session, count, newest_ns in self._select(_SQL["sessions"], {})}

    def count(self) -> int:
        """How many ended runs there are."""
        found: int = self._select(_SQL["count"], {})[0][0]
        return found

    def sizes(self) -> Rows:
        """All ended runs, newest first: id, time of its beginning, bytes on disk, and how its tree ended."""
        return self._select(_SQL["sizes"], {})

    def timings(self, since_ns: int, until_ns: int, limit: int) -> Rows:
        """Ended runs begun within since..until, newest first: begun, status, duration, queued at, started at."""
        parameters = {"since_ns": since_ns, "until_ns": until_ns, "limit": limit}
        return self._select(_SQL["timings"], parameters)

    def list(self, filters: Filters | None = None, limit: int = 50, cursor: str | None = None) -> SummaryPage:
        """One page of the ended runs that pass the filters, newest first. SpecError: the cursor is not one of ours."""
        rows = PageQuery(filters or Filters(), cursor).rows(self._select, limit + 1)
        entries = [entry_of(row) for row in rows[:limit]]
        more = len(rows) > limit and entries
        return SummaryPage(entries, make_cursor(entries[-1].begun_ns, entries[-1].run_id) if more else None)

    def _select(self, text: str, parameters: dict[str, Any]) -> Rows:
        return self._run(lambda connection: connection.execute(text, parameters).fetchall())

    # The file.

    def rebuild(self) -> int:
        """Make the index again from the journals, whatever its state; returns the number of runs in it."""
        try:
            with self._lock.exclusive():
                self.close()
                rebuild.rebuild(self.state)
        except sqlite3.Error as error:
            raise index_file.as_state_error(error, self.path) from None
        except OSError as error:
            raise state_error(error, self.state.path) from None
        return self.count()

    def _run(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        """Do an operation on a usable index. If the index is damaged, replace it and do the operation again.

        If the disk is full, the operation is done again with the room of the reserve.
        """
        for _ in range(4):
            try:
                for answer in self._try(operation):
                    return answer
            except sqlite3.Error as error:
                self.close()
                if not disk_reserve.release_if_full(self.state.path):
                    raise index_file.as_state_error(error, self.path) from None
            except OSError as error:
                if not disk_reserve.release_if_full(self.state.path):
                    raise state_error(error, self.state.path) from None
        raise StateError(
            f"the index {self.path} is replaced again and again", remedy="look who removes or overwrites it"
        )

    def _try(self, operation: Callable[[sqlite3.Connection], T]) -> tuple[T, ...]:
        """The answer in a tuple; an empty tuple when the index was replaced, and the operation must be repeated."""
        seen = None
        try:
            with self._lock.shared():
                seen = _identity(self.path)
                answer = operation(self._connected(seen))
                if _identity(self.path) == seen:
                    return (answer,)
            return ()  # the file was replaced meanwhile, and what we wrote is lost
        except index_file.DamagedIndexError as error:
            why = str(error)
        except sqlite3.DatabaseError as error:
            if not database.is_damage(error):
                raise
            why = f"is damaged ({error})"
        self.close()
        with self._lock.exclusive():
            if _identity(self.path) == seen:  # otherwise another process has replaced it already
                self._replace(why)
        return ()

    def _connected(self, identity: tuple[int, int] | None) -> sqlite3.Connection:
        if self._connection is None or self._identity != identity:
            self.close()
            self._connection = index_file.connect(self.path)
            self._identity = identity
        return self._connection

    def _replace(self, why: str) -> None:
        kept = rebuild.move_aside(self.path)
        made = rebuild.rebuild(self.state)
        if kept or made.known:  # otherwise there was no index yet, which is no problem
            moved = f"; it was moved to {kept}" if kept else ""
            self.warnings.append(f"the index {self.path} {why}{moved}; made again from {made.ended} journals")

    def close(self) -> None:
        """Close the file. Any method opens it again."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
