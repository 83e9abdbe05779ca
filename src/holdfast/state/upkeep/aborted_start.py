"""Aborted starts: remove the directory of a run whose command never ran, and the cgroups of dead probes.

The guard writes its first fact before the command can run. So a run without any fact, whose guard's lock we hold, has
not run and never will.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from ...guard.leaves import find_leaves, remove_empty
from ...guard.leftovers import remove_leaf
from ...journal.reader import JournalReader
from ...values.errors import JournalError
from .. import run_directory

if TYPE_CHECKING:
    from ..directory import StateDirectory

_STARTING_S = 5.0  # a guard that was just started when its owner died has this long to write its first fact


def discard_if_never_ran(state: StateDirectory, run_id: str) -> bool:
    """Remove what is left of a run whose command never ran; False when the command ran, or the guard lives. Blocks.

    Only the owner of the state directory may call this, because it also removes a half-written directory of this run:
    only an earlier owner that died can have left it.
    """
    if state.is_elsewhere(run_id):
        return False  # another host was asked to start it
    run_directory.remove(state.hidden_path(run_id, "new"))
    if not state.has(run_id):
        return True
    try:
        journal = run_directory.open_journal(state.run_path(run_id), write=True)
    except OSError:
        return False  # not a run that was about to start
    try:
        if not _take_over(journal, run_id) or _has_facts(journal, run_id):  # read again, under the lock
            return False
        for leaf in find_leaves():
            if leaf.run_id == run_id:
                remove_leaf(leaf.path)
        run_directory.discard(state, run_id)
        return True
    except JournalError:
        return False
    finally:
        os.close(journal)


def _take_over(journal: int, run_id: str) -> bool:
    """Take the guard's lock, unless the guard writes a fact first or keeps the lock for too long."""
    end = time.monotonic() + _STARTING_S
    while not _has_facts(journal, run_id):
        if not run_directory.is_starting(journal, has_facts=False) and run_directory.take_over(journal):
            return True
        if time.monotonic() > end:
            return False
        time.sleep(0.005)  # no event tells of the guard's first fact
    return False


def _has_facts(journal: int, run_id: str) -> bool:
    """Whether the journal has a fact, or is damaged. JournalError: it cannot be read."""
    reader = JournalReader(journal, run_id=run_id)
    reader.scan()
    return bool(reader.facts) or reader.damage is not None


def remove_dead_probes() -> None:
    """Remove the probe cgroups of processes that were killed while they probed the containment."""
    for leaf in find_leaves():
        kind, _, rest = leaf.run_id.partition("-")
        pid = rest.partition("-")[0]
        if kind == "probe" and pid.isdigit() and not os.path.exists(f"/proc/{pid}"):
            remove_empty(leaf)
