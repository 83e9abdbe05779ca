"""Repairs: carry out what the examination planned, and confirm that it is done.

Each repair first checks again, because things may have changed since the examination. A repair that fails is reported,
and does not stop the next one.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from ..guard import leaves
from ..state import owner_lock, removal, run_directory
from ..state.index.index import Index
from ..state.upkeep import lost_run, orphans, stale_socket
from ..state.upkeep.guard_census import GuardCensus
from ..values.errors import HoldfastError
from .finding import RepairResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..state.directory import StateDirectory
    from .finding import PlannedRepair

_log = logging.getLogger("holdfast")


def carry_out(state: StateDirectory | None, repairs: Iterable[PlannedRepair]) -> list[RepairResult]:
    """Carry out these repairs, one result each. At the end the index is refreshed, so that it has the finished runs."""
    done = [_carry_out(state, repair) for repair in repairs]
    if state is not None:
        _refresh(state)
    return done


def _carry_out(state: StateDirectory | None, repair: PlannedRepair) -> RepairResult:
    try:
        confirmed, what = _KINDS[repair.kind](state, repair)
    except (HoldfastError, OSError) as error:
        confirmed, what = False, f"failed: {getattr(error, 'strerror', None) or error}"
    if not confirmed:
        _log.warning("could not %s (run %s): %s", repair.what, repair.run_id or "-", what)
    return RepairResult(repair, confirmed, what)


def _finish(state: StateDirectory | None, repair: PlannedRepair) -> tuple[bool, str]:
    assert state is not None
    assert repair.run_id is not None
    return lost_run.finish(state, repair.run_id)


def _kill(_state: StateDirectory | None, repair: PlannedRepair) -> tuple[bool, str]:
    assert repair.orphan is not None
    (reaped,) = orphans.reap([repair.orphan])
    return reaped.how == "gone", "confirmed gone" if reaped.how == "gone" else f"{reaped.how}: {reaped.why}"


def _remove_socket(state: StateDirectory | None, repair: PlannedRepair) -> tuple[bool, str]:
    assert state is not None
    assert repair.run_id is not None
    stale_socket.remove_stale(state, repair.run_id)
    return not os.path.lexists(repair.path or ""), "removed"


def _remove_directory(state: StateDirectory | None, repair: PlannedRepair) -> tuple[bool, str]:
    assert state is not None
    assert repair.path is not None
    if repair.path in removal.find_abandoned(state, 0):  # its launcher may have been stopped, and continued since
        run_directory.remove(repair.path)
    return not os.path.lexists(repair.path), "removed" if not os.path.lexists(repair.path) else "it is in use"


def _remove_leaf(state: StateDirectory | None, repair: PlannedRepair) -> tuple[bool, str]:
    assert repair.leaf is not None
    if not GuardCensus(state).is_orphaned(repair.leaf.run_id):
        return False, "a guard looks after its run now"
    removed = leaves.remove_empty(repair.leaf)
    return removed, "removed" if removed else "it is in use, or not ours to remove"


def _clear_owner(state: StateDirectory | None, _repair: PlannedRepair) -> tuple[bool, str]:
    assert state is not None
    owner_lock.clear(state)
    now = owner_lock.look(state).state
    return now in (owner_lock.MISSING, owner_lock.ALIVE), f"it is {now} now"


def _make_index(state: StateDirectory | None, _repair: PlannedRepair) -> tuple[bool, str]:
    assert state is not None
    with Index.open(state) as index:
        return True, f"made from {index.rebuild()} ended runs"


def _refresh_index(state: StateDirectory | None, repair: PlannedRepair) -> tuple[bool, str]:
    assert state is not None
    _refresh(state)
    return repair.run_id not in state.live_ids(), "done"


def _refresh(state: StateDirectory) -> None:
    try:
        with Index.open(state) as index:
            index.refresh()
            for warning in index.warnings:
                _log.warning("%s", warning)
    except HoldfastError as error:
        _log.warning("the index could not be brought up to date: %s", error)


_KINDS: dict[str, Callable[[StateDirectory | None, PlannedRepair], tuple[bool, str]]] = {
    "finish": _finish,
    "kill": _kill,
    "socket": _remove_socket,
    "directory": _remove_directory,
    "leaf": _remove_leaf,
    "owner": _clear_owner,
    "index": _make_index,
    "refresh": _refresh_index,
}
