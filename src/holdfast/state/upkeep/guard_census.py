"""The census of guards: which runs have a live guard, and which run a process belongs to."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ...guard.leftovers import environment_of
from ...proc.process_table import all_pids
from ...values.environment import RUN_ID
from ...values.errors import JournalError, RunNotFoundError, SpecError
from ...values.process_memory import command_line
from ...values.run_id import check_run_id
from .. import run_directory
from ..record import RunRecord

if TYPE_CHECKING:
    from ..directory import StateDirectory

_GUARD = b"holdfast-guard"
_TOKEN = f"\0{RUN_ID}=".encode()


class GuardCensus:
    """The state of each run's guard, read once per run.

    It lists the live guards when it is made. So make it after the processes have been listed (see orphans.py).
    """

    def __init__(self, state: StateDirectory | None) -> None:
        self._state = state
        self._guards = live_guards()
        self._own = token_of(os.getpid())
        self._known: dict[str, str] = {}

    def of(self, run_id: str) -> str:
        """The state of a run's guard.

        `alive`; `lost`: gone without an end on record; `ended`; `left`: ended, and its stragglers may stay; `unknown`:
        the run is not in this state directory.
        """
        if run_id not in self._known:
            self._known[run_id] = _guard_of(self._state, run_id)
        return self._known[run_id]

    def is_orphaned(self, run_id: str) -> bool:
        """Whether the run has no guard. Our own run is never orphaned: we would end ourselves."""
        if run_id in self._guards or run_id == self._own:
            return False
        return self.of(run_id) in ("lost", "ended", "unknown")


def live_guards() -> frozenset[str]:
    """The ids of all runs with a live, visible guard, in any state directory or in none."""
    found: set[str] = set()
    for pid in all_pids():
        words = command_line(pid).split(b"\0")  # empty for a zombie
        if words[0] == _GUARD:  # the id of its first run, which names its cgroup, and of its current run
            found.update(os.fsdecode(word.strip()) for word in words[1:3] if word.strip())
    return frozenset(found)


def token_of(pid: int) -> str | None:
    """The run id in the environment of this process; None when there is none, or the environment is hidden."""
    _, found, rest = environment_of(pid).partition(_TOKEN)
    try:
        return check_run_id(os.fsdecode(rest.partition(b"\0")[0])) if found else None
    except SpecError:
        return None  # another program uses this variable


def _guard_of(state: StateDirectory | None, run_id: str) -> str:
    if state is None or not state.has(run_id):
        return "unknown"
    try:
        with RunRecord(state, run_id) as record:
            try:
                record.read()
            except JournalError:
                return "ended" if run_directory.guard_state(record.fd, has_facts=True) == "gone" else "alive"
            if record.guard != "gone":
                return "alive"
            stragglers = record.outcome.stragglers
            left = stragglers is not None and stragglers.detail["policy"] == "leave"
            return "left" if left else "ended" if record.reader.ended else "lost"
    except RunNotFoundError:
        return "unknown"
    except OSError:
        return "alive"  # unknown, so that nothing is done to the run
