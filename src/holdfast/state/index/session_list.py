"""The list of sessions: each with its live runs, its ended runs, and whether it is closed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ...values.timestamps import format_timestamp
from ..sessions import list_closed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..sessions import ClosedSession
    from .index import Index


class SessionState(NamedTuple):
    """A session in a list: how many of its runs are live, how many have ended, and whether it is closed."""

    name: str
    live: int
    ended: int
    newest_ns: int  # when its newest run was begun; 0: it has none
    closed: ClosedSession | None

    def shown(self, queued: int) -> dict[str, Any]:
        """The session as JSON: `name, queued, live, ended, closed, closed_at, reason`."""
        return {
            "name": self.name,
            "queued": queued,
            "live": self.live,
            "ended": self.ended,
            "closed": self.closed is not None,
            "closed_at": format_timestamp(self.closed.closed_at_ns) if self.closed else None,
            "reason": (self.closed.reason or None) if self.closed else None,
        }


def with_queued(found: list[SessionState], queued: Mapping[str, int]) -> list[SessionState]:
    """All sessions: first the sessions that have only queued runs, then the sessions that were found."""
    names = {session.name for session in found}
    return [*(SessionState(name, 0, 0, 0, None) for name in queued if name not in names), *found]


def list_sessions(index: Index) -> list[SessionState]:
    """All sessions that have runs or are closed; the session with the newest run first. Refreshes the index."""
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
