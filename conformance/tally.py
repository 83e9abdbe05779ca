"""Questions to the results of one run: how many rows held, and in which parts a cell failed."""

from __future__ import annotations

from typing import Any

LETTERS = {"status": "S", "bytes": "B", "time": "T", "left": "L"}


def tally(measured: dict[str, Any], peer: str) -> tuple[int, int]:
    """How many rows held for a peer, and how many apply to it."""
    verdicts = [found[peer]["verdict"] for found in measured["cells"].values()]
    return verdicts.count("held"), verdicts.count("held") + verdicts.count("failed")


def aspects(cell: dict[str, Any]) -> list[tuple[str, str]]:
    """The letters and names of the parts that did not hold, in the order in which the page explains them."""
    found = {finding["aspect"] for finding in cell.get("findings", ())}
    return [(letter, name) for name, letter in LETTERS.items() if name in found]
