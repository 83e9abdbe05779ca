"""`holdfast register`."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

from ..console import holdfast
from ..kept_runs import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..kept_runs import Runs

pytestmark = pytest.mark.guard


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """A process that this test starts by itself."""
    with subprocess.Popen(["sleep", "600"]) as started:
        yield started
        started.kill()


def test_it_is_listed_and_ended_with_its_session(runs: Runs, process: subprocess.Popen[bytes]) -> None:
    done = holdfast("register", str(process.pid), "--session", "sdk", "--name", "theirs", "--label", "a=b")
    assert (done.returncode, done.stderr) == (0, b"")
    run_id = done.stdout.decode().strip()
    assert b"sdk      theirs  sleep 600" in holdfast("ps").stdout
    report = runs.report(run_id)
    assert (report["state"], report["pid"], report["labels"]) == ("running", process.pid, {"a": "b"})
    assert (report["containment"], report["output"]["stdout_bytes"]) == ("none", None)
    closed = holdfast("reap", "--session", "sdk")
    assert closed.returncode == 1, "nobody can confirm that its tree is gone"
    assert b"1 unknown" in closed.stdout
    assert process.wait(30) == -signal.SIGTERM
    report = runs.report(run_id)
    assert (report["status"], report["cause"], report["tree"]) == ("cancelled", "session", "unknown")
    told = holdfast("why", run_id).stdout.decode()
    assert "nothing contains it" in told
    assert "there was none to read" in told


def test_cancel_and_wait(runs: Runs, process: subprocess.Popen[bytes]) -> None:
    run_id = holdfast("register", str(process.pid), "--id", "theirs").stdout.decode().strip()
    assert run_id == "theirs"
    runs.ids.append(run_id)
    holdfast("cancel", run_id)
    assert process.wait(30) == -signal.SIGTERM
    assert holdfast("wait", run_id).returncode == 143


def test_a_closed_session_takes_no_process(process: subprocess.Popen[bytes]) -> None:
    holdfast("reap", "--session", "over")
    refused = one_line(holdfast("register", str(process.pid), "--session", "over"))
    assert "is closed and takes no more runs" in refused
    assert process.poll() is None


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([], "register needs the PID of one process"),
        (["x"], "register needs the PID of one process"),
        (["0"], "0 is no process"),
        (["1"], "process 1 is an ancestor of this program"),
        (["PARENT"], "is an ancestor of this program"),
        (["4194303"], "there is no live process 4194303"),
    ],
    ids=["nothing", "no number", "zero", "init", "our parent", "nobody"],
)
def test_what_is_refused(words: list[str], text: str) -> None:
    words = [word.replace("PARENT", str(os.getpid())) for word in words]
    assert text in one_line(holdfast("register", *words))
