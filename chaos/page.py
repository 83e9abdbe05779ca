"""Write docs/reliability.md from docs/reliability.json: the last campaign of each containment."""

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
Afterwards, and after one sweep, the campaign checks for every run:

1. **Nothing is left**: no process (the driver is a subreaper: a process that escapes becomes its child), no cgroup, no
   socket, no half-made directory.
2. **Every run is terminal, with an outcome that its evidence supports**: an oracle that shares no code with Holdfast
   finds the first decisive fact of the journal. A run is `lost` only if its guard was killed. A verdict that was on
   record before a kill stays. The exit code is the one that the command was told to use. Owners saw the same outcome.
3. **Every byte that was seen in a journal is still there**, unchanged. The numbered lines of writers have no gap and no
   duplicate, and lines that were read to the end of file are complete.
4. **The index has every run exactly once**, with the journal's own status, cause and tree.

`python -m chaos --output docs/reliability.md` writes this page from the figures in
[reliability.json](reliability.json); no figure is typed by hand. The test suite includes 200 such runs.
"""
_TITLES = {"cgroup": "With a cgroup for each run", "subreaper": "Without a cgroup (an ordinary user's default)"}
_GAP = """
**The known gap.** Without a cgroup, the guard is the only witness of the tree, and SIGKILL can kill the guard, too.
Holdfast then finds and ends every process that carries the run's token. Nobody can tell which run a daemon belongs to
if it also cleared its environment, and the record says so: its tree is `unknown`, never `gone`. Here {guards} killed
guards left {leaks} such processes; {daemons} of the {runs} commands were such daemons. The driver, a subreaper, saw,
counted and killed them. They are no violations. A daemon that its run had named, and whose guard was not killed, would
be one.
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
