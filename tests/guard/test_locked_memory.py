"""A process into whose memory nobody can look: no reader of command lines and environments waits for it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from holdfast.guard import containment, leftovers, processes
from holdfast.state import recovery
from holdfast.state.directory import StateDirectory
from holdfast.values import process_memory

from ..support.driven import Driven
from ..support.durable import DurableRun
from ..support.evidence import BUSY_S, kinds, outcome_of
from ..support.processes import kill_children, own_children, state_of, wait_exited
from ..support.silent_filesystem import SilentFilesystem, why_no_fuse
from .test_stand_in import lose_sentinel, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ..support.children import Children

pytestmark = [pytest.mark.guard, pytest.mark.root]


@pytest.fixture
def silent(tmp_path: Path, child: Children) -> Iterator[SilentFilesystem]:
    if (why_not := why_no_fuse()) is not None:
        pytest.skip(f"allowed: {why_not}")
    before = own_children()
    with SilentFilesystem(tmp_path / "silent", child.program("exits_on_term")) as filesystem:
        yield filesystem
        filesystem.abort()
        kill_children(before)


@pytest.fixture
def without_cgroup(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A cgroup would end all of the run at once, but for the process that waits."""
    with monkeypatch.context() as forced:
        forced.setenv(containment.FORCE_VARIABLE, "subreaper")
        containment.forget()
        yield
    containment.forget()


@pytest.fixture
def holder(silent: SilentFilesystem) -> Iterator[int]:
    with subprocess.Popen(silent.lock_holder(), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"ready")
        until_waiting(process.pid)
        yield process.pid
        silent.abort()
        process.kill()


def until_waiting(pid: int) -> None:
    """Wait until the process sleeps in the call that holds the lock."""
    wait_until(lambda: state_of(pid) == "D")


def with_holder(silent: SilentFilesystem) -> list[str]:
    """A command with two daemons: one that locks its memory, and after it one that can be found by its token."""
    holder = " ".join(f"'{word}'" for word in silent.lock_holder())
    waits = "until grep -q '^State:.D' /proc/$holder/status; do :; done"
    return [
        "sh",
        "-c",
        f"setsid {holder} >/dev/null & holder=$!; {waits}; setsid sleep 1000 & echo ready late=$!; wait",
    ]


def test_it_is_unreadable_and_others_are_not(holder: int) -> None:
    begin = time.monotonic()
    assert process_memory.environment(holder) == b""
    assert process_memory.command_line(holder) == b""
    assert b"\0" in process_memory.environment(os.getpid())
    assert processes.words_of(os.getpid())[0] == os.fsencode(sys.orig_argv[0])
    assert time.monotonic() - begin < BUSY_S
    for _ in range(1000):  # it is known to hang: nobody waits for it again
        assert leftovers.environment_of(holder) == b"\0"
    assert time.monotonic() - begin < 2 * BUSY_S


def test_it_is_read_again_when_it_can_be(silent: SilentFilesystem, holder: int) -> None:
    assert process_memory.environment(holder) == b""
    silent.abort()
    wait_until(lambda: process_memory.environment(holder) != b"" or state_of(holder) == "Z")


def test_control_a_plain_reader_waits(holder: int) -> None:
    with subprocess.Popen(["cat", f"/proc/{holder}/environ"], stdout=subprocess.DEVNULL) as reader:
        assert not wait_exited(reader.pid, 0.5)
        assert state_of(reader.pid) == "D"
        reader.kill()


@pytest.mark.usefixtures("without_cgroup")
def test_a_stand_in_ends_the_others(silent: SilentFilesystem) -> None:
    with Driven(with_holder(silent), kill_wait=5) as run:
        late = run.until_ready()["late"]
        guard = lose_sentinel(run)
        begin = time.monotonic()
        os.kill(guard, signal.SIGKILL)
        wait_until(lambda: "end" in kinds(run.facts))
        assert time.monotonic() - begin < 5 + BUSY_S
        assert wait_exited(late, 0)
        result = run.live.result()
    assert (*outcome_of(result), result.report["tree"]) == ("lost", "guard", "unknown")


@pytest.mark.usefixtures("without_cgroup")
def test_recovery_ends_the_others(silent: SilentFilesystem, tmp_path: Path) -> None:
    state = StateDirectory.open(str(tmp_path / "state"))
    with DurableRun(state, with_holder(silent)) as run:
        names = run.until_ready()
        run.kill_guard()
        begin = time.monotonic()
        recovered = recovery.finish(state, run.run_id)
        assert time.monotonic() - begin < BUSY_S
        assert recovered is not None
        assert recovered.how == "unknown"
        assert wait_exited(names["late"], 0)
