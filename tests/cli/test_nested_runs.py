"""Runs in runs, from the command line: the innermost command keeps its grace when the outermost run ends."""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import TYPE_CHECKING

import pytest

from .console import HOLDFAST, holdfast, read_until, start
from .kept_runs import Runs

if TYPE_CHECKING:
    from pathlib import Path

# It takes a second to save its state, whatever else comes meanwhile, and says what did.
_SAVES = """
import os, signal, sys, time
got = []
def save(number, _frame):
    got.append(number)
    if len(got) > 1:
        return
    end = time.monotonic() + 1
    while time.monotonic() < end:
        time.sleep(max(0, end - time.monotonic()))
    with open(sys.argv[1], "w") as file:
        file.write(repr(got))
    os._exit(0)
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, save)
print("ready", flush=True)
while True:
    signal.pause()
"""
ENOUGH = ("--grace", "20")
SIGTERM, SIGINT = int(signal.SIGTERM), int(signal.SIGINT)


def nested(depth: int, mark: Path, outer: tuple[str, ...], *, env: str = "") -> list[str]:
    """`run OUTER -- holdfast run -- ... -- SAVES`; with `env` the inner runs know that directory and nothing else."""
    argv = [sys.executable, "-c", _SAVES, str(mark)]
    for level in range(depth - 1, 0, -1):
        clear = ["env", "-i", f"HOLDFAST_STATE_DIR={env}", f"PATH={os.environ['PATH']}"] if env else []
        argv = [*clear, *HOLDFAST, "run", "--id", f"level-{level}", *ENOUGH, "--", *argv]
    return ["run", "--id", "level-0", *outer, "--", *argv]


def end(command: list[str], *numbers: int) -> int:
    """Start it, send the signals to the outermost process when the innermost is ready; the exit code."""
    with start(*command) as process:
        assert process.stdout is not None
        read_until(process.stdout.fileno(), b"ready")
        for number in numbers:
            process.send_signal(number)
        return process.wait(60)


def assert_graceful(runs: Runs, depth: int) -> None:
    for level in range(1, depth):
        report = runs.report(f"level-{level}")
        assert (report["status"], report["cause"]) == ("cancelled", "parent"), level
        assert not report["escalated"], report["reason"]


@pytest.mark.parametrize("depth", [2, 3])
@pytest.mark.parametrize("clear", [False, True], ids=["environment", "cleared"])
@pytest.mark.parametrize(
    ("outer", "numbers", "code"),
    [
        (ENOUGH, [SIGTERM], 143),
        ((*ENOUGH, "--timeout", "10"), [], 124),
        (("--ladder", "TERM:200ms,INT:200ms,TERM:20s,KILL"), [SIGTERM], 143),
    ],
    ids=["signal", "timeout", "rungs"],
)
def test_the_command_keeps_its_grace(
    depth: int, clear: bool, outer: tuple[str, ...], numbers: list[int], code: int, tmp_path: Path, runs: Runs
) -> None:
    mark = tmp_path / "saved"
    assert end(nested(depth, mark, outer, env=str(runs.state) if clear else ""), *numbers) == code
    assert json.loads(mark.read_text()) == [SIGTERM], "one signal, and the time to act on it"
    assert_graceful(runs, depth)


def test_control_a_second_signal_to_the_outermost_kills(tmp_path: Path, runs: Runs) -> None:
    mark = tmp_path / "saved"
    with start(*nested(2, mark, ENOUGH)) as process:
        assert process.stdout is not None
        read_until(process.stdout.fileno(), b"ready")
        process.send_signal(SIGTERM)
        while not any(fact["fact"] == "signalled" for fact in runs.report("level-1")["evidence"]):
            os.sched_yield()
        process.send_signal(SIGTERM)
        assert process.wait(60) == 143
    assert not mark.exists()
    assert runs.report("level-0")["escalated"]


def test_control_an_outer_grace_that_is_too_short(tmp_path: Path) -> None:
    mark = tmp_path / "saved"
    assert end(nested(2, mark, ("--grace", "100ms")), SIGTERM) == 143
    assert not mark.exists()


@pytest.mark.parametrize(("grace", "is_saved"), [("20s", True), ("200ms", False)])
@pytest.mark.parametrize("depth", [2, 3])
def test_a_grace_of_the_request_bounds_the_outer_ladder(
    depth: int, grace: str, is_saved: bool, tmp_path: Path, runs: Runs
) -> None:
    """A short one ends the inner command by the outermost run's SIGKILL; a long one, the control, leaves it its own."""
    mark = tmp_path / "saved"
    with start(*nested(depth, mark, ("--grace", "20s"))) as process:
        assert process.stdout is not None
        read_until(process.stdout.fileno(), b"ready")
        assert holdfast("cancel", "--grace", grace, "level-0").returncode == 0
        assert process.wait(60) == 143
    assert mark.exists() is is_saved
    shortened = [fact["fact"] for fact in runs.report("level-0")["evidence"]].count("grace_shortened")
    assert shortened == (0 if is_saved else 1)
    if is_saved:
        assert_graceful(runs, depth)
