"""Recovery: finish the record of a run whose guard is gone.

The first process that finds such a journal takes the guard's lock, and so becomes the journal's only writer. Other
processes see the lock held and do nothing. The writer reads the journal again under the lock: if it has an end now,
another process was faster. Otherwise the writer kills what is left of the run (its cgroup, or processes that carry its
token) and appends TREE, LOST and END behind the last whole frame. LOST decides the outcome only when no earlier fact
did: a deadline, a stop or an exit that was recorded before the guard died stays decisive.

A recovery that dies releases the lock, and at worst leaves a torn tail. The next recovery begins again.
"""

from __future__ import annotations

import os
import shutil
import time
from typing import TYPE_CHECKING, NamedTuple

from .. import outcome as outcomes
from ..guard.leaves import find_leaves
from ..guard.leftovers import TreeEnd, clean_up, remove_leaf
from ..guard.processes import has_guard
from ..journal.codec import encode_fact, journal_preamble
from ..journal.reader import JournalReader
from ..values.errors import HoldfastError, JournalDamagedError
from ..values.identity import boot_id, read_identity
from ..values.spec import mark_on_record
from . import run_directory

if TYPE_CHECKING:
    from .directory import StateDirectory

DAMAGED = "journal.damaged"  # the unreadable journal, kept beside the one that replaced it
NO_USAGE = {"user_us": 0, "system_us": 0, "max_rss_kib": 0}


class RecoveredRun(NamedTuple):
    """A run whose record was finished. `how` is the state of its tree: gone, survivors or unknown."""

    run_id: str
    how: str
    survivors: tuple[int, ...]
    damage: str | None


def finish(state: StateDirectory, run_id: str) -> RecoveredRun | None:
    """Finish the record of this run if its guard is gone; None when there was nothing to do.

    OSError: the journal cannot be written. JournalVersionError: another Holdfast wrote it, in a format we do not know.
    """
    if state.is_elsewhere(run_id):
        return None  # its guard is on another host
    path = state.run_path(run_id)
    try:
        fd = run_directory.open_journal(path, write=True)
    except FileNotFoundError:
        return None
    try:
        reader, _ = _read(fd, run_id)
        # Checked before the lock is taken, because a guard that is just starting needs that lock. A run that is not
        # starting now never will: its directory appeared with the launcher's lock held.
        if run_directory.is_starting(fd, has_facts=reader is not None and bool(reader.facts)):
            return None
        return _finish_locked(path, run_id, fd) if run_directory.take_over(fd) else None
    finally:
        os.close(fd)


def _finish_locked(path: str, run_id: str, fd: int) -> RecoveredRun | None:
    reader, damage = _read(fd, run_id)
    if reader is not None and reader.ended:
        return None
    if damage is not None:
        # The unreadable journal is evidence: keep a copy beside the new one.
        shutil.copyfile(os.path.join(path, run_directory.JOURNAL), os.path.join(path, DAMAGED))
    why, tree = _clean(run_id, reader)
    _remove_socket(path)  # before the end is on record: afterwards no reader looks for leftovers of this run
    end = reader.position if reader is not None else 0
    os.ftruncate(fd, end)
    run_directory.write_whole(fd, _ending(run_id, reader, why, tree), end)
    os.fsync(fd)
    return RecoveredRun(run_id, tree.how, tree.survivors, damage)


def _read(fd: int, run_id: str) -> tuple[JournalReader | None, str | None]:
    """Read the journal as far as possible; returns the reader and the damage.

    The reader is None when the file does not begin like a journal. The damage is None when there is none.
    """
    reader = JournalReader(fd, run_id=run_id)
    try:
        reader.scan()
    except JournalDamagedError as error:
        return None, str(error)
    return (reader if reader.position > 0 else None), reader.damage


def _clean(run_id: str, reader: JournalReader | None) -> tuple[str, TreeEnd]:
    header = _header(reader)
    if header.get("boot_id") not in (None, "unknown", boot_id()):
        return "host", TreeEnd("gone")  # no process outlives a reboot
    started = outcomes.decide(reader.facts).started if reader is not None else None
    # A guard makes its cgroups before it records them. If it died in between, the journal does not name them.
    # The processes of a successor carry id and mark of the run that left them.
    spec = (reader.spec or {}) if reader is not None else {}
    first_run = str(spec.get("left_by") or run_id)
    # Our guard is dead. So a live guard that shows this id, and the cgroups, are another state directory's.
    made = [] if has_guard(first_run) else [leaf.path for leaf in find_leaves() if leaf.run_id == first_run]
    unsaid = next((path for path in made if os.path.exists(f"{path}/cgroup.kill")), None)
    cgroup = unsaid if started is None else started.detail["cgroup"]
    tree = clean_up(first_run, cgroup, mark=mark_on_record(spec), has_run=started is not None)
    for path in made:
        remove_leaf(path)  # the cgroups of its budgets, which are empty now
    return "guard", tree


def _header(reader: JournalReader | None) -> dict[str, object]:
    try:
        return (reader.header or {}) if reader is not None else {}
    except HoldfastError:
        return {}


def _ending(run_id: str, reader: JournalReader | None, why: str, tree: TreeEnd) -> bytes:
    now = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    beginning = b""
    if reader is None:
        beginning = journal_preamble(run_id, boot_id() or "unknown", time.time_ns(), now, b"{}")
    elif why == "host" and reader.facts:
        now = reader.facts[-1].at_ns  # the clock of another boot: we know only that the end came after the last fact
    facts = reader.facts if reader is not None else []
    parts = [encode_fact("lost", {"why": why}, at_ns=now)]
    if not any(fact.kind == "tree" for fact in facts):
        survivors = tuple(_survivor(pid) for pid in tree.survivors)
        detail = {"how": tree.how, "count": len(survivors), "survivors": survivors}
        parts.insert(0, encode_fact("tree", detail, at_ns=now))
    parts.append(encode_fact("end", NO_USAGE, at_ns=now))
    return beginning + b"".join(parts)


def _survivor(pid: int) -> dict[str, object]:
    # The start time is recorded too, because `prune` keeps the run for as long as exactly this process lives.
    identity = read_identity(pid)
    ticks = 0 if identity is None else identity.start_ticks
    return {"pid": pid, "start_ticks": ticks, "state": "?", "wait_channel": None, "error": 0}


def _remove_socket(path: str) -> None:
    try:
        os.unlink(os.path.join(path, run_directory.SOCKET))
    except FileNotFoundError:
        pass
