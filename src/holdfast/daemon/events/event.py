"""One event as it was published, and who takes an event_filter in it."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

if TYPE_CHECKING:
    import sqlite3

OUTPUT = "run.output"  # never stored: it says that there is something to read, and where
RESYNC = "resync"  # never stored: it says to one client that events are missing from its stream
WAITING = "run.waiting"  # never stored: what was seen at a look, and is different at the next
PIECE = 64 << 10  # bytes of output in one event
TYPES = ("run.queued", "run.started", OUTPUT, WAITING, "run.verdict", "run.settled", "service.shutdown")


class LoggedEvent(NamedTuple):
    """`data` is JSON; `id` is None when it is not stored; `frame` is the event as bytes of an event stream."""

    id: int | None
    type: str
    run_id: str | None
    session: str | None
    data: bytes
    frame: bytes
    late: bool = False


class EventFilter(NamedTuple):
    """Which events a subscriber takes. None: all of them."""

    run_ids: frozenset[str] | None = None
    session: str | None = None
    types: frozenset[str] | None = None
    output: bool = False  # run.output with what was written
    late: bool = False  # run.output of what was written after the verdict, too

    def matches(self, event: LoggedEvent) -> bool:
        """Whether this is one of them."""
        return (
            (self.run_ids is None or event.run_id in self.run_ids)
            and (self.session is None or event.session == self.session)
            and (self.types is None or event.type in self.types)
            and (self.late or not event.late)
        )

    def may_match(self, type: str, run_id: str | None) -> bool:  # noqa: A002 - its name in the contract
        """Whether one of this type, and of this run, could be one of them."""
        return (self.types is None or type in self.types) and (
            run_id is None or self.run_ids is None or run_id in self.run_ids
        )

    def parameters(self) -> dict[str, Any]:
        """The same as parameters of the SQL."""
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
    """The event with its frame. One without an id leaves the client's last id as it is."""
    number = b"" if id is None else b"id: %d\n" % id
    frame = b"%sevent: %s\ndata: %s\n\n" % (number, type.encode(), data)
    return LoggedEvent(id, type, run_id, session, data, frame, late)


def event_of_row(row: sqlite3.Row | tuple[Any, ...]) -> LoggedEvent:
    """The event of a row as `page` selects it."""
    number, type_, run_id, session, data = row
    return make_event(type_, data, id=number, run_id=run_id, session=session)


class PendingOutput:
    """What a run wrote since the last round."""

    __slots__ = ("_data", "_late", "_offset", "_run_id", "_session", "_stream")

    def __init__(self, run_id: str, session: str | None, stream: str, offset: int, data: bytes, *, late: bool) -> None:
        self._run_id, self._session, self._stream = run_id, session, stream
        self._offset, self._data, self._late = offset, data, late

    def extend(self, run_id: str, stream: str, offset: int, data: bytes, *, late: bool) -> bool:
        """Take it in when it goes on where this one ends."""
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
