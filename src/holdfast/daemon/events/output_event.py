"""What a run wrote, on its way to becoming a run.output event. Pieces that follow each other become one event."""

from __future__ import annotations

import base64
from typing import Any

import msgspec

from .event import OUTPUT, LoggedEvent, make

PIECE = 64 << 10  # bytes of output in one event


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
        return make(OUTPUT, data, run_id=self._run_id, session=self._session, late=self._late)
