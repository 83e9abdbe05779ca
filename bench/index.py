"""How listing and filtering slow down with history: 1,000 ended runs against 100,000, with rows written directly.

`python -m bench.index` prints the median of each query at both sizes and their ratio, and the time of a rebuild from
real journals, which is the price of losing the index.
"""

from __future__ import annotations

import json
import os
import random
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

from holdfast.journal.codec import encode_fact, journal_preamble
from holdfast.projections.report import report
from holdfast.sqlite.database import writing
from holdfast.state.directory import StateDirectory
from holdfast.state.index.index import Index
from holdfast.state.index.summary import Filters, RunSummary
from holdfast.state.index.summary_rows import put

SIZES = (1_000, 100_000)
REPEATS = 40
PAGE = 20
ALLOWED = 2.0
BEGIN_NS = 1_700_000_000_000_000_000
OUTCOMES = (("succeeded", "exit"),) * 80 + (("failed", "exit"),) * 15 + (("timed_out", "deadline"),) * 4
USAGE = {"user_us": 1, "system_us": 2, "max_rss_kib": 3}

FILTERS = {
    "no filter": Filters(),
    "a session": Filters(session="session-3"),
    "a session and a status": Filters(session="session-3", statuses=("failed",)),
    "a status": Filters(statuses=("lost",)),
    "two statuses": Filters(statuses=("failed", "timed_out")),
    "a cause": Filters(causes=("deadline",)),
    "a name": Filters(name="name-7"),
    "a parent": Filters(parent="nobody"),
    "a common label": Filters(labels=(("kind", "build"),)),
    "a label": Filters(labels=(("ticket", "T-5"),)),
    "a label and a status": Filters(labels=(("kind", "build"),), statuses=("failed",)),
    "two labels": Filters(labels=(("kind", "build"), ("ticket", "T-5"))),
    "a session and a label": Filters(session="session-3", labels=(("kind", "build"),)),
    "a session without that label": Filters(session="session-3", labels=(("kind", "nothing"),)),
    "no such session, a label": Filters(session="nobody", labels=(("kind", "build"),)),
    "two that never meet (unbounded)": Filters(session="session-3", labels=(("team", "4"),)),
    "the middle of time": Filters(until_ns=BEGIN_NS + 500 * 1_000_000),
}


def make_entries(count: int) -> list[RunSummary]:
    """A history in which most succeed; at both sizes there is enough of each kind to fill a page."""
    chance = random.Random(1)
    template = report({"run_id": "x", "wall_ns": BEGIN_NS, "boottime_ns": 0}, {"argv": ["claude", "-p", "hello"]}, ())
    evidence = [{"at_s": 0.1, "fact": "signalled", "signal": 15, "rung": 0, "reached": 1, "refused": 0}] * 7
    entries = []
    for number in range(count):
        status, cause = OUTCOMES[number % 99] if number % 17 else ("lost", "guard")
        labels = {"kind": chance.choice(("build", "test")), "team": str(number % 10), "ticket": f"T-{number % 16}"}
        own = {
            "run_id": f"run{number:09}",
            "status": status,
            "cause": cause,
            "session": f"session-{number % 5}",
            "name": f"name-{number % 12}",
            "labels": labels,
            "state": "settled",
            "evidence": evidence,
        }
        entries.append(
            RunSummary(f"run{number:09}", BEGIN_NS + number * 1_000_000, {**template, **own}, None, 4096, 8192)
        )
    return entries


def fill(index: Index, count: int) -> float:
    """Write the rows; returns the seconds that it took."""
    entries = make_entries(count)
    begin = time.perf_counter()
    connection = sqlite3.connect(index.path, isolation_level=None)
    connection.execute("PRAGMA foreign_keys = ON")
    with writing(connection):
        put(connection, entries)
    connection.close()
    return time.perf_counter() - begin


def medians_ms(acts: list[Callable[[], object]]) -> list[float]:
    """The median of each query, after a warm-up; in turns, so that a noisy moment affects all of them alike."""
    times: list[list[float]] = [[] for _ in acts]
    for _ in range(REPEATS + 1):
        for act, own in zip(acts, times, strict=True):
            begin = time.perf_counter()
            act()
            own.append(time.perf_counter() - begin)
    return [statistics.median(own[1:]) * 1000 for own in times]


def make_queries(index: Index, count: int) -> dict[str, Callable[[], object]]:
    """The queries that are measured."""
    deep = f"{BEGIN_NS + count // 2 * 1_000_000}.run{count // 2:09}"
    found: dict[str, Callable[[], object]] = {
        name: partial(index.list, filters, PAGE) for name, filters in FILTERS.items()
    }
    found["a page in the middle"] = partial(index.list, limit=PAGE, cursor=deep)
    found["one run by id"] = partial(index.get, f"run{count // 2:09}")
    found["the beginning of an id"] = partial(index.find_part, f"run{count // 2:09}"[:-1])
    found["refresh, nothing live"] = index.refresh
    return found


def rebuild_rate(directory: str, count: int = 2_000) -> float:
    """How many runs per second a rebuild reads from real journals."""
    state = StateDirectory.open(f"{directory}/rebuild")
    for number in range(count):
        path = state.run_path(f"run{number:09}")
        os.mkdir(path)
        spec = json.dumps(
            {"argv": ["claude", "-p", "hello"], "session": "s", "grace_s": 10.0, "ladder": "TERM:10s,KILL"}
        )
        data = journal_preamble(f"run{number:09}", "boot", BEGIN_NS, 1, spec.encode())
        detail = {"pid": 1, "guard_pid": 2, "start_ticks": 1, "containment": "cgroup"}
        data += encode_fact("started", detail, at_ns=2) + encode_fact("exited", {"wait_status": 0, **USAGE}, at_ns=3)
        data += encode_fact("tree", {"how": "gone", "count": 0}, at_ns=4) + encode_fact("end", USAGE, at_ns=5)
        with open(f"{path}/journal", "wb") as file:
            file.write(data)
    begin = time.perf_counter()
    with Index.open(state):
        return count / (time.perf_counter() - begin)


def main() -> int:
    """Print the table; 1 when a query takes longer than allowed at the larger size."""
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-index-") as directory, ExitStack() as stack:
        queries = []
        for count in SIZES:
            index = stack.enter_context(Index.open(StateDirectory.open(f"{directory}/{count}")))
            took = fill(index, count)
            queries.append(make_queries(index, count))
            print(f"{count:>7} rows written in {took:.2f} s ({count / took:,.0f}/s)")
        worst = 0.0
        print(f"{'median of ' + str(REPEATS):32} {SIZES[0]:>10} {SIZES[1]:>10}  ratio")
        for name in queries[0]:
            small, large = medians_ms([query[name] for query in queries])
            worst = max(worst, 0.0 if "unbounded" in name else large / small)
            print(f"{name:32} {small:8.3f}ms {large:8.3f}ms  {large / small:5.2f}")
        print(f"worst ratio {worst:.2f}, allowed {ALLOWED}")
        print(f"rebuild from journals: {rebuild_rate(directory):,.0f} runs/s")
        return int(worst > ALLOWED)


if __name__ == "__main__":
    sys.exit(main())
