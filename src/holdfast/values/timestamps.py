"""Wall-clock times as RFC 3339 text: UTC, with microseconds, as in every report, event and log line."""

from __future__ import annotations

import time


def format_timestamp(wall_ns: int) -> str:
    """The time of a clock that counts nanoseconds since 1970, such as `2026-07-01T12:00:00.000250Z`."""
    seconds, ns = divmod(wall_ns, 1_000_000_000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{ns // 1000:06d}Z"
