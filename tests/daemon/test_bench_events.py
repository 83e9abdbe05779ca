"""The benchmark of event streams can be run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from bench.events import Plan

ROOT = Path(__file__).resolve().parents[2]


def test_a_small_one_loses_nothing() -> None:
    command = [sys.executable, "-m", "bench.events", "--subscribers", "20", "--rate", "200", "--seconds", "0.5"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=60, check=False)
    measured = json.loads(done.stdout)
    assert (measured["events"], measured["received"], measured["lost"]) == (100, 2000, 0)
    assert (measured["out_of_order"], measured["dropped_clients"]) == (0, 0)


def test_the_standard_is_what_was_promised() -> None:
    assert (Plan().subscribers, Plan().rate) == (1000, 100.0)
