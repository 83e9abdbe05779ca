"""Runs on a real Ray cluster of two nodes, which one program starts, uses and ends."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from . import engine_scenarios, scenarios

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = [pytest.mark.xdist_group("ray"), pytest.mark.timeout(600)]
# The last of the others kill parts of the cluster.
NAMES = [*engine_scenarios.SCENARIOS, *(scenario.__name__ for scenario in scenarios.QUICK)]


@pytest.fixture(scope="module")
def results() -> Mapping[str, str | None]:
    """The traceback of each scenario, by its name; None: it holds."""
    command = [sys.executable, "-m", "tests.ray.cluster_program", *NAMES]
    done = subprocess.run(
        command, cwd=Path(__file__).parents[2], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=500
    )
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"name"')]
    found = {line["name"]: line["error"] for line in lines}
    assert found, done.stderr[-3000:]
    return found


@pytest.mark.parametrize("name", [*NAMES, "nothing is left"])
def test_on_a_cluster(results: Mapping[str, str | None], name: str) -> None:
    assert results.get(name, "the program ended before this scenario") is None, results.get(name)
