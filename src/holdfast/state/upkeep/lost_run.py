"""Finishing a lost run, and a sentence about what became of its processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import recovery
from ..record import RunRecord

if TYPE_CHECKING:
    from ..directory import StateDirectory


def finish(state: StateDirectory, run_id: str) -> tuple[bool, str]:
    """Write the end of a run whose guard is gone. Returns whether all its processes are gone, and a sentence.

    HoldfastError, OSError: the record cannot be finished.
    """
    recovered = recovery.finish(state, run_id)
    if recovered is None:
        with RunRecord(state, run_id) as record:
            ended = record.read().reader.ended
        return (
            ended,
            "another process finished it" if ended else "its guard is there, or another process is finishing it",
        )
    damage = "" if recovered.damage is None else f"; its journal was damaged, and is kept as {recovery.DAMAGED}"
    if recovered.how == "survivors":
        pids = ", ".join(map(str, recovered.survivors))
        return False, f"its end is on record, but process {pids} is still alive{damage}"
    seen = "all its processes are gone" if recovered.how == "gone" else "no process with its mark is left"
    return True, f"its end is on record; {seen}{damage}"
