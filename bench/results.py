"""Questions to the results of one run: a median, a ratio of two peers, a percentile; None when it was not measured."""

from __future__ import annotations

import statistics
from typing import Any

Results = dict[str, Any]  # figure name: the result of campaign.carry_out for it


def median(results: Results, figure: str, peer: str, field: str) -> float | None:
    """The median of a number over the rounds."""
    found = _field(results, figure, peer, field)
    return None if found is None else float(found["median"])


def percentile(results: Results, figure: str, peer: str, field: str, which: str) -> float | None:
    """`p50`, `p99` or `max` of pooled observations."""
    found = _field(results, figure, peer, field)
    return None if found is None else float(found[which])


def ratio(results: Results, figure: str, peer: str, other: str, field: str) -> float | None:
    """The median, over the rounds, of peer / other within one round: a disturbance of both does not count."""
    mine, theirs = _field(results, figure, peer, field), _field(results, figure, other, field)
    if mine is None or theirs is None:
        return None
    return float(statistics.median(a / b for a, b in zip(mine["rounds"], theirs["rounds"], strict=True)))


def spread(results: Results, figure: str, peer: str, field: str) -> tuple[float, float] | None:
    """The smallest and the largest round."""
    found = _field(results, figure, peer, field)
    return None if found is None else (min(found["rounds"]), max(found["rounds"]))


def section(results: Results, name: str) -> dict[str, Any]:
    """The figures of one section, in order."""
    return {figure: result for figure, result in results.items() if result["section"] == name}


def _field(results: Results, figure: str, peer: str, field: str) -> dict[str, Any] | None:
    found: dict[str, Any] | None = results.get(figure, {}).get("peers", {}).get(peer, {}).get(field)
    return found
