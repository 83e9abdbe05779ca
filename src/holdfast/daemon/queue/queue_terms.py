"""The terms of a queued run: when it may start, before which others, and how long it may wait."""

from __future__ import annotations

from typing import NamedTuple


class QueueTerms(NamedTuple):
    """The terms as of now: `delay_s` and `expires_in_s` are what is left of them."""

    priority: int = 0
    due_ns: int = 0  # the time of day before which the run does not start
    delay_s: float = 0.0
    timeout_s: float = 0.0  # the whole queue timeout, which begins when the delay is over
    expires_in_s: float | None = None  # None: it may wait for as long as it takes
    after: tuple[str, ...] = ()  # the runs that must succeed before
