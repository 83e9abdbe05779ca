"""Sessions: a trial counts what a harness leaves, ends it, and leaves nothing itself, also when it is interrupted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ..support.processes import descendants, describe

ROOT = Path(__file__).resolve().parents[2]
BOUND_S = 120


def trial(rigs: Path, *words: str) -> subprocess.Popen[str]:
    """A session with the fake harness, as a process of its own."""
    command = [sys.executable, "-m", "tests.trials.fake_harness", *words]
    environment = {**os.environ, "HOLDFAST_RIGS": str(rigs), "TMPDIR": str(rigs)}
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def found(rigs: Path, scene: str) -> dict[str, Any]:
    """The finding of a scene."""
    with trial(rigs, scene) as running:
        said, complaint = running.communicate(timeout=BOUND_S)
    assert running.returncode == 0, complaint
    finding: dict[str, Any] = json.loads(said)
    return finding


def test_daemons_are_counted_and_ended(tmp_path: Path) -> None:
    finding = found(tmp_path, "daemons")
    assert finding["left_commands"] == ["sleep 300", "sleep 301"]
    assert finding["left"] == 2
    assert finding["left_memory_bytes"] > 0
    assert finding["told"] == ["started-TOKEN\n"]
    assert finding["kept_bytes"] == finding["printed_bytes"] > 0


def test_a_plain_command_leaves_nothing(tmp_path: Path) -> None:
    finding = found(tmp_path, "plain")
    assert (finding["left"], finding["failure"], finding["ended_by_trial"]) == (0, None, False)


def test_a_scene_that_the_harness_cannot_play_says_why(tmp_path: Path) -> None:
    assert "offers no such tool: echo is not among bash" in found(tmp_path, "mcp-server")["failure"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_trial_leaves_nothing(tmp_path: Path, number: int) -> None:
    """The command hangs for minutes: the signal comes while the harness, the command and a daemon are running."""
    with trial(tmp_path, "holds-stdout") as running:
        sleepers: list[str] = []
        while len(sleepers) < 2 and running.poll() is None:
            sleepers = [line for line in map(describe, descendants(running.pid)) if " sleep 30" in line]
        running.send_signal(number)
        running.communicate(timeout=BOUND_S)
    assert running.returncode != 0
    assert not [line for line in map(describe, descendants(os.getpid())) if " sleep 30" in line]
