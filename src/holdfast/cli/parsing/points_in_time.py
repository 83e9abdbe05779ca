"""Points in time on a command line: how long ago, or a date and time."""

from __future__ import annotations

import time

from ...values.durations import parse_duration
from ...values.errors import SpecError
from .options import UsageError


def since(text: str | None) -> int | None:
    """The time of `--since` in wall-clock nanoseconds; None when the user did not give it.

    A duration counts back from now. A time without a zone is local. UsageError: the text is neither.
    """
    if text is None:
        return None
    try:
        return time.time_ns() - round(parse_duration(text, field="--since") * 1e9)
    except SpecError:
        pass
    from datetime import datetime

    try:
        return round(datetime.fromisoformat(text).timestamp() * 1e9)
    except (ValueError, OverflowError, OSError):
        remedy = "write a duration such as 10m, or a time such as 2026-01-31T12:00:00Z"
        raise UsageError(f"--since {text!r} is neither a duration nor a time", remedy=remedy) from None
