"""Pruning: remove old runs by age, by count, by size on disk; never a run with a live guard or a live process.

Order, and what a crash leaves. Each run gets its mark in `live` again. Then its directory is removed, then its row in
the index, then the mark. The mark records the intent: when the next `refresh` finds a mark without a directory, it
drops the row and the mark. So after a crash the index may have a row without a directory until the next refresh, and
there is never an unknown directory. Only runs in the index are candidates, and it has only ended runs.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from ...values.errors import HoldfastError, SpecError
from ...values.identity import ProcessIdentity, is_alive
from .. import disk_reserve, removal, run_directory
from ..record import RunRecord

if TYPE_CHECKING:
    from .index import Index

_BATCH = 200


class PruneBounds(NamedTuple):
    """The bounds of what may stay. A run is removed when any given bound says so, the oldest runs first.

    `begun_before_ns` is an age as a time of the wall clock, for a caller that knows how the clock has jumped.
    """

    age_s: float | None = None
    runs: int | None = None
    size_bytes: int | None = None
    begun_before_ns: int | None = None


class PruneCandidate(NamedTuple):
    """A run to be removed, the bytes that this frees, and which bound says so."""

    run_id: str
    disk_bytes: int
    why: str


class PruneResult(NamedTuple):
    """The removed runs, the bytes freed, and the runs that had to stay although a bound named them, with the reason."""

    removed: tuple[str, ...]
    freed_bytes: int
    kept: tuple[tuple[str, str], ...]


def plan(index: Index, bounds: PruneBounds) -> list[PruneCandidate]:
    """The runs that `prune` would remove, oldest first. SpecError: no bound is given, or a negative one."""
    if all(bound is None for bound in bounds):
        remedy = "give an age, a count or a size of what may stay"
        raise SpecError("nothing says what to prune", field="prune", remedy=remedy)
    for field, bound in bounds._asdict().items():
        if bound is not None and bound < 0 and field != "begun_before_ns":
            raise SpecError(f"{field} is negative", field=field, remedy="use 0 to keep nothing")
    oldest_ns = bounds.begun_before_ns
    if bounds.age_s is not None:
        oldest_ns = time.time_ns() - round(bounds.age_s * 1e9)
    found, total = [], 0
    for number, (run_id, begun_ns, disk_bytes, _tree) in enumerate(index.sizes()):
        total += disk_bytes
        why = _why(bounds, number, total, is_old=oldest_ns is not None and begun_ns < oldest_ns)
        if why:
            found.append(PruneCandidate(run_id, disk_bytes, why))
            total -= disk_bytes
    return found[::-1]


def prune(index: Index, bounds: PruneBounds) -> PruneResult:
    """Refresh the index, then remove the runs that the bounds name. A run that cannot be removed stops no other."""
    disk_reserve.release_if_full(index.state.path)  # to remove a run means to write names first
    index.refresh()
    return _remove(index, plan(index, bounds))


def prune_largest(index: Index, needed_bytes: int) -> PruneResult:
    """Remove the largest ended runs, until this many bytes are free."""
    disk_reserve.release_if_full(index.state.path)
    index.refresh()
    largest = sorted(index.sizes(), key=lambda row: (-row[2], row[1]))  # among equals the oldest
    found, total = [], 0
    for run_id, _begun_ns, disk_bytes, _tree in largest:
        if total >= needed_bytes:
            break
        found.append(PruneCandidate(run_id, disk_bytes, "disk"))
        total += disk_bytes
    return _remove(index, found)


def _remove(index: Index, candidates: list[PruneCandidate]) -> PruneResult:
    removed: list[str] = []
    kept: list[tuple[str, str]] = []
    freed = 0
    for first in range(0, len(candidates), _BATCH):
        batch = []
        for candidate in candidates[first : first + _BATCH]:
            try:
                if (why_not := _still_needed(index, candidate.run_id)) is not None:
                    kept.append((candidate.run_id, why_not))
                    continue
                freed += removal.begin(index.state, candidate.run_id)
                batch.append(candidate.run_id)
            except OSError as error:
                kept.append((candidate.run_id, f"it cannot be removed: {error.strerror}"))
        index.forget(batch)
        for run_id in batch:
            removal.finish(index.state, run_id)
        removed += batch
    for path in removal.find_abandoned(index.state):
        freed += run_directory.remove(path)
    return PruneResult(tuple(removed), freed, tuple(kept))


def _why(bounds: PruneBounds, number: int, total: int, *, is_old: bool) -> str | None:
    """The bound that removes this run; None when the run stays.

    `number` runs are newer. This run and the newer runs that stay have `total` bytes.
    """
    if is_old:
        return "age"
    if bounds.runs is not None and number >= bounds.runs:
        return "count"
    return "size" if bounds.size_bytes is not None and total > bounds.size_bytes else None


def _still_needed(index: Index, run_id: str) -> str | None:
    """Why this run must stay: its guard is alive, or a survivor is. None: it may be removed."""
    try:
        with RunRecord(index.state, run_id) as record:
            record.read()
            if record.guard != "gone":
                return "its guard is alive"
            tree = record.outcome.tree
            boot = (record.reader.header or {}).get("boot_id")
            for survivor in tree.detail["survivors"] if tree is not None else ():
                identity = ProcessIdentity(survivor.get("pid", 0), survivor.get("start_ticks", 0), boot)
                if is_alive(identity) is not False:
                    return f"process {identity.pid} survived it and is alive"
    except HoldfastError:
        return None  # it cannot be read; its guard is gone, because the index has only ended runs
    return None
