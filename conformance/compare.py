"""Whether several runs agree on the verdict of every cell. The parts in which a cell failed may differ: a race has
more than one way to be lost."""

from __future__ import annotations

from typing import Any

Verdict = tuple[str, ...]


def differing(runs: list[dict[str, Any]]) -> dict[tuple[str, str], list[Verdict | None]]:
    """The cells, by row and peer, whose verdicts differ between runs; None where a run does not have the cell."""
    keys = dict.fromkeys((row, peer) for run in runs for row, found in run["cells"].items() for peer in found)
    found = {}
    for row, peer in keys:
        verdicts = [_verdict(run["cells"].get(row, {}).get(peer)) for run in runs]
        if len({verdict and verdict[0] for verdict in verdicts}) > 1:
            found[row, peer] = verdicts
    return found


def in_words(found: dict[tuple[str, str], list[Verdict | None]], runs: int) -> str:
    """One line for each difference, and the number of differences."""
    lines = [
        f"{row}, {peer}: {' | '.join(' '.join(verdict) if verdict else 'not run' for verdict in verdicts)}"
        for (row, peer), verdicts in found.items()
    ]
    lines.append(f"{len(found)} cells differ between {runs} runs" if found else f"{runs} runs agree in every cell")
    return "\n".join(lines)


def _verdict(cell: dict[str, Any] | None) -> Verdict | None:
    if cell is None:
        return None
    return (cell["verdict"], *sorted({finding["aspect"] for finding in cell.get("findings", ())}))
