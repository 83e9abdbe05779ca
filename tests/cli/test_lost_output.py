"""Output that the journal could not keep: the command that should have passed it on says so, and never exits with 0."""

from __future__ import annotations

import os
import resource
import signal
from typing import TYPE_CHECKING

import pytest

from .console import holdfast, start

if TYPE_CHECKING:
    from pathlib import Path

    from .kept_runs import Runs

pytestmark = pytest.mark.guard

WRITTEN = 100_000
WRITES = f"head -c {WRITTEN} /dev/zero"
LOST = f"holdfast: output could not be kept: File too large; {WRITTEN} bytes are lost; run "


def small_files() -> None:
    """Limit journals to this size, which leaves room for facts and for nothing else."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096 * 2, resource.RLIM_INFINITY))


@pytest.mark.parametrize("options", [[], ["--quiet"]])
def test_a_command_that_ended_by_itself_is_125(options: list[str]) -> None:
    done = holdfast("run", *options, "sh", "-c", WRITES, preexec_fn=small_files)
    (line,) = done.stderr.decode().splitlines()
    assert (done.returncode, done.stdout, line[: len(LOST)]) == (125, b"", LOST)


def test_with_room_for_it_nothing_is_said() -> None:
    done = holdfast("run", "sh", "-c", WRITES)
    assert (done.returncode, len(done.stdout), done.stderr) == (0, WRITTEN, b"")


def test_nothing_lost_is_nothing_said() -> None:
    done = holdfast("run", "sh", "-c", "exit 3", preexec_fn=small_files)
    assert (done.returncode, done.stderr) == (3, b"")


def test_what_is_dropped_on_request_is_not_lost() -> None:
    done = holdfast("run", "--max-output", "1K", "--on-max-output", "drop", "sh", "-c", WRITES)
    assert (done.returncode, len(done.stdout), done.stderr) == (0, 1024, b"")


def test_another_verdict_keeps_its_code() -> None:
    done = holdfast("run", "sh", "-c", f"{WRITES}; kill -TERM $$", preexec_fn=small_files)
    assert done.returncode == 143
    (line,) = done.stderr.decode().splitlines()
    assert line.startswith(LOST)


def test_both_lines_when_the_verdict_has_one_of_its_own(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    process = start("run", "sh", "-c", f"{WRITES}; echo >{gate}; exec sleep 600", preexec_fn=small_files)
    assert gate.read_text() == "\n"  # all is written
    process.send_signal(signal.SIGTERM)
    stderr = process.communicate(timeout=60)[1].decode()
    lost, verdict = stderr.splitlines()
    assert (process.returncode, lost[: len(LOST)]) == (143, LOST)
    assert verdict.startswith("holdfast: cancelled by SIGTERM; SIGTERM; run ")


def detached(runs: Runs) -> str:
    started = holdfast("run", "--detach", "--", "sh", "-c", WRITES, preexec_fn=small_files)
    (run_id,) = started.stdout.decode().split()
    runs.ids.append(run_id)
    assert holdfast("wait", run_id).returncode == 0
    return run_id


@pytest.mark.parametrize("options", [[], ["-f"], ["--timestamps"]])
def test_logs_say_that_output_is_missing(runs: Runs, options: list[str]) -> None:
    run_id = detached(runs)
    done = holdfast("logs", *options, run_id)
    assert (done.returncode, done.stdout, done.stderr.decode()) == (125, b"", f"{LOST}{run_id}\n")


def test_why_does_not_call_it_complete(runs: Runs) -> None:
    text = holdfast("why", detached(runs)).stdout.decode()
    assert "the journal could not be written: File too large" in text
    assert "  output was read to its end; 0B stdout, 0B stderr; 97.7K were not kept" in text
    assert "settled: the record is not complete; " in text
    whole = holdfast("why", runs.ended("sh", "-c", WRITES)).stdout.decode()
    assert "all captured output was read to its end; 97.7K stdout, 0B stderr\n" in whole
    assert "settled: the record is complete; " in whole
