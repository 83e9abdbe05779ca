"""Run ids, which sort by time and are safe file names."""

from __future__ import annotations

import os
import time

from .errors import SpecError
from .fields import short

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # of new ids: Crockford's, without i, l, o and u
_ALLOWED = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_-")


def new_run_id() -> str:
    """A fresh id: 10 characters of milliseconds, then 10 random ones; ids sort by time."""
    number = (time.time_ns() // 1_000_000) << 50 | int.from_bytes(os.urandom(7), "big") >> 6
    return "".join(ALPHABET[number >> shift & 31] for shift in range(95, -1, -5))


def check_run_id(text: str, *, field: str = "run_id") -> str:
    """Return this id if it is a safe file name. SpecError: it is not."""
    safe = isinstance(text, str) and 1 <= len(text) <= 64 and text[0] not in "_-" and _ALLOWED.issuperset(text)
    if not safe:
        remedy = "use 1 to 64 of a-z, 0-9, _ and -, beginning with a letter or digit"
        raise SpecError(f"{field} {short(text)} is not a run id", field=field, remedy=remedy)
    return text
