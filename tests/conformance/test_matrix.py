"""The matrix: rows by settings, what it counts as a failure, and a part of it as root."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conformance import matrix

from ..support.shimmed import mutated_guard

ROOT = Path(__file__).resolve().parent.parent.parent
PART = ("--row", "exit-codes", "--row", "kills-parent-hidden", "--setting", "root, none")


def cells(**verdicts: str) -> dict[str, dict[str, dict[str, Any]]]:
    """The results of one setting: by row, the same verdict for each way."""
    return {
        row.replace("_", "-"): {way: {"verdict": verdict, "reason": "because"} for way in matrix.WAYS}
        for row, verdict in verdicts.items()
    }


def test_a_cell_that_failed_or_was_not_judged_is_a_failure() -> None:
    good = {"one": cells(daemon="held", storm="not applicable")}
    assert matrix.failures(good) == []
    for verdict in ("failed", "broken", "absent"):
        assert len(matrix.failures({**good, "two": cells(daemon=verdict)})) == len(matrix.WAYS), verdict


def test_the_table_has_every_row_and_every_setting() -> None:
    lines = matrix.table({"one": cells(daemon="held"), "two": cells(daemon="failed")}).splitlines()
    assert lines[0].split() == ["one", "two"]
    assert lines[1].split() == ["daemon", "✓✓✓", "FFF"]
    assert lines[-1] == "1 rows; held: one: 3 of 3; two: 0 of 3"


def test_a_setting_without_its_containment_is_a_failure() -> None:
    with_cgroup, without = matrix.SETTINGS[0], matrix.SETTINGS[1]
    for setting in (with_cgroup, without):
        assert matrix.contained_wrongly(setting, "cgroup v2 leaf per run") is (setting is without)


def run_part(**environment: str) -> subprocess.CompletedProcess[str]:
    """A part of the matrix, as `make matrix` starts it."""
    command = [sys.executable, "-m", "conformance.matrix", *PART]
    return subprocess.run(
        command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.root
def test_a_part_of_it_holds() -> None:
    done = run_part()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 rows; held: root, none: 6 of 6" in done.stdout


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.root
def test_control_a_guard_without_its_sentinels_help_fails_it(tmp_path: Path) -> None:
    old = "takeover(run, signals, &lost)"
    guard = mutated_guard(tmp_path, "sentinel.c", old, f"(lost.guard_pid < 0 ? {old} : 0)")
    done = run_part(HOLDFAST_GUARD=str(guard))
    assert done.returncode == 1, done.stdout + done.stderr
    assert "kills-parent-hidden, holdfast run: failed" in done.stderr
    assert "exit-codes, holdfast" not in done.stderr
