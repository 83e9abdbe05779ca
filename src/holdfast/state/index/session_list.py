"""The list of sessions: each with its live runs, its ended runs, and whether it is closed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..sessions import list_closed

if TYPE_CHECKING:
    from ..sessions import ClosedSession
    from .index import Index


class SessionState(NamedTuple):
    """A session as lists show it: how many of its runs live, how many have ended, and whether it is closed."""

    name: str
    live: int
    ended: int
    newest_ns: int  # when its newest run was begun; 0: it had none
    closed: ClosedSession | None


def list_sessions(index: Index) -> list[SessionState]:
    """Every session that has runs or is closed, the one with the newest run first. Brings the index up to date."""
    live: dict[str, list[int]] = {}
    for entry in index.refresh():
        if isinstance(name := entry.report.get("session"), str):
            live.setdefault(name, []).append(entry.begun_ns)
    ended = index.sessions()
    closed = {session.name: session for session in list_closed(index.state)}
    found = []
    for name in {*live, *ended, *closed}:
        count, newest_ns = ended.get(name, (0, 0))
        begun = live.get(name, [])
        found.append(SessionState(name, len(begun), count, max([newest_ns, *begun]), closed.get(name)))
    return sorted(found, key=lambda session: (session.newest_ns, session.name), reverse=True)
