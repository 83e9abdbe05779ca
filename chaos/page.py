"""docs/reliability.md, from docs/reliability.json: the last campaign of each containment."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from .tally import rows

if TYPE_CHECKING:
    from pathlib import Path

_HEAD = """# Reliability: what held while everything was killed

`make chaos RUNS=10000 SEED=1` starts durable runs of misbehaving commands from several owner processes in one state
directory: commands that ignore SIGTERM, double-forked daemons with a cleared environment, chains that re-fork every
millisecond, writers, stragglers, nested runs, timeouts with a late exit 0. Meanwhile SIGKILL goes to guards, owners,
leaders, other processes of the runs, and to the readers that cancel, sweep and recover, at moments drawn from the seed.
Afterwards, and after one sweep, all of this is checked, for every run:

1. **Nothing is left**: no process (the driver is a subreaper: whatever escapes becomes its child), no cgroup, no
   socket, no half-made directory.
2. **Every run is terminal, with an outcome that its evidence supports**: the first decisive fact of its journal, found
   by an oracle that shares no code with Holdfast; `lost` only where the guard was killed; a verdict that was on record
   before a kill stays; exit codes are those the command was told to exit with; owners were told the same.
3. **Every byte that was seen in a journal is still there**, unchanged; numbered lines of writers have no gap and no
   duplicate, and those read to the end of file are complete.
4. **The index has every run exactly once**, with the journal's own status, cause and tree.

This page is written by `python -m chaos --output docs/reliability.md` from the figures in
[reliability.json](reliability.json); no figure on it is typed by hand. 200 runs of it are part of
the test suite.
"""
_TITLES = {"cgroup": "With a cgroup for each run", "subreaper": "Without a cgroup (an ordinary user's default)"}
_GAP = """
**The known gap.** Without a cgroup, a guard that is itself killed with SIGKILL takes the tree's one witness with it.
What carries the run's token is found and ended; a daemon that also cleared its environment cannot be attributed by
anybody, and the record says so: its tree is `unknown`, never `gone`. Here {leaks} such processes were left by {guards}
killed guards; {daemons} of the {runs} commands were such daemons. They were seen because the driver is a subreaper,
and counted, and killed; they are no violations. One that its run had named, and whose guard was not killed, would be.
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
    """The page."""
    return _HEAD + "".join(_section(title, known[kind]) for kind, title in _TITLES.items() if kind in known)


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
        text += _GAP.format(
            leaks=sum(results["leaks"].values()),
            guards=results["kills"].get("guard", 0),
            daemons=results["kinds"].get("daemon", 0),
            runs=results["runs"],
        )
    return text
