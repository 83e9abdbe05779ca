"""Write docs/reliability.md from docs/reliability.json: the last campaign of each containment."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from .tally import rows

if TYPE_CHECKING:
    from pathlib import Path

_HEAD = """# Reliability: what held while everything was killed or stopped

`make chaos RUNS=10000 SEED=1` runs one campaign in each containment that the machine has. A campaign starts durable
runs of misbehaving commands from several owner processes in one state directory: commands that ignore SIGTERM,
double-forked daemons with a cleared environment, chains that re-fork every millisecond, writers, stragglers, nested
runs, timeouts with a late exit 0. Meanwhile SIGKILL goes to guards, sentinels, both at once, the writers of journals,
owners, leaders, other processes of the runs, and to the readers that cancel, sweep and recover. SIGSTOP goes to guards,
once and again and again, to sentinels, to both at once, to writers (one in five blows finds the writer stopped), and to
owners. All moments are drawn from the seed. Nobody continues what was
stopped but the three themselves: guard and sentinel continue each other, and the owner continues both. The campaign
continues stopped owners, each after a while, and a sentinel and its guard whose owner is dead. Afterwards, and after
one sweep, the campaign checks for every run:

1. **Nothing is left**: no process (the driver is a subreaper: a process that escapes becomes its child), no cgroup, no
   socket, no half-made directory.
2. **Every run is terminal, with an outcome that its evidence supports**: an oracle that shares no code with Holdfast
   finds the first decisive fact of the journal. A run is `lost` only if its guard was killed, or stopped again and
   again. A verdict that was on record before a blow stays. The exit code is the one that the command was told to use.
   Owners saw the same outcome. `tree: gone` is on record only where a guard or a sentinel was left to prove it.
3. **Every byte that was seen in a journal is still there**, unchanged. The numbered lines of writers have no gap and no
   duplicate, and lines that were read to the end of file are complete.
4. **Deadlines hold**: a run with a deadline is over by its deadline, grace, drain and kill-wait plus two seconds, while
   its owner, its guard or its sentinel is stopped, too.
5. **The index has every run exactly once**, with the journal's own status, cause and tree.

`python -m chaos --output docs/reliability.md` writes this page from the figures in
[reliability.json](reliability.json); no figure is typed by hand. The test suite includes 200 such runs.
"""
_FOUND = """
## What a campaign found

Two campaigns of 10,000 runs each, with seed 13 (2026-11-18, load 20 to 40 on two cores), had 28 violations without a
cgroup, of which the program showed the first 20, and 4 with one. Four were of the first minutes of one campaign, when
the machine seems to have stood still. The others that were shown have three causes, and all are mended: an owner took
the socket of a reaped guard for a guard without room, and failed; the oracle did not know a command that is stopped
while it is held; and a guard that was killed after it had read output, and before it had recorded it, lost that output
(one run, 4,951 bytes). Output is now moved into the journal without a stop in the guard's memory
([decision 30](decisions/0030-output-is-moved-not-read.md)).

After that, 20,000 runs in each containment had no violation (2026-11-18, eight campaigns of 2,500 each, load 8 to 340;
seeds 101 to 104 and, with blows against writers, 201 to 204). A writer that is stopped when its sentinel and its guard
are killed was found by a program that tries such orders one by one, and not by a campaign.
"""
_TITLES = {"cgroup": "With a cgroup for each run", "subreaper": "Without a cgroup (an ordinary user's default)"}
_GAP = """
**The known gap.** Only a parent can prove the end of a tree. When sentinel and guard are killed in one instant, the
next program that looks ends the members of the run's cgroup, if it has one, and every process that carries the run's
token. The record says `unknown` then, never `gone`. Without a cgroup that happened to {pairs} of {runs} runs. A daemon
that cleared its environment has no token, and a chain that re-forks every millisecond is faster than a list of
processes: nothing could find them then. This campaign therefore spares such commands this one blow, and kills only
their guard.
"""


def write(results: dict[str, Any], path: Path) -> None:
    """Put these figures into the JSON beside the page, and write the page from it."""
    source = path.with_suffix(".json")
    path.parent.mkdir(parents=True, exist_ok=True)
    known: dict[str, Any] = json.loads(source.read_text(encoding="utf-8")) if source.exists() else {}
    known[results["containment"]] = results
    source.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
    path.write_text(render(known), encoding="utf-8")


def render(known: dict[str, Any]) -> str:
    """The text of the page."""
    return _HEAD + "".join(_section(title, known[kind]) for kind, title in _TITLES.items() if kind in known) + _FOUND


def _section(title: str, results: dict[str, Any]) -> str:
    where = results["machine"]
    what = f"{where['processor']}, {where['cores']} cores, {where['memory_gib']} GiB, Linux {where['kernel']}"
    lines = [
        f"\n## {title}",
        "",
        f"{where['at'][:10]}, {what}, {where['python']}.",
        "",
        "| | |",
        "|---|---|",
        *(f"| {name} | {value} |" for name, value in rows(results)),
        f"| load of the machine | {where['load_before']} before, {results['load_after']} after |",
    ]
    text = "\n".join(lines) + "\n"
    if results["containment"] == "subreaper":
        text += _GAP.format(pairs=results["kills"].get("both at once", 0), runs=results["runs"])
    return text
