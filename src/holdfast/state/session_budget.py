"""The budget of a session: how much memory and how many processes all its runs may use together.

    STATE/sessions/NAME.budget       the budget, as the user set it
    /dev/shm/holdfast-UID/TABLE      what each run of the session uses now: one table for each session with a budget

A start in such a session takes a place in the table and gives it to the guard. The guard writes there what its tree
uses, adds up the table, and ends its run if the session uses too much and this run uses most (native/session_budget.c).
So no daemon is needed. The table is in memory, because a guard must never wait for a disk.

Races. A place is taken by locking its first byte. The lock belongs to the open file, which the guard inherits, so the
place is free when the last process of the guard is gone. A table is removed only when no place is taken, and a start
looks again, after it has its place, whether the table still has its name.
"""

from __future__ import annotations

import json
import os
import time
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from ..values.errors import StateError
from .byte_lock import is_locked, lock
from .directory import state_error
from .enclosing_runs import enclosing_sessions
from .owned_files import open_directory, open_or_create, write_atomically
from .session_names import BUDGET_ENDING, file_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..values.spec import RunSpec
    from .directory import StateDirectory

_MEMORY = "/dev/shm"
_ENTRY = Struct("=4Q")  # struct session_entry: memory, processes, when the guard looked, state
_ENTRIES = 256
_LOOKS, _PAUSE_S = 20, 0.01


class SessionBudget(NamedTuple):
    """The budget of a session; None: no limit."""

    memory_bytes: int | None = None
    pids: int | None = None


class SessionUsage(NamedTuple):
    """What the runs of a session use together now, as far as their guards have written it down."""

    runs: int
    memory_bytes: int
    processes: int


def budget_of(state: StateDirectory, session: str) -> SessionBudget | None:
    """The budget of this session; None: it has none. StateError: the budget cannot be read."""
    path = _record_path(state, session)
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
        return SessionBudget(found["memory_bytes"], found["pids"])
    except FileNotFoundError:
        return None
    except OSError as error:
        raise state_error(error, path) from None
    except (ValueError, LookupError, TypeError):
        raise StateError(f"the budget in {path} cannot be read", remedy="set it again: holdfast session") from None


def set_budget(state: StateDirectory, session: str, budget: SessionBudget | None) -> None:
    """Set or remove the budget. Runs that are live in a session with a budget have the new one at once."""
    path = _record_path(state, session)
    try:
        if budget is None:
            os.unlink(path)
        else:
            write_atomically(path, json.dumps({"session": session, **budget._asdict()}).encode())
    except FileNotFoundError:
        pass  # there was none
    except OSError as error:
        raise state_error(error, path) from None
    if os.path.exists(table := _table_path(state, session)):
        with _Table(table) as opened:
            opened.put_budget(budget or SessionBudget())
    forget_table(state, session)


def usage_of(state: StateDirectory, session: str) -> SessionUsage:
    """What the session uses now; only runs that were started after it had a budget are counted."""
    if not os.path.exists(path := _table_path(state, session)):
        return SessionUsage(0, 0, 0)
    with _Table(path) as table:
        taken = [entry for _, entry in table.taken()]
    return SessionUsage(len(taken), sum(entry[0] for entry in taken), sum(entry[1] for entry in taken))


def take_place(state: StateDirectory, spec: RunSpec) -> int:
    """The descriptor for the guard of a run whose session has a budget, with a place of the run's own; -1: no budget.

    The caller closes it. A run inside another run of the same session has no place: its processes are counted there.
    Processes in a container, or of another program, are not below the guard and not counted. StateError: no place is
    free, or there is no memory to share.
    """
    session = spec.session
    if session is None or spec.in_container is not None or spec.foreign is not None:
        return -1
    budget = budget_of(state, session)
    if budget is None or session in enclosing_sessions(state.path):
        return -1
    path = _table_path(state, session)
    try:
        _make_directory(os.path.dirname(path))
        while (fd := _place_in(path, budget, spec.run_id)) < 0:
            pass  # the table was removed while we took the place
    except OSError as error:
        remedy = "holdfast session NAME --no-budget removes the budget"
        what = f"the budget of session {session!r} cannot be kept: {path}: {error.strerror}"
        raise StateError(what, run_id=spec.run_id, remedy=remedy) from None
    return fd


def forget_table(state: StateDirectory, session: str) -> None:
    """Remove the table of a session, unless a run has a place in it for longer than a moment."""
    path = _table_path(state, session)
    try:
        os.stat(path)  # or else it would be made
        with _Table(path) as table:
            for _ in range(_LOOKS):
                if not any(table.taken()):
                    os.unlink(path)
                    return
                time.sleep(_PAUSE_S)  # a guard exits shortly after the end of its run, and there is no event for it
    except (OSError, StateError):
        pass  # it is not there, or not ours; memory is empty after a restart of the host


def _place_in(path: str, budget: SessionBudget, run_id: str) -> int:
    with _Table(path) as table:
        place = table.take()
        if place is None:
            remedy = "wait until some have ended"
            raise StateError(f"{_ENTRIES - 1} runs share this budget already", run_id=run_id, remedy=remedy)
        table.put_budget(budget)
        if not table.has_its_name():
            return -1
        os.lseek(table.fd, place * _ENTRY.size, os.SEEK_SET)  # the guard reads its place from this
        return os.dup(table.fd)


class _Table:
    """An open table, made when it is missing. Use as a context manager."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.fd = open_or_create(path, os.O_RDWR)
        if os.fstat(self.fd).st_size < _ENTRIES * _ENTRY.size:
            os.ftruncate(self.fd, _ENTRIES * _ENTRY.size)

    def put_budget(self, budget: SessionBudget) -> None:
        os.pwrite(self.fd, _ENTRY.pack(budget.memory_bytes or 0, budget.pids or 0, 0, 0), 0)

    def take(self) -> int | None:
        for place in range(1, _ENTRIES):
            if lock(self.fd, place * _ENTRY.size):
                os.pwrite(self.fd, _ENTRY.pack(0, 0, 0, 0), place * _ENTRY.size)  # of a run that is over
                return place
        return None

    def taken(self) -> Iterator[tuple[int, tuple[int, int, int, int]]]:
        """The places that runs have, each with its entry."""
        data = os.pread(self.fd, _ENTRIES * _ENTRY.size, 0)
        for place, entry in enumerate(_ENTRY.iter_unpack(data[: len(data) // _ENTRY.size * _ENTRY.size])):
            if place > 0 and is_locked(self.fd, place * _ENTRY.size):
                yield place, entry

    def has_its_name(self) -> bool:
        try:
            return os.path.samestat(os.stat(self._path), os.fstat(self.fd))
        except FileNotFoundError:
            return False

    def __enter__(self) -> _Table:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)


def _record_path(state: StateDirectory, session: str) -> str:
    return os.path.join(state.sessions_path, file_name(session) + BUDGET_ENDING)


def _table_path(state: StateDirectory, session: str) -> str:
    found = os.stat(state.path)
    name = f"{found.st_dev:x}-{found.st_ino:x}-{file_name(session)}"
    return os.path.join(_MEMORY, f"holdfast-{os.geteuid()}", name[:250])


def _make_directory(path: str) -> None:
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        pass
    os.close(open_directory(path))  # StateError: another user has made it
