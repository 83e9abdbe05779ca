"""A guard that is killed while it takes output: no byte is lost, or the record says that some may be missing."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from holdfast.state.directory import StateDirectory

from ..support.driven import Driven, Gate
from ..support.evidence import one, outcome_of
from ..support.shimmed import mutated_guard

if TYPE_CHECKING:
    from holdfast import Result

    from ..support.children import Children

pytestmark = pytest.mark.guard

WRITTEN = b"x" * 4951
# It writes while the guard is held, and says so: then the guard goes on.
WRITES = 'echo ready; read -r _ <"$0"; cat "$1"; echo >"$2"; exec sleep 1000'
STEPS = range(1, 17)  # from its sleep on: the output of one stream, its frame, the wakes after it


def kill_at(child: Children, step: int, place: Path, state: StateDirectory | None, **options: bool) -> Result:
    """Run a command that writes once, and kill its guard at one step of taking that output."""
    data = place / "data"
    data.write_bytes(WRITTEN)
    go, done = Gate(place / f"go{step}"), Gate(place / f"done{step}")
    with Driven(["sh", "-c", WRITES, str(go.path), str(data), str(done.path)], state=state, **options) as run:
        run.until_ready()
        steps = child("kills_at", run.live.guard_pid, step)
        with subprocess.Popen(steps, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as killer:
            assert killer.stdout is not None
            assert killer.stdout.readline().startswith(b"ready")
            go.open()
            done.wait()
            assert killer.communicate(b"\n")[0] == b"killed\n"
        result = run.settle()
    assert outcome_of(result) == ("lost", "guard")
    return result


def assert_nothing_is_lost(child: Children, place: Path, state: StateDirectory | None) -> None:
    for step in STEPS:
        result = kill_at(child, step, place, state)
        assert result.stdout == b"ready\n" + WRITTEN, step
        output = result.report["output"]
        assert (output["stdout_bytes"], output["complete"]) == (len(result.stdout), True), step


@pytest.mark.parametrize("kept", [False, True])
def test_no_byte_is_lost_at_whatever_step_the_guard_dies(child: Children, tmp_path: Path, kept: bool) -> None:
    state = StateDirectory.open(os.fspath(tmp_path / "state")) if kept else None
    assert_nothing_is_lost(child, tmp_path, state)


def test_no_byte_of_a_command_that_writes_much_is_lost(
    child: Children, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such output goes through a pipe of the guard's own. Here the ready line is much already."""
    guard = mutated_guard(tmp_path, "stream.c", "PIPE_DEFAULT = 64 * 1024", "PIPE_DEFAULT = 4")
    monkeypatch.setenv("HOLDFAST_GUARD", str(guard))
    assert_nothing_is_lost(child, tmp_path, None)


def test_the_record_of_a_terminal_says_whether_output_may_be_missing(child: Children, tmp_path: Path) -> None:
    """Bytes cannot be moved out of a terminal. They are lost with the guard that has read them."""
    seen = set()
    for step in STEPS:
        result = kill_at(child, step, tmp_path, None, pty=True)
        whole = result.stdout.endswith(b"ready\r\n" + WRITTEN)
        complete = result.report["output"]["complete"]
        assert whole or not complete, step
        assert complete == (one(result.facts, "drained").detail["how"] != "interrupted")
        seen.add((whole, complete))
    assert (False, False) in seen, "the guard was never killed with output in its memory"
    assert (True, True) in seen


DIES = """
    if (length > 100 && output->taking.how == TAKING_MOVES) {
        extern int kill(pid_t, int);
        kill(getpid(), 9);
    }
"""


def test_what_was_recorded_is_counted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The guard dies in the middle of counting: the frame is there, and one of the counts has it already."""
    counts = "    output->streams[index].bytes += length;\n"
    guard = mutated_guard(tmp_path, "output.c", counts, counts + DIES)
    monkeypatch.setenv("HOLDFAST_GUARD", str(guard))
    for state in (None, StateDirectory.open(os.fspath(tmp_path / "state"))):
        with Driven(["sh", "-c", f"printf %0{len(WRITTEN)}d 0; exec sleep 1000"], state=state) as run:
            result = run.settle()
        assert outcome_of(result) == ("lost", "guard")
        output = result.report["output"]
        assert (len(result.stdout), output["stdout_bytes"], output["complete"]) == (len(WRITTEN), len(WRITTEN), True)
