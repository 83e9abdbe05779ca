"""Ending a run from outside whose guard does not end it, by a process that is not the owner.

The owner's watchdog does the same (`runs/watchdog.py`), but a detached run may have no owner. Then the process that
asks for its end continues a stopped guard. When the bound has passed, it kills every process below the sentinel. That
lets a guard that was stopped in a loop go on and record the end itself. If the journal does not grow after that, the
process kills sentinel and guard, and the record is finished as that of a lost run.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ..guard.descendants import kill_below
from ..guard.processes import continue_both, kill_both

if TYPE_CHECKING:
    from .record import RunRecord

_PATIENCE_S = 0.3
_PAUSE_S = 0.005


def continue_guard(record: RunRecord) -> None:
    """Send SIGCONT to the guard of this run and to its sentinel. They do not notice it when they are not stopped."""
    if guard_pid := _guard_of(record):
        continue_both(guard_pid, record.run_id)


def end_by_force(record: RunRecord) -> None:
    """End the tree of a run that is past its bound, and then its guard if need be. Blocks for about a second.

    The caller finishes the record if it has no end then.
    """
    started = record.outcome.started
    if started is None:
        return
    guard_pid = _guard_of(record)
    kill_below(0, guard_pid, record.run_id, started.detail["cgroup"], _PATIENCE_S)
    continue_both(guard_pid, record.run_id)
    while _grows(record):
        continue
    if not record.reader.ended:
        kill_both(-1, 0, guard_pid, record.run_id)


def _grows(record: RunRecord) -> bool:
    """Whether the guard records something within its patience, and not the end."""
    before, until = record.reader.position, time.monotonic() + _PATIENCE_S
    while time.monotonic() < until:
        record.read()
        if record.guard == "gone":
            return False
        if record.reader.position != before:
            return True
        time.sleep(_PAUSE_S)  # the guard wakes only its owners: there is no event to wait for
    return False


def _guard_of(record: RunRecord) -> int:
    started = record.outcome.started
    return 0 if started is None else int(started.detail["guard_pid"])
