"""The figures of a campaign, and the table that shows them."""

from __future__ import annotations

from collections import Counter
from typing import Any


class Tally:
    """Counts of a campaign."""

    def __init__(self) -> None:
        self.runs = 0
        self.never_made = 0
        self.kinds: Counter[str] = Counter()
        self.lifetimes: Counter[str] = Counter()
        self.outcomes: Counter[str] = Counter()
        self.nested: Counter[str] = Counter()
        self.trees: Counter[str] = Counter()
        self.kills: Counter[str] = Counter()
        self.stops: Counter[str] = Counter()
        self.moments: Counter[str] = Counter()
        self.answers: Counter[str] = Counter()
        self.cancels = 0
        self.sessions_closed = 0
        self.recoveries = 0
        self.lost_guards = 0
        self.orphans = 0
        self.left = 0
        self.bytes = 0
        self.lines = 0

    @property
    def made(self) -> int:
        """How many run directories there must be: one for each run that was not refused, and for each nested run."""
        return sum(self.trees.values()) + sum(self.nested.values())

    def as_dict(self) -> dict[str, Any]:
        """The counts for JSON; counters sorted by size."""
        return {
            name: dict(value.most_common()) if isinstance(value, Counter) else value
            for name, value in vars(self).items()
        }


def rows(results: dict[str, Any]) -> list[tuple[str, str]]:
    """The summary for people: a name and a value in each row."""
    return [
        ("runs", f"{results['runs']}, {sum(results['nested'].values())} nested ones besides"),
        ("seed, containment", f"{results['seed']}, {results['containment']}"),
        ("commands", _listed(results["kinds"])),
        ("planned again", f"{results['never_made']}, because the owner was killed before it came to them"),
        ("lifetimes", _listed(results["lifetimes"])),
        ("killed", _listed(results["kills"])),
        ("stopped", _listed(results["stops"])),
        ("guards died after", _listed(results["moments"])),
        ("asked to stop", f"{results['cancels']} runs, {results['sessions_closed']} sessions"),
        ("outcomes", _listed(results["outcomes"])),
        ("of nested runs", _listed(results["nested"])),
        ("trees", _listed(results["trees"])),
        ("finished by others", f"{results['lost_guards']} runs, {results['recoveries']} of them by sweeps"),
        ("orphans ended", str(results["orphans"])),
        ("processes left", str(results["left"])),
        ("output", f"{results['bytes']} bytes, {results['lines']} numbered lines compared"),
        ("index", f"{results['indexed']} runs, each once"),
        ("time", f"{results['seconds']} s, {results['runs_per_second']} runs/s"),
        ("violations", str(results["violations"])),
    ]


def table(results: dict[str, Any]) -> str:
    """The summary as text."""
    return "\n".join(f"{name:20} {value}" for name, value in rows(results))


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items()) or "none"
