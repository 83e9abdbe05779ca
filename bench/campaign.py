"""Carry out a plan: peers in turns, round after round, so that a noisy minute affects all of them alike."""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .cost import Sample
    from .native import Programs
    from .plan import Figure, Peer
    from .progress import Progress

_TOO_LONG_S = 300
_ROOT = Path(__file__).resolve().parent.parent


def carry_out(plan: Sequence[Figure], programs: Programs, scratch: Path, progress: Progress) -> dict[str, Any]:
    """The results by figure; a peer that fails has an `error` instead of numbers, and the others go on."""
    results = {}
    for figure in plan:
        parameters = figure.parameters | {
            "limit": programs.limit,
            "shim": programs.shim,
            "scratch": str(scratch),
        }
        samples: dict[str, list[Sample]] = {peer.name: [] for peer in figure.peers}
        errors: dict[str, str] = {}
        for number in range(figure.rounds):
            for peer in figure.peers:
                progress.step(f"{figure.section}, {figure.setting}", f"{peer.name}, round {number + 1}")
                if peer.name not in errors:
                    _measure(peer, parameters, samples[peer.name], errors)
        results[figure.name] = {
            "section": figure.section,
            "setting": figure.setting,
            "parameters": figure.parameters,
            "rounds": figure.rounds,
            "peers": {name: _summary(taken) for name, taken in samples.items() if name not in errors},
            "errors": errors,
        }
    return results


def steps(plan: Sequence[Figure]) -> int:
    """How many measurements a plan takes."""
    return sum(len(figure.peers) * figure.rounds for figure in plan)


def _measure(peer: Peer, parameters: dict[str, Any], samples: list[Sample], errors: dict[str, str]) -> None:
    if peer.function == "shim" and parameters["shim"] is None:
        errors[peer.name] = "absent: there is no ziglang to build it with"
        return
    command = [sys.executable, "-m", "bench.worker", peer.module, peer.function, json.dumps(parameters)]
    try:
        done = subprocess.run(command, cwd=_ROOT, capture_output=True, timeout=_TOO_LONG_S, check=False)
    except subprocess.TimeoutExpired:
        errors[peer.name] = f"no result within {_TOO_LONG_S} s"
        return
    if done.returncode != 0:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        errors[peer.name] = lines[-1] if lines else f"exit code {done.returncode}"
        return
    samples.append(json.loads(done.stdout))


def _summary(samples: list[Sample]) -> dict[str, dict[str, Any]]:
    """Medians of numbers, percentiles of pooled observations."""
    summary: dict[str, dict[str, Any]] = {}
    for name, first in samples[0].items():
        if isinstance(first, list):
            pooled = [value for sample in samples for value in _listed(sample[name])]
            summary[name] = {
                "p50": _percentile(pooled, 50),
                "p99": _percentile(pooled, 99),
                "max": max(pooled),
                "count": len(pooled),
            }
        else:
            values = [float(str(sample[name])) for sample in samples]
            summary[name] = {"median": statistics.median(values), "rounds": values}
    return summary


def _listed(value: float | list[float]) -> list[float]:
    return value if isinstance(value, list) else [value]


def _percentile(values: list[float], percent: int) -> float:
    """The smallest value that is not below `percent` of all values."""
    return sorted(values)[math.ceil(len(values) * percent / 100) - 1]
