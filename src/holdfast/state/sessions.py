"""Sessions: close one, so that it refuses later starts and all its runs end; and open it again.

The protocol. The closer first makes the mark (`STATE/sessions/NAME`), then lists the live runs. A starter first makes
the run's directory, which puts it on the list, and then looks for the mark (`check_open`). In whatever order these four
steps happen, one side sees the other: if the starter does not see the mark, the closer sees the run.

A session is closed until somebody opens it again. The opener removes the mark, but only when no run of the session is
live. So no run that the closer saw goes on in the open session: the run is gone before the mark is. A start that nobody
listed has no directory yet when the mark disappears; it counts as a start after the opening.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, NamedTuple

from ..values.errors import HoldfastError, SessionClosedError
from .directory import StateDirectory, state_error
from .owned_files import write_atomically
from .session_names import BUDGET_ENDING, file_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .parallel_stop import StopResult


class ClosedSession(NamedTuple):
    """A closed session: it takes no more runs."""

    name: str
    closed_at_ns: int
    reason: str


class SessionClosing(NamedTuple):
    """The result of closing a session: a result for each live run, and a sentence for each run that cannot be read."""

    session: str
    runs: tuple[StopResult, ...]
    problems: tuple[str, ...]

    def run_ids(self, how: str) -> list[str]:
        """The ids of the runs that ended like this: `confirmed`, `survivors` or `unknown`."""
        return [run.run_id for run in self.runs if run.how == how]


def is_closed(state: StateDirectory, session: str) -> bool:
    """Whether the session takes no more runs."""
    return os.path.exists(os.path.join(state.sessions_path, file_name(session)))


def has_budget(state: StateDirectory, session: str) -> bool:
    """Whether the session has a budget (session_budget.py)."""
    return os.path.exists(os.path.join(state.sessions_path, file_name(session) + BUDGET_ENDING))


def check_open(state: StateDirectory, session: str | None, run_id: str) -> None:
    """Refuse a start in a closed session; called *after* the run directory is made.

    SessionClosedError: the session is closed. The caller then discards the run.
    """
    if session is not None and is_closed(state, session):
        raise SessionClosedError(
            f"the session {session!r} is closed and takes no more runs",
            run_id=run_id,
            remedy=f"use another session name, or open it again: {_open_command(session)}",
        )


def list_closed(state: StateDirectory) -> list[ClosedSession]:
    """All closed sessions, the latest first. If a mark cannot be read, its file name stands for the session's name."""
    try:
        # `.new`: a mark that is being written, or whose writer died.
        names = [name for name in os.listdir(state.sessions_path) if not name.endswith((".new", BUDGET_ENDING))]
    except OSError as error:
        raise state_error(error, state.sessions_path) from None
    found = [_read_mark(os.path.join(state.sessions_path, name), name) for name in names]
    return sorted(found, key=lambda session: session.closed_at_ns, reverse=True)


def mark_closed(state: StateDirectory, session: str, reason: str = "") -> None:
    """Mark a session as closed, which refuses later starts. An existing mark stays. StateError: no mark is made."""
    path = os.path.join(state.sessions_path, file_name(session))
    if os.path.exists(path):
        return
    text = f"{time.time_ns()}\n{session}\n{' '.join(reason.split())}\n"
    try:
        write_atomically(path, text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise state_error(error, state.path) from None


def close(
    state: StateDirectory, session: str, *, reason: str = "", now: bool = False, grace_s: float | None = None
) -> SessionClosing:
    """Close the session and stop its runs, newest first. Returns when each run is over, or its bound has passed.

    Closing a closed session again stops the runs that are still live. StateError: the mark could not be made, and no
    run was stopped.
    """
    from .parallel_stop import stop_all

    mark_closed(state, session, reason)
    run_ids, problems = live_runs(state, session)
    runs = stop_all(state, run_ids, cause="session", reason=reason, now=now, grace_s=grace_s)
    from .session_budget import forget_table

    forget_table(state, session)
    return SessionClosing(session, tuple(runs), tuple(problems))


def open_again(state: StateDirectory, session: str) -> bool:
    """Open a closed session, which takes runs again; False when it was not closed.

    SessionClosedError: runs of the session are still live, so it stays closed. StateError: the mark cannot be removed.
    """
    if not is_closed(state, session):
        return False
    if run_ids := live_runs(state, session)[0]:
        number = f"{len(run_ids)} of its runs {'is' if len(run_ids) == 1 else 'are'} still live"
        raise SessionClosedError(
            f"the session {session!r} stays closed: {number} (the newest is {run_ids[0]})",
            remedy="end them first: holdfast reap --session NAME",
        )
    try:
        os.unlink(os.path.join(state.sessions_path, file_name(session)))
    except FileNotFoundError:
        return False  # another process has just opened it
    except OSError as error:
        raise state_error(error, state.path) from None
    return True


def live_runs(state: StateDirectory, session: str) -> tuple[list[str], list[str]]:
    """The ids of the session's live runs, newest first, and a sentence for each run that cannot be read."""
    from .record import RunRecord

    found, problems = [], []
    for run_id in state.live_ids():
        try:
            with RunRecord(state, run_id) as record:
                record.read()
                asked = record.reader.spec or {}
                if asked.get("session") == session and not record.reader.ended:
                    found.append((record.begun_ns, run_id))
        except HoldfastError as error:
            if state.has(run_id):  # otherwise the run is being made, and its starter will see the mark; or it is gone
                problems.append(str(error))
        except OSError as error:
            problems.append(str(state_error(error, state.run_path(run_id), run_id)))
    return [run_id for _, run_id in sorted(found, reverse=True)], problems


def counts(runs: Iterable[StopResult]) -> dict[str, int]:
    """How many of these runs ended `confirmed`, with `survivors`, or `unknown`."""
    found = {"confirmed": 0, "survivors": 0, "unknown": 0}
    for run in runs:
        found[run.how] += 1
    return found


def _open_command(session: str) -> str:
    from shlex import quote  # here, because few starts are refused

    return f"holdfast session --open {quote(session)}"


def _read_mark(path: str, name: str) -> ClosedSession:
    try:
        with open(path, encoding="utf-8") as file:
            at_ns, session, reason = file.read(8192).split("\n")[:3]
        return ClosedSession(session, int(at_ns), reason)
    except (OSError, ValueError):
        return ClosedSession(name, 0, "")
