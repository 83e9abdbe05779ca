"""The lines of an adapter, with a bound on every wait."""

from __future__ import annotations

import json
import os
import select
import time
from typing import Any


class Conversation:
    """The lines of one adapter; `ended` when no more will come."""

    def __init__(self, fd: int) -> None:
        self.supervisor = 0
        self.ended = False
        self._fd = fd
        self._seen = b""
        self._ready = False
        self._answers: list[dict[str, Any]] = []

    def until_ready(self, within_s: float, *, names_supervisor: bool) -> bool:
        """Wait until the adapter is ready, and until the supervising process is known, if it matters.

        A command that stops the adapter at once may come before the name.
        """
        end = time.monotonic() + within_s
        while not (self._ready and (self.supervisor or not names_supervisor)) and self._next(end):
            pass
        return self._ready

    def answer(self, within_s: float) -> dict[str, Any] | None:
        """The next answer, or None when it does not come."""
        end = time.monotonic() + within_s
        while not self._answers and self._next(end):
            pass
        return self._answers.pop(0) if self._answers else None

    def has_answered(self, count: int) -> bool:
        """Whether this many answers have come; does not wait."""
        while self._next(0.0):
            pass
        return self.ended or len(self._answers) >= count

    def _next(self, end: float) -> bool:
        """Read the next line; False if none comes in time or ever."""
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        if not poll.poll(max(0.0, end - time.monotonic()) * 1000):
            return False
        part = os.read(self._fd, 65536)
        self.ended = not part
        *lines, self._seen = (self._seen + part).split(b"\n")
        for line in lines:
            self._take(json.loads(line))
        return not self.ended

    def _take(self, message: dict[str, Any]) -> None:
        self._ready = self._ready or "ready" in message
        self.supervisor = message.get("supervisor", self.supervisor)
        if "answer" in message:
            self._answers.append(message["answer"])
