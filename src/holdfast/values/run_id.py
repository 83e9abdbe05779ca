"""Run ids, which sort by time and are safe file names."""

from __future__ import annotations

import os
import time

from .errors import SpecError
from .fields import short

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # of new ids: Crockford's, without i, l, o and u
_SHORT = 6  # a thousand million ends: two runs of one list hardly ever share one
_IN_MARK = 40  # so much of the id is in a mark, for people who look at the environment
_SHIFTS = tuple(range(45, -1, -5))
_CHARACTER_OF_BYTE = ALPHABET.encode() * 8
_ALLOWED = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_-")


def new_run_id() -> str:
    """A fresh id: 10 characters of milliseconds, then 10 random ones; ids sort by time."""
    millis = time.time_ns() // 1_000_000
    begin = "".join([ALPHABET[millis >> shift & 31] for shift in _SHIFTS])
    return begin + os.urandom(10).translate(_CHARACTER_OF_BYTE).decode()


def short_id(run_id: str) -> str:
    """The end of an id that Holdfast made, which is enough to name the run; an id that a user chose, as it is."""
    made = len(run_id) == 20 and set(ALPHABET).issuperset(run_id)
    return run_id[-_SHORT:] if made else run_id


def new_mark(run_id: str) -> str:
    """A mark of a run whose id the caller chose: no other run has it, in whatever state directory."""
    return f"{run_id[:_IN_MARK]}-{os.urandom(8).hex()}"


def check_run_id(text: str, *, field: str = "run_id") -> str:
    """Return this id if it is a safe file name. SpecError: it is not."""
    safe = isinstance(text, str) and 1 <= len(text) <= 64 and text[0] not in "_-" and _ALLOWED.issuperset(text)
    if not safe:
        remedy = "use 1 to 64 of a-z, 0-9, _ and -, beginning with a letter or digit"
        raise SpecError(f"{field} {short(text)} is not a run id", field=field, remedy=remedy)
    return text
