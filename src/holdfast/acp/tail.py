"""The last bytes of a stream, within a limit: what a terminal still shows."""

from __future__ import annotations

from ..values.utf8_cut import end_of_last, start_of_first


class OutputTail:
    """Keeps at most `limit` bytes, and forgets the oldest."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._bytes = bytearray()
        self._forgotten = 0

    def add(self, data: bytes) -> None:
        """Take in what follows."""
        self._bytes += data
        # Only now and then: moving the rest for every chunk would cost more than the output itself.
        if len(self._bytes) > 2 * self._limit:
            self._forget()

    def text(self, *, ended: bool) -> tuple[str, bool]:
        """What is kept, beginning and ending with whole characters, and whether something was left out.

        The end of a character may be on its way, unless the stream has `ended`.
        """
        self._forget()
        start = start_of_first(self._bytes) if self._forgotten else 0
        end = len(self._bytes) if ended else end_of_last(self._bytes)
        return self._bytes[start:end].decode("utf-8", "replace"), self._forgotten > 0

    def _forget(self) -> None:
        if (excess := len(self._bytes) - self._limit) > 0:
            del self._bytes[:excess]
            self._forgotten += excess
