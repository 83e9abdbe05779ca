"""Queued runs in the order of lists, the newest first, for pages that begin anywhere.

A page costs as much as it shows, however many runs are queued: the place is found by bisection, and reports are made
only for the runs that are shown.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .scheduled_run import ScheduledRun

Place = tuple[int, str]  # when the run was queued, and its id


class QueueOrder:
    """The places of the queued runs, of all of them and of each session."""

    def __init__(self) -> None:
        self._places: list[Place] = []
        self._of_session: dict[str, list[Place]] = {}

    def add(self, scheduled: ScheduledRun) -> None:
        """Give the run its place."""
        place = place_of(scheduled)
        insort(self._places, place)  # nearly always at the end
        if scheduled.spec is not None and scheduled.spec.session is not None:
            insort(self._of_session.setdefault(scheduled.spec.session, []), place)

    def discard(self, scheduled: ScheduledRun) -> None:
        """Take the run out, if it is there. Call it while the run still has its spec."""
        session = None if scheduled.spec is None else scheduled.spec.session
        if scheduled.queue_place is None or not _remove(self._places, scheduled.queue_place) or session is None:
            return
        _remove(self._of_session[session], scheduled.queue_place)
        if not self._of_session[session]:
            del self._of_session[session]

    def after(self, place: Place | None, session: str | None = None) -> Iterator[Place]:
        """The places that come after this one in lists, of this session: the older ones, the newest of them first."""
        places = self._places if session is None else self._of_session.get(session, [])
        at = len(places) if place is None else bisect_left(places, place)
        while at > 0:
            at -= 1
            yield places[at]


def _remove(places: list[Place], place: Place) -> bool:
    at = bisect_left(places, place)
    is_there = at < len(places) and places[at] == place
    if is_there:
        del places[at]
    return is_there


def place_of(scheduled: ScheduledRun) -> Place:
    """The place of a queued run in lists."""
    if scheduled.queue_place is None:
        queued_at = None if scheduled.spec is None else scheduled.spec.queued_at
        queued_ns = 0 if queued_at is None else round(datetime.fromisoformat(queued_at).timestamp() * 1e6) * 1000
        scheduled.queue_place = (queued_ns, scheduled.run_id)
    return scheduled.queue_place
