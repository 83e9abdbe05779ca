"""Counts of published verdicts for /metrics, by status and cause, and the delay of their events."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

DELAYS_S = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0)


class VerdictCounts:
    """Verdicts by status and cause, and how long after each verdict its event was stored."""

    def __init__(self) -> None:
        self.verdicts: Counter[tuple[str, str]] = Counter()
        self.delays = [0] * (len(DELAYS_S) + 1)  # the last counts the delays that are longer
        self.delay_sum_s = 0.0

    def verdict(self, report: Mapping[str, Any], now_s: float) -> None:
        """Count the verdict of this report, whose event is stored now."""
        self.verdicts[str(report.get("status")), str(report.get("cause"))] += 1
        if (given := report.get("verdict_at")) is not None:
            delay = max(0.0, now_s - seconds_of(given))
            self.delays[bisect_left(DELAYS_S, delay)] += 1
            self.delay_sum_s += delay


def seconds_of(when: str) -> float:
    """An RFC 3339 time as seconds since 1970."""
    return datetime.fromisoformat(when).timestamp()
