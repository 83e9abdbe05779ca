"""Who asks for the end of a run, what is under way, and what happens: the table of docs/ending.md and native/stop.c."""

from __future__ import annotations

ASKERS = {
    "program": "a program: the library, HTTP, MCP, the sidecar; a closed session, a shutdown, a retried request",
    "person": "a person: Ctrl-C or a signal at `holdfast run`, `holdfast cancel`",
    "now": 'anybody who says `now`: `--now`, `now=True`, `"now": true`, a second Ctrl-C at `holdfast run`',
    "parent": "a rung of the run in which this run is nested, however deep",
    "owner": "the end of the process that owns the run, or with `--with-parent` of the one that started `holdfast`",
    "clock": "the deadline, the idle clock, a budget",
}
STAGES = {
    "held": "not started",
    "alive": "running",
    "grace": "in its grace",
    "insisted": "in its grace, and a person has asked",
    "last": "being killed",
    "over": "ended",
}
ACTS = {
    "none": "no clock runs yet",
    "quiet": "never starts",
    "begin": "the ladder begins",
    "begin_last": "killed",
    "join": "joins",
    "climb": "next rung",
    "climb_last": "killed",
    "refuse": "too late",
}
_JOINS = ("quiet", "begin", "join", "join", "join", "refuse")
TABLE = {
    "program": _JOINS,
    "person": ("quiet", "begin", "join", "climb", "join", "refuse"),
    "now": ("quiet", "begin_last", "climb_last", "climb_last", "join", "refuse"),
    "parent": _JOINS,
    "owner": _JOINS,
    "clock": ("none", *_JOINS[1:]),
}


def act(asker: str, stage: str) -> str:
    """What happens."""
    return TABLE[asker][list(STAGES).index(stage)]


def rendered() -> str:
    """The table as Markdown."""
    lines = [f"| who asks | {' | '.join(STAGES.values())} |", "|---" * (len(STAGES) + 1) + "|"]
    for asker, text in ASKERS.items():
        cells = [ACTS[found] for found in TABLE[asker]]
        lines.append(f"| {text} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
