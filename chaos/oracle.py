"""The oracle: the rules for a run, from its plan, the driver's actions, and its journal's bytes alone.

Deliberately simple: the first decisive fact in the journal's order is the outcome. Nothing here is imported from the
product.
"""

from __future__ import annotations

import os
import zlib
from typing import TYPE_CHECKING

from . import frames
from .plan import ANY, INT, KILL, TERM, expected_lines, ladder_s, line_of, lines_reported

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .frames import Fact, Journal
    from .running import Running

_CAUSES = {1: "user", 2: "shutdown", 3: "parent", 4: "session", 5: "owner", 6: "superseded"}
_TREES = {1: "gone", 2: "survivors", 3: "unknown"}
_EOF = 1
_OWNER_LOOKS_S = 3.0  # an owner continues a stopped pair once a second, and may itself be stopped meanwhile
_KILL_WAIT_S, _MARGIN_S = 5.0, 2.0  # after deadline, grace, drain and kill-wait, this much later is the end


def outcome(journal: Journal) -> tuple[str, str] | None:
    """Status and cause; None if no fact decides."""
    for fact in journal.facts:
        if (found := _meaning(fact)) is not None:
            return found
    return None


def _meaning(fact: Fact) -> tuple[str, str] | None:
    match fact.name:
        case "exited":
            status = fact.number()
            return ("failed", "signal") if status & 0x7F else ("failed" if status >> 8 else "succeeded", "exit")
        case "spawn_failed":
            return "failed", "spawn"
        case "oom" | "limit":
            return "failed", fact.name
        case "deadline" | "idle":
            return "timed_out", fact.name
        case "stop_asked":
            return "cancelled", _CAUSES.get(fact.number(), "?")
        case "lost":
            return "lost", "guard" if fact.number() == 1 else "host"
        case "guard_lost":
            return "lost", "guard"
        case _:
            return None


def tree(journal: Journal) -> str:
    """The state of its processes, as last recorded."""
    found = [fact for fact in journal.facts if fact.name == "tree"]
    return _TREES.get(found[-1].number(), "?") if found else "missing"


def violations(run: Running) -> Iterator[str]:
    """Everything that is wrong with this run after the last sweep; empty if all is well."""
    try:
        journal = frames.read(run.journal.path)
    except FileNotFoundError:
        if not (run.refused or run.never_made):
            yield "it has no journal, and nobody refused it"
        return
    if run.refused:
        yield "its start was refused, but it has a directory"
    yield from _whole(run, journal)
    if not journal.ended:
        return
    yield from _outcome(run, journal)
    yield from _exit(run, journal)
    yield from _tree(run, journal)
    yield from _in_time(run, journal)
    if run.plan.command.lines is not None:
        yield from _lines(journal, run.plan.command.lines)


def _whole(run: Running, journal: Journal) -> Iterator[str]:
    if journal.wrong is not None:
        yield f"its journal is damaged: {journal.wrong}"
    if not journal.ended:
        yield "it is not terminal"
    elif journal.names[-1] != "end" or journal.names.count("end") != 1:
        yield "its end is not its one last word"
    elif journal.position != os.stat(journal.path).st_size:
        yield "something follows its end"
    with open(journal.path, "rb") as file:
        kept = zlib.crc32(file.read(run.journal.position))
    if kept != run.journal.crc or journal.position < run.journal.position:
        yield f"bytes that were seen in its journal (up to {run.journal.position}) are gone or changed"
    if os.path.exists(os.path.join(run.path, "guard.sock")):
        yield "its socket is left"


def _outcome(run: Running, journal: Journal) -> Iterator[str]:
    found, plan = outcome(journal), run.plan
    if found is None:
        yield "nothing in its journal decides"
        return
    status, cause = found
    possible = {
        "deadline": "timeout" in plan.options,
        "idle": "idle_timeout" in plan.options,
        "user": run.cancelled,
        "session": plan.options.get("session") is not None,
        "owner": run.owner_killed and plan.options["lifetime"] == "owner",
        "spawn": plan.command.kind == "missing",
        "guard": _may_be_lost(run, journal),
        "exit": True,
        "signal": True,
    }
    if not possible.get(cause, False):
        yield f"{status}/{cause} has no reason"
    for hit in run.hits:
        decided = next((str(fact) for fact in journal.facts if _meaning(fact) is not None), None)
        if hit.verdict is not None and hit.verdict != decided:
            yield f"{hit.verdict} was on record at the {hit.weapon} of the {hit.target}, and is not what decides now"
    if run.said is not None and run.said[:2] != [status, cause]:
        yield f"its owner was told {run.said}, its journal says {status}/{cause}"


def _may_be_lost(run: Running, journal: Journal) -> bool:
    """Whether nobody may have been there to record the end: a stopped guard or sentinel is no excuse."""
    if "started" in journal.names:
        return run.guard_may_die
    return run.guard_may_die or run.owner_killed or run.was_hit("sentinel", "kill")


def _exit(run: Running, journal: Journal) -> Iterator[str]:
    command, exited = run.plan.command, journal.first("exited")
    if exited is None:
        # A missing command that was stopped before that was known; or a command that was still held, because storage
        # had not taken its start yet: it is ended without a rung, and never ran. Neither has an exit.
        was_held = journal.first("stop_asked") is not None and journal.first("signalled") is None
        never_ran = command.kind == "missing" or was_held
        if not (run.guard_may_die or never_ran) and journal.first("started") is not None:
            yield "its guard was well, but its exit is not on record"
        return
    before = journal.facts[: journal.facts.index(exited)]
    sent = {fact.number() for fact in before if fact.name == "signalled"}
    allowed = {command.by_itself, *sent} | ({command.on_term} if 15 in sent else set())
    if run.guard_may_die or any(hit.target == "leader" for hit in run.hits):
        allowed.add(KILL)  # the kernel kills a command whose guard dies
    if run.guard_may_die and any(_meaning(fact) for fact in before):
        allowed |= {INT, TERM, command.on_term}  # a guard may die after it sent a signal, and before it recorded that
    if any(hit.target == "child" for hit in run.hits):
        allowed |= {99 << 8, 98 << 8}  # a command that misses its child says so
    status = exited.number()
    if ANY not in allowed and status not in allowed:
        yield f"it exited with wait status {status:#x}, which is none of {allowed}"
    if run.said is not None and run.said[2:] != _codes(status):
        yield f"its owner was told {run.said}, its journal says wait status {status:#x}"


def _codes(status: int) -> list[str]:
    return ["None", str(status & 0x7F)] if status & 0x7F else [str(status >> 8), "None"]


def _tree(run: Running, journal: Journal) -> Iterator[str]:
    how, seen, lost = tree(journal), journal.first("tree"), journal.first("lost")
    # Only the death of both at once leaves nobody to prove the end of the tree.
    unproven = "started" not in journal.names or run.was_hit("both", "kill")
    if how != "gone" and not (how == "unknown" and unproven):
        yield f"its tree is on record as {how}"
    # Recovery records both at one time, and has seen nothing of the tree.
    if how == "gone" and seen and lost and seen.at_ns == lost.at_ns and "started" in journal.names:
        yield "its tree is on record as gone, and nobody could know that"


def _in_time(run: Running, journal: Journal) -> Iterator[str]:
    """The rule behind every deadline: whatever one process does, the run is over soon after it."""
    started, end, options = journal.first("started"), journal.first("end"), run.plan.options
    if started is None or end is None or "timeout" not in options or run.was_hit("both", "kill"):
        return
    held_s = run.plan.blow.hold_s + _OWNER_LOOKS_S if run.plan.blow and run.was_hit("both", "stop") else 0.0
    due_s = options["timeout"] + held_s + _MARGIN_S
    deadline = journal.first("deadline")
    if deadline is not None and (after_s := (deadline.at_ns - started.at_ns) / 1e9) > due_s:
        yield f"its deadline was kept {after_s:.1f} s after its start, not by {due_s:.1f} s"
    bound_s = due_s + ladder_s(options) + options["drain"] + _KILL_WAIT_S
    if (after_s := (end.at_ns - started.at_ns) / 1e9) > bound_s:
        yield f"it ended {after_s:.1f} s after its start, not within {bound_s:.1f} s"


def _lines(journal: Journal, path: str) -> Iterator[str]:
    recorded, reported = bytes(journal.stdout), lines_reported(path)
    expected = expected_lines(len(recorded))
    if recorded != expected:
        same = next(i for i, (a, b) in enumerate(zip(recorded, expected, strict=True)) if a != b)
        yield f"its output differs from what it wrote at byte {same}: {recorded[same : same + 40]!r}"
        return
    handed_over = sum(len(line_of(line)) for line in range(1, reported + 1))
    if len(recorded) > handed_over + len(line_of(reported + 1)):
        yield f"its journal has {len(recorded)} bytes, but it wrote {handed_over}"
    drained = journal.first("drained")
    if drained is not None and drained.number() == _EOF and len(recorded) < handed_over:
        yield f"it wrote {handed_over} bytes and its output was read to the end, but {len(recorded)} are there"
