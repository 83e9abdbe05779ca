"""A parser of server-sent events: bytes in, events out. It skips what it cannot read, as the format demands."""

from __future__ import annotations

import json

from .answers import Event


class EventParser:
    """Parses a stream that comes in pieces of any size. A reconnect needs `last_id` and `retry_s`."""

    def __init__(self, last_id: str | None = None) -> None:
        self.last_id = last_id
        self.retry_s: float | None = None
        self._rest = b""
        self._type = ""
        self._id: str | None = None
        self._data: list[str] = []

    def feed(self, data: bytes) -> list[Event]:
        """The events that these bytes complete."""
        # A line ends with CR, LF or both; a CR at the very end may be the first half of a CR LF.
        text = (self._rest + data).replace(b"\r\n", b"\n")
        self._rest, found = b"", []
        if text.endswith(b"\r"):
            text, self._rest = text[:-1], b"\r"
        *lines, rest = text.replace(b"\r", b"\n").split(b"\n")
        self._rest = rest + self._rest
        for line in lines:
            if line:
                self._field(line.decode("utf-8", "replace"))
            elif (event := self._dispatch()) is not None:
                found.append(event)
        return found

    def _field(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._type = value
        elif name == "id" and "\0" not in value:
            self._id = value
        elif name == "retry" and value.isascii() and value.isdigit():
            self.retry_s = int(value) / 1000

    def _dispatch(self) -> Event | None:
        kind, data, own_id = self._type, "\n".join(self._data), self._id
        self._type, self._data, self._id = "", [], None
        if own_id is not None:
            self.last_id = own_id or None
        if not data:
            return None
        try:
            value = json.loads(data)
        except (ValueError, RecursionError):
            value = None
        return Event(own_id, kind or "message", value) if isinstance(value, dict) else None


def missed() -> Event:
    """The event for a connection that broke before its first event: any number of events may be missing."""
    return Event(None, "resync", {"reason": "reconnected", "hint": "list the runs again", "last_id": None})
