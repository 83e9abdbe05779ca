"""The examination: look at the host, the state directory, its runs, orphans and leftovers, and report findings.

The examination changes nothing, and other processes may change things meanwhile. So each repair checks again before it
does anything (repair.py). No error stops the examination: a thing that cannot be examined is a finding itself.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from ..guard import leaves
from ..state import owner_lock, removal
from ..state.directory import StateDirectory, default_path, is_unused
from ..state.upkeep import orphans, stale_socket
from ..state.upkeep.guard_census import GuardCensus
from ..values.errors import StateError
from . import host_health, index_health, run_health
from .finding import OK, PROBLEM, REAP, WARNING, Diagnosis, DoctorFinding, PlannedRepair

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..state.upkeep.orphans import Orphan
    from .finding import FindingAndRepair

_LITTLE_BYTES = 100 << 20
_LITTLE_FILES = 1000


def examine(path: str | None = None, *, trial: bool = True, age_s: float = 60.0) -> Diagnosis:
    """Examine everything. `trial`: also run a command. `age_s`: leftovers younger than this are not reported."""
    found: list[FindingAndRepair] = [(finding, None) for finding in host_health.examine(trial=trial)]
    state, opening = _open(path)
    found.append((opening, None))
    lost = orphans.find(state)
    if state is not None:
        try:
            found += _examine_state(state, lost, age_s)
        except (StateError, OSError) as error:
            what = f"the state directory {state.path} cannot be examined: {error}"
            found.append((DoctorFinding(PROBLEM, "state", what, remedy="look at it, or name another one"), None))
    told = {pid for finding, _ in found if finding.needs_action for pid in finding.pids}
    found += _orphans(lost, told)
    found += _leaves(state, age_s)
    return Diagnosis(tuple(finding for finding, _ in found), tuple(repair for _, repair in found if repair is not None))


def open_for_repair(path: str | None = None) -> StateDirectory | None:
    """Open the state directory for `carry_out`; None when it cannot be used."""
    try:
        return StateDirectory.open(path, create=False)
    except StateError:
        return None


def _open(path: str | None) -> tuple[StateDirectory | None, DoctorFinding]:
    full = os.path.abspath(path or default_path())
    if (path is None or os.path.lexists(full)) and is_unused(full):
        return None, DoctorFinding(OK, "state", f"{full} is made by the first run")
    try:
        return StateDirectory.open(full, create=False), DoctorFinding(OK, "state", full)
    except StateError as error:
        return None, DoctorFinding(PROBLEM, "state", error.message, remedy=error.remedy)


def _examine_state(state: StateDirectory, lost: list[Orphan], age_s: float) -> Iterator[FindingAndRepair]:
    for finding in _directory(state):
        yield finding, None
    for run_id in dict.fromkeys([*state.live_ids(), *index_health.survivor_ids(state)]):
        yield from run_health.examine(state, run_id, [orphan for orphan in lost if orphan.run_id == run_id])
    yield from _leftovers(state, age_s)
    yield _owner(state)
    yield from index_health.examine(state)


def _directory(state: StateDirectory) -> Iterator[DoctorFinding]:
    for part in (state.runs_path, state.live_path, state.sessions_path):
        if not os.path.isdir(part):
            yield DoctorFinding(PROBLEM, "state", f"{part} is missing", remedy=f"make it again: mkdir -m 700 {part}")
    mode = stat.S_IMODE(os.stat(state.path).st_mode)
    if mode & 0o077:
        what = f"others may look into {state.path} (mode {mode:o}), which holds the output of every run"
        yield DoctorFinding(WARNING, "state", what, remedy=f"chmod 700 {state.path}")
    if not os.access(state.path, os.W_OK | os.X_OK):
        yield DoctorFinding(
            PROBLEM, "state", f"{state.path} cannot be written", remedy="choose another with --state-dir"
        )
    room = os.statvfs(state.path)
    free = room.f_bavail * room.f_frsize
    what = f"{free >> 20} MiB free, room for {room.f_favail} files" if room.f_files else f"{free >> 20} MiB free"
    if free < _LITTLE_BYTES or (room.f_files and room.f_favail < _LITTLE_FILES):
        yield DoctorFinding(WARNING, "state", what, remedy="free space, or remove old runs: holdfast prune --help")
    else:
        yield DoctorFinding(OK, "state", what)


def _leftovers(state: StateDirectory, age_s: float) -> Iterator[FindingAndRepair]:
    for path in removal.find_abandoned(state, age_s):
        remove = PlannedRepair("directory", f"remove the half-written {path}", path=path)
        yield DoctorFinding(WARNING, "leftover", f"{path} was never finished: its maker died", remedy=REAP), remove
    for run_id in state.all_ids():
        if stale_socket.is_stale(state, run_id):
            path = stale_socket.socket_path(state, run_id)
            remove = PlannedRepair("socket", f"remove the stale {path}", run_id, path=path)
            yield DoctorFinding(WARNING, "leftover", f"{path} has no guard behind it", run_id, (), REAP), remove


def _owner(state: StateDirectory) -> FindingAndRepair:
    path = os.path.join(state.path, owner_lock.NAME)
    try:
        seen = owner_lock.look(state)
    except StateError as error:
        return DoctorFinding(PROBLEM, "owner", error.message, remedy=error.remedy), None
    owner = seen.owner
    who = "" if owner is None else f": {owner.what}, process {owner.pid}"
    match seen.state:
        case owner_lock.STALE:
            what = f"the last owner of the state directory ended without releasing it{who}"
            clear = PlannedRepair("owner", f"remove the stale {path}", path=path)
            return DoctorFinding(WARNING, "owner", what, remedy=f"start it again, or {REAP}"), clear
        case owner_lock.DAMAGED:
            what = f"{path} {seen.why}, and no process holds it"
            move = PlannedRepair("owner", f"move the damaged {path} to {owner_lock.DAMAGED_NAME}", path=path)
            return DoctorFinding(
                WARNING, "owner", what, remedy=f"start the daemon, which moves it aside, or {REAP}"
            ), move
        case owner_lock.INVALID:
            remedy = "look at it; if nothing uses it, remove it"
            return DoctorFinding(PROBLEM, "owner", f"{path} {seen.why}", remedy=remedy), None
        case owner_lock.ALIVE:
            return DoctorFinding(OK, "owner", f"alive{who}", pids=() if owner is None else (owner.pid,)), None
        case _:
            return DoctorFinding(OK, "owner", "none, and none is needed"), None


def _orphans(lost: list[Orphan], told: set[int]) -> Iterator[FindingAndRepair]:
    for orphan in lost:
        if orphan.pid in told:
            continue  # reported with its run, whose repair kills it
        name = f"process {orphan.pid} ({orphan.command})"
        whose = "its run has ended" if orphan.known else "its run is not in this state directory"
        finding = DoctorFinding(
            PROBLEM,
            "orphan",
            f"{name} has no guard: {whose}; it is known by its {orphan.evidence}",
            orphan.run_id,
            (orphan.pid,),
            REAP if orphan.why_not is None else f"{orphan.why_not}: look as that user",
        )
        kill = PlannedRepair("kill", f"kill {name}", orphan.run_id, (orphan.pid,), orphan=orphan)
        yield finding, kill if orphan.why_not is None else None


def _leaves(state: StateDirectory | None, age_s: float) -> Iterator[FindingAndRepair]:
    empty = leaves.find_empty(older_than_s=age_s)
    census = GuardCensus(state)
    for leaf in empty:
        if census.is_orphaned(leaf.run_id):
            remove = PlannedRepair(
                "leaf", f"remove the empty cgroup {leaf.path}", leaf.run_id, path=leaf.path, leaf=leaf
            )
            yield (
                DoctorFinding(
                    WARNING,
                    "leftover",
                    f"the cgroup {leaf.path} is empty, and its run has no guard",
                    leaf.run_id,
                    (),
                    REAP,
                ),
                remove,
            )
