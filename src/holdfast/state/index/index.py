"""The history of a state directory: every ended run in one SQLite file, made from the journals and from nothing else.

Catching up. A run's mark is in `live` until its end is here. `refresh` reads the marked runs, finishes those whose
guard is gone, writes those that ended in one transaction, and takes their marks only after the commit. A crash in
between does it again; two at once do the same thing twice. So nothing that starts or ends a run waits for this file.

Replacing. An index that is missing, damaged or not ours is moved aside and made again, aside too, then renamed into its
place. SQLite must not be working on a file that changes its name, so every operation holds `index.lock` shared, and
replacing holds it exclusively; each operation first compares the file's identity with the one it has open. Whoever
committed to the old file while a new one was made reads that the file is another one, and does it again, before it
takes any mark out of `live`.
"""

from __future__ import annotations

import os
import sqlite3
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from ...sqlite import database
from ...values.errors import ResourceError, StateError
from .. import removal, run_directory
from ..directory import StateDirectory, state_error
from ..file_lock import FileLock
from . import index_file, rebuild
from .page_query import PageQuery, make_cursor
from .queries import STATEMENTS as _SQL
from .summary import Filters, RunSummary, newest_first, read_summary
from .summary_rows import entry_of, put

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType
    from typing import Self

T = TypeVar("T")
# `list` is a method below, and within the class it would be taken for the type.
Entries: TypeAlias = list[RunSummary]
RunIds: TypeAlias = list[str]
Rows: TypeAlias = list[Any]
_BATCH = 500  # runs per transaction: bounds memory and how long other writers wait


class SummaryPage(NamedTuple):
    """Some of the runs, newest first, and the cursor that continues after them; None at the end."""

    entries: list[RunSummary]
    cursor: str | None


class Index:
    """An open index. What it had to do about a broken one is in `warnings`, for whoever talks to people.

    StateError from every method: the index cannot be used now (no space, no permission, busy). StateVersionError: it is
    a newer Holdfast's.
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
        """Open the index of this state directory, making it from the journals when it has none that is usable."""
        index = cls(state)
        index._run(lambda _connection: None)
        return index

    # Catching up.

    def refresh(self) -> Entries:
        """Take in every run that ended since; returns those that have not, or cannot be read, newest first."""
        live: Entries = []
        run_ids = iter(self.state.live_ids())
        while batch := list(islice(run_ids, _BATCH)):
            live += self._take_in(batch)
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
            self._write(ended, missing)
        # One that was removed while we read it: its row may have been dropped before ours was written. One that is
        # removed from here on is dropped after ours.
        if removed := [entry.run_id for entry in ended if self.state.is_missing(entry.run_id)]:
            self._write([], removed)
        for entry in ended:
            # Without its mark nobody would look for anything it left. One whose guard is going is taken in again later.
            if run_directory.drop_socket(self.state.run_path(entry.run_id)):
                self.state.unmark_live(entry.run_id)
        for run_id in [*missing, *removed]:
            removal.finish(self.state, run_id)
        return [entry for entry in found.values() if entry is not None and not entry.final]

    def forget(self, run_ids: Iterable[str]) -> None:
        """Drop these rows. For runs whose directory is gone; a rebuild brings back all others."""
        self._write([], list(run_ids))

    def _write(self, ended: Entries, gone: RunIds) -> None:
        def write(connection: sqlite3.Connection) -> None:
            with database.writing(connection):
                connection.executemany(_SQL["forget"], [(run_id,) for run_id in gone])
                put(connection, ended)

        self._run(write)

    # Looking things up.

    def get(self, run_id: str) -> RunSummary | None:
        """The ended run of exactly this id."""
        found = self._select(_SQL["get"], {"run_id": run_id})
        return entry_of(found[0]) if found else None

    def find_prefix(self, text: str, limit: int = 20) -> RunIds:
        """The ids of ended runs that begin with this text."""
        parameters = {"low": text, "high": text + "\U0010ffff", "limit": limit}
        return [run_id for (run_id,) in self._select(_SQL["prefix"], parameters)]

    def sessions(self) -> dict[str, tuple[int, int]]:
        """Each session with ended runs: how many, and when the newest was begun."""
        return {session: (count, newest_ns) for session, count, newest_ns in self._select(_SQL["sessions"], {})}

    def count(self) -> int:
        """How many ended runs there are."""
        found: int = self._select(_SQL["count"], {})[0][0]
        return found

    def sizes(self) -> Rows:
        """Every ended run, newest first: id, when it was begun, bytes on disk, and how its tree ended."""
        return self._select(_SQL["sizes"], {})

    def timings(self, since_ns: int, until_ns: int, limit: int) -> Rows:
        """Ended runs begun within since..until, newest first: begun, status, duration, when queued, when started."""
        parameters = {"since_ns": since_ns, "until_ns": until_ns, "limit": limit}
        return self._select(_SQL["timings"], parameters)

    def list(self, filters: Filters | None = None, limit: int = 50, cursor: str | None = None) -> SummaryPage:
        """A page of the ended runs, newest first. SpecError: the cursor is not one of ours."""
        rows = PageQuery(filters or Filters(), cursor).rows(self._select, limit + 1)
        entries = [entry_of(row) for row in rows[:limit]]
        more = len(rows) > limit and entries
        return SummaryPage(entries, make_cursor(entries[-1].begun_ns, entries[-1].run_id) if more else None)

    def _select(self, text: str, parameters: dict[str, Any]) -> Rows:
        return self._run(lambda connection: connection.execute(text, parameters).fetchall())

    # The file.

    def rebuild(self) -> int:
        """Make the index again from the journals, whatever state it is in; returns how many runs it has then."""
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
        """Do it on a usable index; one that turns out not to be is replaced, once or twice, and it is done again."""
        try:
            for _ in range(3):
                for answer in self._try(operation):
                    return answer
        except sqlite3.Error as error:
            raise index_file.as_state_error(error, self.path) from None
        except OSError as error:
            raise state_error(error, self.state.path) from None
        raise StateError(
            f"the index {self.path} is replaced again and again", remedy="look who removes or overwrites it"
        )

    def _try(self, operation: Callable[[sqlite3.Connection], T]) -> tuple[T, ...]:
        """The answer, or nothing when the index had to be replaced first."""
        seen = None
        try:
            with self._lock.shared():
                seen = _identity(self.path)
                answer = operation(self._connected(seen))
                if _identity(self.path) == seen:
                    return (answer,)
            return ()  # removed behind our back: what was written went with it
        except index_file.DamagedIndexError as error:
            why = str(error)
        except sqlite3.DatabaseError as error:
            if not database.is_damage(error):
                raise
            why = f"is damaged ({error})"
        self.close()
        with self._lock.exclusive():
            if _identity(self.path) == seen:  # otherwise somebody else was faster
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
        if kept or made.known:  # otherwise it was only not made yet
            moved = f"; it was moved to {kept}" if kept else ""
            self.warnings.append(f"the index {self.path} {why}{moved}; made again from {made.ended} journals")

    def close(self) -> None:
        """Close the file. Any method opens it again."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
