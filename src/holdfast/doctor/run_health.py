"""The examination of one run: guard, command, survivors and damage, each with the repair that it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..guard.processes import sentinel_of
from ..proc.process_table import uid_of
from ..state.record import RunRecord
from ..state.upkeep.guard_census import token_of
from ..state.upkeep.orphans import Orphan
from ..values.errors import HoldfastError, RunNotFoundError
from ..values.identity import ProcessIdentity, is_alive, is_stopped
from .finding import OK, PROBLEM, REAP, WARNING, DoctorFinding, PlannedRepair

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..state.directory import StateDirectory
    from .finding import FindingAndRepair

_ALIVE = {True: "alive", False: "gone", None: "not known"}


def examine(state: StateDirectory, run_id: str, left: Sequence[Orphan]) -> Iterator[FindingAndRepair]:
    """Examine a run that has no end in the index yet, or that has survivors. `left`: the orphans of this run."""
    try:
        with RunRecord(state, run_id) as record:
            yield from _examine(record.read(), left)
    except RunNotFoundError:
        yield from _without_journal(state, run_id)
    except HoldfastError as error:
        remedy = error.remedy or f"{REAP}, which keeps what is there"
        finish = PlannedRepair("finish", "finish the record as far as it can be read", run_id=run_id)
        yield DoctorFinding(PROBLEM, "run", error.message, run_id=run_id, remedy=remedy), finish
    except OSError as error:
        what = f"it cannot be read: {error.strerror or error}"
        yield DoctorFinding(PROBLEM, "run", what, run_id=run_id, remedy="look at its directory"), None


def _examine(record: RunRecord, left: Sequence[Orphan]) -> Iterator[FindingAndRepair]:
    run_id = record.run_id
    if record.reader.damage is not None and not record.unfinished:
        remedy = f"holdfast why {run_id} shows what came before"
        yield DoctorFinding(PROBLEM, "run", f"its journal is damaged {record.reader.damage}", run_id, (), remedy), None
    if record.guard == "elsewhere":  # its processes are another host's, and so are its PIDs
        yield DoctorFinding(OK, "run", f"{record.outcome.state} on another host", run_id), None
        return
    who, pids = _who(record)
    if record.unfinished:
        others = sorted({orphan.pid for orphan in left} - set(pids))
        rest = f"; left of it: {_numbers(others)}" if others else ""
        remedy = f"{REAP}; every command that looks at this run does it, too"
        finish = PlannedRepair("finish", "write its end, and end what is left of it", run_id, (*pids, *others))
        what = f"its guard is gone and its record has no end{who}{rest}"
        yield DoctorFinding(PROBLEM, "run", what, run_id, (*pids, *others), remedy), finish
    elif not record.reader.ended and (stopped := _stopped(record)):
        what = f"its guard is stopped, and its clocks with it{who}"
        yield DoctorFinding(PROBLEM, "run", what, run_id, pids, f"kill -CONT {' '.join(map(str, stopped))}"), None
    elif not record.reader.ended:
        yield DoctorFinding(OK, "run", f"{record.outcome.state}{who}", run_id, pids), None
    else:
        yield from _survivors(record, left)


def _who(record: RunRecord) -> tuple[str, tuple[int, ...]]:
    """Whether guard and command are alive, as the end of a sentence, and the PIDs that may be alive."""
    started = record.outcome.started
    if started is None:
        return f"; its guard is {record.guard}", ()
    leader = ProcessIdentity(started.detail["pid"], started.detail["start_ticks"], _boot(record))
    lives = is_alive(leader)
    guard_pid = started.detail["guard_pid"]
    text = f"; guard {guard_pid} {record.guard}, command {leader.pid} {_ALIVE[lives]}"
    pids = (guard_pid,) if record.guard != "gone" else ()
    return text, pids if lives is False else (*pids, leader.pid)


def _stopped(record: RunRecord) -> tuple[int, ...]:
    """The PIDs of the sentinel and the guard if both are stopped. One of the two alone would be continued by the other.

    A guard that lost its sentinel has another parent, which is not our concern.
    """
    started = record.outcome.started
    if started is None or record.guard == "gone":
        return ()
    guard_pid = int(started.detail["guard_pid"])
    sentinel_pid = sentinel_of(guard_pid)
    pids = (sentinel_pid, guard_pid) if sentinel_pid else (guard_pid,)
    return pids if all(map(is_stopped, pids)) else ()


def _survivors(record: RunRecord, left: Sequence[Orphan]) -> Iterator[FindingAndRepair]:
    """A finding for each live process that survived the end of its run, for as long as the process lives."""
    outcome, run_id = record.outcome, record.run_id
    if outcome.tree is None:
        return
    survivors = [survivor for survivor in outcome.tree.detail["survivors"] if "pid" in survivor]
    alive = [survivor for survivor in survivors if _lives(survivor, record) is not False]
    pids = tuple(survivor["pid"] for survivor in alive)
    if outcome.stragglers is not None and outcome.stragglers.detail["policy"] in ("leave", "session"):
        if alive:
            yield DoctorFinding(OK, "run", f"left on purpose and alive: {_numbers(pids)}", run_id, pids), None
        return
    for survivor in alive:
        where = f", waiting in {survivor['wait_channel']}" if survivor["wait_channel"] else ""
        what = f"process {survivor['pid']} survived the end of its run and is alive{where}"
        remedy = f"{REAP} tries once more; a process in state D needs what it waits for, or a reboot"
        yield (
            DoctorFinding(PROBLEM, "survivor", what, run_id, (survivor["pid"],), remedy),
            _kill(survivor, record, left),
        )


def _lives(survivor: dict[str, Any], record: RunRecord) -> bool | None:
    if survivor["start_ticks"]:
        return is_alive(ProcessIdentity(survivor["pid"], survivor["start_ticks"], _boot(record)))
    # Without a start time on record, the process counts as the survivor for as long as it carries the run's token.
    return token_of(survivor["pid"]) == record.run_id


def _kill(survivor: dict[str, Any], record: RunRecord, left: Sequence[Orphan]) -> PlannedRepair | None:
    pid = survivor["pid"]
    orphan = next((orphan for orphan in left if orphan.pid == pid), None)
    if orphan is None and survivor["start_ticks"]:
        identity = ProcessIdentity(pid, survivor["start_ticks"], _boot(record))
        orphan = Orphan(identity, record.run_id, "", "record", True, uid_of(pid))
    return (
        None if orphan is None else PlannedRepair("kill", f"kill process {pid}", record.run_id, (pid,), orphan=orphan)
    )


def _without_journal(state: StateDirectory, run_id: str) -> Iterator[FindingAndRepair]:
    if state.has(run_id):
        remedy = "look at it, then remove it by hand, or with holdfast prune"
        yield DoctorFinding(PROBLEM, "run", "its directory holds no journal", run_id, (), remedy), None
    elif state.is_missing(run_id):
        refresh = PlannedRepair("refresh", "drop what the index still has of a removed run", run_id)
        yield DoctorFinding(WARNING, "run", "it is removed, but the index may still list it", run_id, (), REAP), refresh


def _boot(record: RunRecord) -> str | None:
    boot = (record.reader.header or {}).get("boot_id")
    return boot if isinstance(boot, str) else None


def _numbers(pids: Sequence[int]) -> str:
    return f"process {', '.join(map(str, pids))}"
