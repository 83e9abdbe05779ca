"""The option `--grace` of commands that end runs: a grace of the request's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...values.durations import parse_duration
from .options import Option

if TYPE_CHECKING:
    from .options import CommandLine

GRACE = Option("--grace", "DURATION", "SIGKILL after this time at most; it never makes the run's grace longer")


def grace_of(given: CommandLine) -> float | None:
    """The given grace in seconds, or None. SpecError: it is not a duration."""
    text = given.last("--grace")
    return None if text is None else parse_duration(text, field="--grace")
