"""Claude Code itself, as npm has it: it leaks without Holdfast, and does not with it. `make trials` has the others."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from rigs import harnesses

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.timeout(600)  # the first time on a machine npm downloads the harness
def test_what_claude_code_leaves_is_ended_by_holdfast(tmp_path: Path) -> None:
    harnesses.install(harnesses.RIGS["claude"])
    page = tmp_path / "trials.md"
    scenes = ["--scene", "daemons", "--scene", "killed"]
    command = [sys.executable, "-m", "trials", "--harness", "claude", *scenes, "--output", str(page)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    cells = json.loads(page.with_suffix(".json").read_text())["cells"]
    left = {(scene, way): cells[scene]["claude"][way]["left"] for scene in cells for way in ("alone", "holdfast")}
    assert left["daemons", "alone"] == 2, done.stdout  # the control: without Holdfast they stay
    assert left["killed", "alone"] >= 4, done.stdout
    assert left["daemons", "holdfast"] == left["killed", "holdfast"] == 0, done.stdout
    assert done.returncode == 0, done.stdout + done.stderr  # a cell that was not measured is a failure, too
