"""Compare the records and leftovers of a round with the rules."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from tests.support.cgroups import OWN_GROUPS
from tests.support.processes import kill_children

from . import frames, leftovers, oracle
from .plan import remove_shared

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable, Iterator

    from holdfast.state.directory import StateDirectory

    from .running import Hit, Running
    from .tally import Tally


class Violation(NamedTuple):
    """One broken rule, with the evidence for the developer."""

    run_id: str
    what: str
    evidence: str


def inspect(state: StateDirectory, runs: Iterable[Running], tally: Tally) -> Iterator[Violation]:
    """Everything that is wrong after the last sweep. Remaining processes are ended; the rest stays as evidence."""
    runs = list(runs)
    yield from _left(state, runs, tally)
    for run in runs:
        for what in oracle.violations(run):
            yield _violation(run, what)
        if run.error is not None:
            yield _violation(run, f"it could not be started: {run.error}")
        if (nested_id := run.plan.command.nested_id) is not None and not run.never_made:
            yield from _nested(state, nested_id, tally)
        _count(run, tally)
    for run in runs:
        remove_shared(run.plan)


def _left(state: StateDirectory, runs: list[Running], tally: Tally) -> Iterator[Violation]:
    found = [f"process {text}" for text in leftovers.processes()]
    tally.left += len(found)
    found += [f"cgroup {path}" for path in OWN_GROUPS.find_runs()]
    kill_children(set())
    found += leftovers.in_directory(state.path)
    for text in found:
        whose = next((run for run in runs if run.plan.run_id in text), None)
        yield Violation("-", "left behind", text) if whose is None else _violation(whose, f"left behind: {text}")


def _nested(state: StateDirectory, run_id: str, tally: Tally) -> Iterator[Violation]:
    try:
        journal = frames.read(os.path.join(state.run_path(run_id), "journal"))
    except FileNotFoundError:
        return  # the run did not come so far
    tally.nested[_words(oracle.outcome(journal))] += 1
    if not journal.ended or journal.wrong or oracle.tree(journal) == "survivors":
        yield Violation(run_id, "a nested run is not as it must be", journal.text())


def _count(run: Running, tally: Tally) -> None:
    if run.never_made and not run.refused:
        tally.never_made += 1
        return
    tally.runs += 1
    tally.kinds[run.plan.command.kind] += 1
    tally.lifetimes[run.plan.options["lifetime"]] += 1
    if run.refused:
        tally.outcomes["refused: its session was closed"] += 1
        return
    try:
        journal = frames.read(run.journal.path)
    except FileNotFoundError:
        tally.outcomes["none"] += 1  # a violation, and reported
        return
    tally.outcomes[_words(oracle.outcome(journal))] += 1
    tally.trees[oracle.tree(journal)] += 1
    tally.bytes += len(journal.stdout)
    tally.lost_guards += "lost" in journal.names
    if run.plan.command.lines is not None:
        tally.lines += journal.stdout.count(b"\n")
    for hit in run.hits:
        (tally.kills if hit.weapon == "kill" else tally.stops)[_names(hit)] += 1
    if run.guard_may_die:
        _died_after(tally.moments, journal)


def _violation(run: Running, what: str) -> Violation:
    evidence = [f"plan {run.plan}", f"struck {run.hits}", f"owner killed {run.owner_killed}", f"said {run.said}"]
    try:
        evidence.append(frames.read(run.journal.path).text())
    except FileNotFoundError:
        evidence.append("no journal")
    return Violation(run.plan.run_id, what, "\n    ".join(evidence))


def _names(hit: Hit) -> str:
    return {"both": "both at once"}.get(hit.target, hit.target) + (" again and again" if hit.weapon == "hammer" else "")


def _words(found: tuple[str, str] | None) -> str:
    return "none" if found is None else "/".join(found)


def _died_after(moments: Counter[str], journal: frames.Journal) -> None:
    """The last fact that a guard wrote before it was killed or replaced."""
    heir = next((fact for fact in journal.facts if fact.name in ("guard_lost", "lost")), None)
    if heir is None:
        moments["end, which was too late"] += 1
        return
    before = journal.facts[: journal.facts.index(heir)]
    # The recovery writes all its facts at one time.
    own = [fact.name for fact in before if fact.name not in ("header", "spec") and fact.at_ns != heir.at_ns]
    moments[own[-1] if own else "nothing"] += 1
