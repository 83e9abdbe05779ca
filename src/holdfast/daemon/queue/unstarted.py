"""A run that ended in the queue: it gets a directory with a finished journal, like every other run.

So history, reports and the command line need to know nothing of the queue: there is one kind of record. The directory
appears whole, with its end in it, or not at all; a crash before that leaves the run queued, one after it leaves a row
whose run has a directory, which says that the run is over.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from ...journal.beginning import beginning
from ...journal.codec import encode_fact
from ...projections.report import report as project
from ...state import run_directory
from ...state.directory import state_error
from ...values.errors import RunExistsError
from ...values.spec import public_spec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...state.directory import StateDirectory
    from ...values.spec import RunSpec

_NOTHING_WRITTEN = {"how": "eof", "stdout_bytes": 0, "stderr_bytes": 0, "late_bytes": 0, "dropped_bytes": 0}
_NO_USAGE = {"user_us": 0, "system_us": 0, "max_rss_kib": 0}


class Ending(NamedTuple):
    """The decisive fact of a run that was never started."""

    kind: str
    detail: Mapping[str, Any]


def expired(limit_s: float) -> Ending:
    """It waited for longer than it may."""
    return Ending("queue_expired", {"limit_ns": round(limit_s * 1e9)})


def stopped(cause: str, reason: str) -> Ending:
    """Somebody asked for its end before it began."""
    detail = {"cause": cause, "signal": 0, "by_pid": os.getpid(), "by_uid": os.getuid(), "reason": reason}
    return Ending("stop_asked", detail)


def not_started(error: int) -> Ending:
    """It could not be started, again and again."""
    return Ending("spawn_failed", {"step": "setup", "error": error})


def record(state: StateDirectory, spec: RunSpec, ending: Ending) -> None:
    """Put it on record; nothing to do when that was done before. StateError: it cannot be written, and nothing is."""
    begun = beginning(spec)
    at_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    facts = [
        (ending.kind, ending.detail),
        ("drained", _NOTHING_WRITTEN),
        ("tree", {"how": "gone", "count": 0, "survivors": ()}),
        ("end", _NO_USAGE),
    ]
    frames = b"".join(encode_fact(kind, detail, at_ns=at_ns) for kind, detail in facts)
    try:
        prepared = run_directory.prepare(state, spec, begun + frames)
    except RunExistsError:
        if state.has(spec.run_id):
            return
        raise  # somebody is making a run of this id
    try:
        os.fsync(prepared.journal)
        os.unlink(os.path.join(prepared.path, run_directory.SOCKET))  # there never is a guard to talk to
    except OSError as error:
        raise state_error(error, prepared.path, spec.run_id) from None
    finally:
        prepared.close()


def queued_report(spec: RunSpec) -> dict[str, Any]:
    """The report of a run that waits to be started."""
    return {**project(None, public_spec(spec), ()), "run_id": spec.run_id, "state": "queued"}
