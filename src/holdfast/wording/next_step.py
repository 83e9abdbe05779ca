"""The next step after a run that did not succeed: a sentence for each status and cause."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..outcome import Outcome

_OF_LIMIT = {
    "memory": "give it more (--memory), or let it do less at once.",
    "processes": "give it more (--pids), or look for what it starts again and again.",
    "output": "give it more (--max-output), or keep head and tail of it (--on-max-output roll).",
    "cpu": "give it more (--cpu-time), or look for what it repeats.",
}
_STEPS: dict[tuple[str, str | None], str] = {
    ("succeeded", None): "",
    ("failed", "exit"): "holdfast logs {run} shows all that it wrote.",
    ("failed", "signal"): "nobody of Holdfast sent this signal: holdfast logs {run} shows what it wrote before.",
    ("failed", "spawn"): "mend the command, its working directory or its rights, and run it again.",
    ("failed", None): "a budget is spent: raise it, or let the command do less.",
    ("timed_out", "deadline"): "give it more time (--timeout), or move the deadline while it runs: holdfast extend.",
    ("timed_out", "idle"): "let it be silent for longer (--idle-timeout), or count more (--idle-counts output,cpu).",
    ("timed_out", "queue"): "it never began: give the daemon more room (--max-runs), or wait longer (--queue-timeout).",
    ("cancelled", None): "",
    ("lost", "guard"): "its guard was killed, so nobody knows how it would have ended: run it again if that is safe.",
    ("lost", "host"): "its host is gone, so nobody knows how far it came: run it again if that is safe.",
    ("lost", "unseen"): "nobody saw its exit code: look at what it wrote, and run it again if that is safe.",
}


def next_step(outcome: Outcome, run_id: str, limit: str | None) -> str:
    """What to try next; empty for a run that succeeded or was cancelled, and before the verdict."""
    if outcome.status is None:
        return ""
    found = (
        _OF_LIMIT.get(limit or ""),
        _STEPS.get((outcome.status, outcome.cause)),
        _STEPS.get((outcome.status, None)),
    )
    return next((step for step in found if step), "").format(run=run_id)
