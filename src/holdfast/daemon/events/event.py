"""One event of the daemon, the filter of a subscriber, and output on its way to a run.output event."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

if TYPE_CHECKING:
    import sqlite3

OUTPUT = "run.output"  # never stored: it says that a run wrote, and where to read it
RESYNC = "resync"  # never stored: it tells one client that events are missing from its stream
WAITING = "run.waiting"  # never stored: it holds only until the next look at the run
PIECE = 64 << 10  # bytes of output in one event
TYPES = ("run.queued", "run.started", OUTPUT, WAITING, "run.verdict", "run.settled", "service.shutdown")


class LoggedEvent(NamedTuple):
    """A published event. `data` is JSON; `id` is None if it is not stored; `frame` is its bytes in an event stream."""

    id: int | None
    type: str
    run_id: str | None
    session: str | None
    data: bytes
    frame: bytes
    late: bool = False


class EventFilter(NamedTuple):
    """Which events a subscriber gets. None in a field: all events."""

    run_ids: frozenset[str] | None = None
    session: str | None = None
    types: frozenset[str] | None = None
    output: bool = False  # run.output with the bytes
    late: bool = False  # also run.output of bytes that came after the verdict

    def matches(self, event: LoggedEvent) -> bool:
        """Whether the subscriber gets this event."""
        return (
            (self.run_ids is None or event.run_id in self.run_ids)
            and (self.session is None or event.session == self.session)
            and (self.types is None or event.type in self.types)
            and (self.late or not event.late)
        )

    def may_match(self, type: str, run_id: str | None) -> bool:  # noqa: A002 - its name in the contract
        """Whether the subscriber could get an event of this type and this run."""
        return (self.types is None or type in self.types) and (
            run_id is None or self.run_ids is None or run_id in self.run_ids
        )

    def parameters(self) -> dict[str, Any]:
        """The filter as parameters of the SQL statement `page`."""
        return {
            "run_ids": None if self.run_ids is None else json.dumps(sorted(self.run_ids)),
            "session": self.session,
            "types": None if self.types is None else json.dumps(sorted(self.types)),
        }


def make_event(
    type: str,  # noqa: A002 - its name in the contract
    data: bytes,
    *,
    id: int | None = None,  # noqa: A002
    run_id: str | None = None,
    session: str | None = None,
    late: bool = False,
) -> LoggedEvent:
    """The event with its frame. A frame without an id leaves the client's last id as it is."""
    number = b"" if id is None else b"id: %d\n" % id
    frame = b"%sevent: %s\ndata: %s\n\n" % (number, type.encode(), data)
    return LoggedEvent(id, type, run_id, session, data, frame, late)


def event_of_row(row: sqlite3.Row | tuple[Any, ...]) -> LoggedEvent:
    """The event of a row that the SQL statement `page` selected."""
    number, type_, run_id, session, data = row
    return make_event(type_, data, id=number, run_id=run_id, session=session)


class PendingOutput:
    """Bytes that a run wrote since the last round. Pieces that follow each other become one event."""

    __slots__ = ("_data", "_late", "_offset", "_run_id", "_session", "_stream")

    def __init__(self, run_id: str, session: str | None, stream: str, offset: int, data: bytes, *, late: bool) -> None:
        self._run_id, self._session, self._stream = run_id, session, stream
        self._offset, self._data, self._late = offset, data, late

    def extend(self, run_id: str, stream: str, offset: int, data: bytes, *, late: bool) -> bool:
        """Add this piece if it begins where these bytes end; returns whether it does."""
        fits = len(self._data) + len(data) <= PIECE
        if (self._run_id, self._stream, self._late) != (run_id, stream, late) or not fits:
            return False
        if offset != self._offset + len(self._data):
            return False
        self._data += data
        return True

    def event(self, *, with_content: bool) -> LoggedEvent:
        """The event, with the bytes in base64 or without them."""
        told: dict[str, Any] = {"run_id": self._run_id, "stream": self._stream, "offset": self._offset}
        told |= {"length": len(self._data), "late": self._late}
        if with_content:
            told["data"] = base64.b64encode(self._data).decode()
        data = msgspec.json.encode(told)
        return make_event(OUTPUT, data, run_id=self._run_id, session=self._session, late=self._late)
