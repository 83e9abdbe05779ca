"""What the pytest plugin costs on our own suite: `python -m bench.plugin_cost [ROUNDS [TEST...]]`.

The same tests run with `--holdfast` and without it, in turns: each round has both, and the next round has them in the
other order. The CPU time is that of the pytest process alone, because other processes of the machine take none of it.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

# 2,216 tests of a few milliseconds each: where a check after each test costs most.
TESTS = ("tests/values", "tests/test_outcome.py", "--deselect=tests/values/test_options.py")
WAYS = {"without": (), "with": ("--holdfast",)}
_TOLD = "HOLDFAST_PLUGIN_COST"


class Cost(NamedTuple):
    """What one run of the tests took."""

    cpu_s: float
    wall_s: float


def pytest_unconfigure() -> None:
    """Write down the CPU time of this process: this module is also the plugin that tells it."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    Path(os.environ[_TOLD]).write_text(str(used.ru_utime + used.ru_stime))


def measure(way: str, tests: list[str], told: Path) -> Cost:
    """Run the tests once. CalledProcessError: one of them failed."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "bench.plugin_cost"]
    begin = time.monotonic()
    subprocess.run(
        [*command, *WAYS[way], *tests], check=True, stdout=subprocess.DEVNULL, env={**os.environ, _TOLD: str(told)}
    )
    wall_s = time.monotonic() - begin
    return Cost(float(told.read_text()), wall_s)


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    tests = sys.argv[2:] or list(TESTS)
    costs: dict[str, list[Cost]] = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory() as directory:
        told = Path(directory) / "told"
        measure("without", tests, told)  # nobody counts the first one: it fills the caches
        for number in range(rounds):
            for way in sorted(WAYS, reverse=number % 2 == 0):
                costs[way].append(measure(way, tests, told))
    for way, taken in costs.items():
        cpu, wall = (sorted(each) for each in zip(*taken, strict=True))
        sys.stdout.write(
            f"{way:8} CPU median {statistics.median(cpu):.3f} s ({cpu[0]:.3f} to {cpu[-1]:.3f}), "
            f"time median {statistics.median(wall):.3f} s ({wall[0]:.3f} to {wall[-1]:.3f})\n"
        )
    pairs = list(zip(costs["with"], costs["without"], strict=True))
    for name, ratios in (
        ("CPU", [a.cpu_s / b.cpu_s for a, b in pairs]),
        ("time", [a.wall_s / b.wall_s for a, b in pairs]),
    ):
        sys.stdout.write(f"{name}: the plugin adds {(statistics.median(ratios) - 1) * 100:+.2f} % (median of rounds)\n")


if __name__ == "__main__":
    main()
