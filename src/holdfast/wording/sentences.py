"""The outcome of a run as one sentence for people: how it ended, which processes are left, what output is lost."""

from __future__ import annotations

from ..values.fast_imports import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ..outcome import LostOutput, Outcome
    from ..values.spec import RunSpec


def ended(outcome: Outcome, spec: RunSpec) -> str | None:
    """How a settled run ended; None when its exit code says everything."""
    how = _how(outcome, spec)
    left = _survivors(outcome)
    if how is None and left is None:
        return None
    return "; ".join(filter(None, (how or outcome.reason, left, f"run {spec.run_id}")))


def _how(outcome: Outcome, spec: RunSpec) -> str | None:
    reason = outcome.reason or "no reason is known"
    match outcome.status, outcome.cause:
        case "failed", "spawn":
            return f"cannot run {spec.argv[0]!r}: {reason}"
        case ("succeeded", _) | ("failed", "exit" | "signal"):
            # The guard ended processes although the command was done: a user of `&` must hear of that.
            return reason if outcome.stragglers is not None and spec.stragglers == "kill" else None
        case "cancelled", _:
            return reason
        case _:
            return f"{(outcome.status or 'lost').replace('_', ' ')}: {reason}"


def _survivors(outcome: Outcome) -> str | None:
    if outcome.tree is None or outcome.tree.detail["how"] != "survivors":
        return None
    pids = [str(survivor["pid"]) for survivor in outcome.tree.detail["survivors"]]
    policy = None if outcome.stragglers is None else outcome.stragglers.detail["policy"]
    how = {"leave": "left alone", "session": "going on with the session"}.get(str(policy), "could not be ended")
    return f"{how}: process {', '.join(pids)}"


def rolled(missing: Mapping[str, Any]) -> str:
    """How much of each stream is missing between the head and the tail of an output that rolled."""
    streams = [(missing[f"{stream}_bytes"], stream) for stream in ("stdout", "stderr")]
    return " and ".join(f"{count} bytes of {stream}" for count, stream in streams if count)


def output_lost(lost: LostOutput) -> str:
    """Which output the journal could not keep, and why."""
    return f"output could not be kept: {lost}"
