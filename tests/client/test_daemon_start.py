"""The daemon on demand: started when there is none, once, and nobody's child."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import holdfast
from holdfast.state import owner_lock
from holdfast.state.directory import StateDirectory
from holdfast.values.errors import DaemonUnreachableError, SpecError

from ..support.daemons import end_daemon
from ..support.processes import wait_exited

if TYPE_CHECKING:
    from collections.abc import Iterator

# The HTTP library leaves the socket of a failed connection to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket.socket fd=.*family=1:ResourceWarning")
HOLDFAST = [sys.executable, "-m", "holdfast.cli.main"]
MANY = 6


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A state directory that is not there yet. A daemon that was started for it is ended after the test."""
    path = tmp_path / "state"
    monkeypatch.setenv("HOLDFAST_STATE_DIR", str(path))
    monkeypatch.delenv("HOLDFAST_START", raising=False)
    yield path
    if path.exists():
        end_daemon(path)


def command(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*HOLDFAST, *words], capture_output=True, text=True, timeout=90, check=False)


def starts(state: Path) -> int:
    """How many daemons have begun to listen, and how many found another owner."""
    return len(re.findall("ready|owns the state directory", (state / "daemon.log").read_text()))


def test_without_start_there_is_none(state: Path) -> None:
    done = command("submit", "--", "true")
    assert done.returncode == 125
    assert "--start" in done.stderr
    assert not state.exists()


def test_submits_at_the_same_time_start_one_daemon(state: Path) -> None:
    words = [*HOLDFAST, "submit", "--start", "--wait", "--", "sh", "-c", "exit 7"]
    submits = [subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(MANY)]
    ended = [(submit.communicate(timeout=90), submit.returncode) for submit in submits]
    assert [code for _output, code in ended] == [7] * MANY
    assert {error for (_out, error), _code in ended} == {b""}
    assert starts(state) == 1


def test_it_goes_on_without_the_client(state: Path) -> None:
    assert command("submit", "--start", "--", "true").returncode == 0
    owner = owner_lock.look(StateDirectory.open(str(state))).owner
    assert owner is not None
    assert os.getsid(owner.pid) == owner.pid
    assert command("submit", "--wait", "--", "true").returncode == 0
    assert starts(state) == 1


def test_the_blocking_client(state: Path) -> None:
    with holdfast.Client(state_dir=str(state)) as client, pytest.raises(DaemonUnreachableError):
        client.submit(["true"])
    with holdfast.Client(state_dir=str(state), start=True) as client:
        report = client.submit(["true"])
        assert client.wait(report["run_id"])["status"] == "succeeded"
    with pytest.raises(SpecError):
        holdfast.Client("http://127.0.0.1:1", start=True)


@pytest.mark.anyio
async def test_the_client_that_never_blocks(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_START", "1")
    async with holdfast.AsyncClient(state_dir=str(state)) as client:
        report = await client.submit(["true"])
        assert (await client.wait(report["run_id"]))["status"] == "succeeded"


def test_a_daemon_that_was_killed_is_started_again(state: Path) -> None:
    assert command("submit", "--start", "--", "true").returncode == 0
    owner = owner_lock.look(StateDirectory.open(str(state))).owner
    assert owner is not None
    os.kill(owner.pid, signal.SIGKILL)
    assert wait_exited(owner.pid)
    with holdfast.Client(state_dir=str(state), start=True) as client:
        assert client.wait(client.submit(["true"])["run_id"])["status"] == "succeeded"


def test_a_daemon_that_does_not_start_says_why(state: Path) -> None:
    state.mkdir(mode=0o700)
    (state / "config.toml").write_text("nonsense = 1\n")
    done = command("submit", "--start", "--", "true")
    assert done.returncode == 125
    assert "was not started: it ended:" in done.stderr
    assert "nonsense" in done.stderr


@pytest.mark.usefixtures("state")
def test_not_inside_a_run() -> None:
    """Such a daemon would end with the run."""
    done = command("run", "--", *HOLDFAST, "submit", "--start", "--", "true")
    assert done.returncode == 125
    assert "would end with the run" in done.stderr


def test_serve_detach(state: Path) -> None:
    assert command("serve", "--detach", "--max-runs", "3").returncode == 0
    assert command("submit", "--wait", "--", "true").returncode == 0
    again = command("serve", "--detach", "--max-runs", "4")
    assert (again.returncode, "listens already" in again.stderr) == (0, True)
    assert starts(state) == 1
