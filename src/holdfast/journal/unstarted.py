"""The facts of a run that never started: what decided it, and then the end of a run that wrote and used nothing.

A stop can come before the start, a wait in the queue can last too long, and a start can fail for good. No guard exists
then, so the facts are made here. They are the facts a guard would have recorded: a reader sees no difference.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from .beginning import beginning
from .codec import encode_fact
from .facts import make_fact

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..values.spec import RunSpec
    from .facts import Fact

_NO_OUTPUT = {"how": "eof", "stdout_bytes": 0, "stderr_bytes": 0, "late_bytes": 0, "dropped_bytes": 0}
_NO_TREE = {"how": "gone", "count": 0, "survivors": ()}
_NO_USAGE = {"user_us": 0, "system_us": 0, "max_rss_kib": 0}


class Ending(NamedTuple):
    """The decisive fact of a run that never started."""

    kind: str
    detail: Mapping[str, Any]


def expired(limit_s: float) -> Ending:
    """The ending of a run that waited in the queue for longer than its limit."""
    return Ending("queue_expired", {"limit_ns": round(limit_s * 1e9)})


def stopped(cause: str, reason: str) -> Ending:
    """The ending of a run that this process ends before its start, on request."""
    detail = {"cause": cause, "signal": 0, "by_pid": os.getpid(), "by_uid": os.getuid(), "reason": reason or None}
    return Ending("stop_asked", detail)


def signalled(number: int) -> Ending:
    """The ending of a run before whose start this process got a signal to stop; the sender is not known."""
    return Ending("stop_asked", {"cause": "user", "signal": number, "by_pid": 0, "by_uid": 0, "reason": None})


def not_started(error: int, step: str = "setup") -> Ending:
    """The ending of a run that could not be started; the last attempt failed in this step, with this errno."""
    return Ending("spawn_failed", {"step": step, "error": error})


def facts_of(ending: Ending) -> tuple[Fact, ...]:
    """All facts of the run, as of now."""
    at_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    details = ((ending.kind, ending.detail), ("drained", _NO_OUTPUT), ("tree", _NO_TREE), ("end", _NO_USAGE))
    return tuple(make_fact(kind, at_ns, **detail) for kind, detail in details)


def journal_of(spec: RunSpec, ending: Ending) -> bytes:
    """The whole journal of the run."""
    begun = beginning(spec)  # first: no fact is older than the journal
    frames = [encode_fact(fact.kind, fact.detail, at_ns=fact.at_ns) for fact in facts_of(ending)]
    return begun + b"".join(frames)
