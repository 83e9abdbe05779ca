"""Compare the index with the journals: every run once, with the same answer."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING

from holdfast.state.index.index import Index

from . import frames, oracle
from .inspection import Violation

if TYPE_CHECKING:
    from holdfast.state.directory import StateDirectory


def compare(state: StateDirectory, made: int | None = None) -> tuple[int, list[Violation]]:
    """How many runs the index has, and its errors; `made` is how many runs there must be."""
    wrong = []
    listed: Counter[str] = Counter()
    with Index.open(state) as index:
        wrong += [Violation(entry.run_id, "it is still live for the index", str(entry)) for entry in index.refresh()]
        wrong += [Violation("-", "the index was broken", warning) for warning in index.warnings]
        cursor = None
        while True:
            page = index.list(limit=500, cursor=cursor)
            for entry in page.entries:
                listed[entry.run_id] += 1
                wrong += _differs(state, entry.run_id, entry.report, entry.problem)
            if (cursor := page.cursor) is None:
                break
    there = {name for name in os.listdir(state.runs_path) if not name.startswith(".")}
    wrong += [Violation(run_id, "the index does not have it", "") for run_id in sorted(there - listed.keys())]
    wrong += [
        Violation(run_id, "the index lists it, but it is not there", "") for run_id in sorted(listed.keys() - there)
    ]
    wrong += [
        Violation(run_id, f"the index lists it {times} times", "") for run_id, times in listed.items() if times > 1
    ]
    if made is not None and len(listed) != made:
        wrong.append(Violation("-", f"the index has {len(listed)} runs, but {made} were made", ""))
    return len(listed), wrong


def _differs(state: StateDirectory, run_id: str, report: dict[str, object], problem: str | None) -> list[Violation]:
    try:
        journal = frames.read(os.path.join(state.run_path(run_id), "journal"))
    except FileNotFoundError:
        return []  # reported below: the run is missing
    in_journal = (*(oracle.outcome(journal) or (None, None)), oracle.tree(journal))
    in_index = (report.get("status"), report.get("cause"), report.get("tree"))
    if in_journal == in_index and problem is None:
        return []
    return [Violation(run_id, f"the index says {in_index} ({problem}), the journal {in_journal}", journal.text())]
