"""The page of the trials: made from its results, with unfavourable cells and cells that could not be measured."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from trials.finding import Finding

from trials import page

MACHINE = {
    "processor": "P",
    "cores": 2,
    "kernel": "6.1",
    "containment": "subreaper alone",
    "at": "2026-11-18T00:00:00",
}


def results(**cells: Finding) -> dict[str, Any]:
    """Results of one scene in one harness."""
    ways = {way: {"at": MACHINE["at"], "load": 1.0, **asdict(found)} for way, found in cells.items()}
    return {"machine": MACHINE, "versions": {"claude": "9.9"}, "cells": {"daemons": {"claude": ways}}}


def test_both_ways_are_shown_with_what_was_measured() -> None:
    alone = Finding(
        left=2, left_memory_bytes=3 * 2**20, hung_s=0.4, printed_bytes=20, kept_bytes=20, told=["started | <b>\n_x_"]
    )
    known = results(alone=alone, holdfast=Finding(left=0, hung_s=1.25, printed_bytes=20, kept_bytes=5))
    made = page.render(known)
    assert "Claude Code 9.9" in made
    assert "| a command leaves daemons | 2 → 0 |" in made
    assert "| Claude Code | 2 | 3.0 MiB | 0.4 s | 1 | 0 of 20 | started \\| &lt;b> \\_x\\_ |" in made
    assert "| with Holdfast | 0 |  | 1.2 s | 1 | 15 of 20 | nothing |" in made
    assert "| a command leaves daemons | 2 → 0 |" in page.excerpt(known)


def test_an_unfavourable_cell_is_not_hidden() -> None:
    known = results(alone=Finding(), holdfast=Finding(left=3, hung_s=60.0, ended_by_trial=True))
    assert "0 → 3" in page.excerpt(known)
    assert "| with Holdfast | 3 | 0.0 MiB | > 60.0 s |" in page.render(known)


def test_a_cell_that_could_not_be_measured_says_why() -> None:
    known = results(alone=Finding(failure="npm cannot install it"))
    assert "| a command leaves daemons | ? → ? |" in page.excerpt(known)
    assert "not measured: npm cannot install it" in page.render(known)
