"""The first milliseconds of a guard: signals, a dead owner, a held child that is killed; and odd commands."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

import holdfast
from holdfast.outcome import decide
from holdfast.state.directory import StateDirectory
from holdfast.state.record import RunRecord
from tests.support.driven import Driven, Gate
from tests.support.evidence import all_of, assert_all_gone, kinds, one, outcome_of
from tests.support.guards import held_guard
from tests.support.processes import descendants, kill_children, own_children, state_of, wait_exited
from tests.support.shimmed import guard_that_stops_while_it_holds

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.guard


@contextmanager
def opened(gate: Path) -> Iterator[None]:
    """Open the gate of a held guard, for reading and writing, so that a dead guard does not block us."""
    fd = os.open(gate, os.O_RDWR)
    try:
        os.write(fd, b"\n")
        yield
    finally:
        os.close(fd)


# --- signals to a young guard ---


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_before_the_start_is_a_stop_before_the_start(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard, gate = held_guard(tmp_path)
    monkeypatch.setenv("HOLDFAST_GUARD", str(guard))
    with Driven(["touch", str(tmp_path / "ran")]) as run:
        signal.pidfd_send_signal(run.live.pidfd, number)
        with opened(gate):
            result = run.settle()
    assert outcome_of(result) == ("cancelled", "user")
    assert one(result.facts, "stop_asked").detail["signal"] == number
    assert "started" not in kinds(result.facts)
    assert not (tmp_path / "ran").exists()
    assert_all_gone(result.report)


def test_a_signal_at_any_moment_is_a_request(tmp_path: Path) -> None:
    before = after = 0
    for looks in range(150):
        ran = tmp_path / f"ran-{looks}"
        with Driven(["sh", "-c", 'echo >"$0"; exec sleep 60', str(ran)], grace=5) as run:
            size = os.fstat(run.live.journal).st_size
            for _ in range(looks * 20):  # later and later, up to some time after the start
                if os.fstat(run.live.journal).st_size > size + 100:
                    break
            signal.pidfd_send_signal(run.live.pidfd, signal.SIGTERM)
            result = run.settle()
        assert outcome_of(result) == ("cancelled", "user")
        started = bool(all_of(result.facts, "started"))
        assert started or not ran.exists(), "what is not on record did not run"
        before, after = before + (not started), after + started
        if after > 20 and before > 20:
            break
    assert before, "no signal came before the start"


# --- an owner that dies ---

_LEAVES_A_COPY = """
import os, sys
from holdfast.runs.durable import start_durable
from holdfast.values.spec import make_spec
from holdfast.state.directory import StateDirectory
live = start_durable(StateDirectory.open(sys.argv[1]), make_spec(sys.argv[2:], run_id="orphan"))
if os.fork() == 0:
    os.write(1, b"%d\\n" % live.sentinel_pid)
    os.close(1)
    sys.stdin.read()  # a fork holds the socket as long as the test likes
os._exit(0)
"""


@pytest.fixture
def killed_afterwards() -> Iterator[None]:
    """End the processes that a failing test would leave."""
    known = own_children()
    yield
    kill_children(known)


@pytest.mark.usefixtures("killed_afterwards")
def test_an_owner_that_died_before_the_guard_looked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guard, gate = held_guard(tmp_path)
    monkeypatch.setenv("HOLDFAST_GUARD", str(guard))
    state = StateDirectory.open(str(tmp_path / "state"))
    command = ["sh", "-c", 'echo >"$0"; exec sleep 60', str(tmp_path / "ran")]
    argv = [sys.executable, "-c", _LEAVES_A_COPY, state.path, *command]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        guard_pid = int(owner.stdout.readline())
        owner.wait(20)  # dead and reaped: no process has that number any more
        with opened(gate):
            assert wait_exited(guard_pid), "the run goes on without an owner"
        with RunRecord(state, "orphan") as record:
            facts = record.read().reader.facts
    outcome = decide(facts)
    assert (outcome.status, outcome.cause) == ("cancelled", "owner")
    assert "started" not in kinds(facts)
    assert kinds(facts)[-1] == "end"
    assert not (tmp_path / "ran").exists()


# --- an owner in another PID namespace: its number means nothing to the guard ---


def in_new_pid_namespace(*argv: str) -> list[str]:
    """The command line of an owner whose children, not itself, are in a PID namespace of their own."""
    if subprocess.run(["unshare", "--pid", "true"], capture_output=True, check=False).returncode:
        pytest.skip("allowed: no PID namespace can be made here")
    return ["unshare", "--pid", sys.executable, *argv]


@pytest.mark.root
def test_an_owner_in_another_pid_namespace_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_STATE_DIR", str(tmp_path / "state"))
    report = tmp_path / "report"
    argv = in_new_pid_namespace("-m", "holdfast.cli.main", "run", "--report", str(report), "--", "echo", "hi")
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "hi\n"), done.stderr
    found = json.loads(report.read_text())
    assert (found["status"], found["cause"], found["tree"]) == ("succeeded", "exit", "gone")


@pytest.mark.root
@pytest.mark.usefixtures("killed_afterwards")
def test_its_death_is_seen(tmp_path: Path) -> None:
    state = StateDirectory.open(str(tmp_path / "state"))
    argv = in_new_pid_namespace("-c", _LEAVES_A_COPY, state.path, "sleep", "60")
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline()
        end = time.monotonic() + 20
        # Not the guard's exit: it is the init of its namespace, which ends when all there are reaped, the copy by us.
        with RunRecord(state, "orphan") as record:
            while not record.read().reader.ended:
                assert time.monotonic() < end, "the run goes on without an owner"
                os.sched_yield()
            facts = record.reader.facts
    outcome = decide(facts)
    assert (outcome.status, outcome.cause) == ("cancelled", "owner")


# --- a held child that is killed ---


def test_a_held_child_that_is_killed_was_no_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_GUARD", str(guard_that_stops_while_it_holds(tmp_path)))
    with Driven(["touch", str(tmp_path / "ran")]) as run:
        run.wait_for(lambda: state_of(run.live.guard_pid) == "T", "stopped guard")
        (held,) = descendants(run.live.guard_pid)
        os.kill(held, signal.SIGKILL)
        assert wait_exited(held)
        run.continue_guard()
        result = run.settle()
    assert outcome_of(result) == ("failed", "spawn")
    assert "started" not in kinds(result.facts)
    assert "exited" not in kinds(result.facts), "that was not the command's exit"
    assert not (tmp_path / "ran").exists()
    assert_all_gone(result.report)


def test_a_held_child_goes_with_its_guard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_GUARD", str(guard_that_stops_while_it_holds(tmp_path)))
    with Driven(["touch", str(tmp_path / "ran")]) as run:
        run.wait_for(lambda: state_of(run.live.guard_pid) == "T", "stopped guard")
        (held,) = descendants(run.live.guard_pid)
        os.kill(run.live.guard_pid, signal.SIGKILL)
        assert wait_exited(held)
        assert "started" not in kinds(run.facts)
    assert not (tmp_path / "ran").exists()


def test_control_a_held_child_that_is_let_go_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_GUARD", str(guard_that_stops_while_it_holds(tmp_path)))
    with Driven(["touch", str(tmp_path / "ran")]) as run:
        run.wait_for(lambda: state_of(run.live.guard_pid) == "T", "stopped guard")
        assert not (tmp_path / "ran").exists()
        run.continue_guard()
        assert outcome_of(run.settle()) == ("succeeded", "exit")
    assert (tmp_path / "ran").exists()


# --- a guard that was stopped past the deadline ---


@pytest.mark.parametrize("exits", [False, True])
def test_a_guard_that_was_stopped_past_the_deadline(exits: bool, tmp_path: Path) -> None:
    there, over = Gate(tmp_path / "there"), Gate(tmp_path / "over")
    line = f"echo >{there.path}; sleep 3; " + ("exit 3" if exits else f"echo >{over.path}; exec sleep 60")
    with Driven(["sh", "-c", line], timeout=2.5, grace=5) as run:
        there.wait()
        pid = run.command_pid
        run.stop_guard()
        if exits:
            assert wait_exited(pid)
        else:
            over.wait()
        run.continue_guard()
        result = run.settle()
    order = [kind for kind in kinds(result.facts) if kind in ("deadline", "exited")]
    assert outcome_of(result) == ("timed_out", "deadline")
    assert order == ["deadline", "exited"], "the kernel kept the order: see test_witness.py"
    if exits:
        assert result.exit_code == 3
    else:
        assert one(result.facts, "deadline").at_ns - one(result.facts, "started").at_ns >= 3_000_000_000
    assert_all_gone(result.report)


# --- where it stands ---


def test_the_guard_keeps_no_directory_busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    with Driven(["sh", "-c", "echo ready; exec cat"], stdin="pipe", cwd=str(tmp_path)) as run:
        run.until_ready()
        assert os.readlink(f"/proc/{run.live.guard_pid}/cwd") == "/"
        assert os.readlink(f"/proc/{run.command_pid}/cwd") == str(tmp_path)
        run.live.close_input()
        assert outcome_of(run.settle()) == ("succeeded", "exit")


@contextmanager
def unanswered(path: Path) -> Iterator[Path]:
    """A program whose loading waits, as on a file system that does not answer: another process has a lease on it."""
    shutil.copy("/bin/true", path)
    before = signal.signal(signal.SIGIO, signal.SIG_IGN)  # how the kernel asks for the lease
    try:
        with path.open("rb+") as file:
            fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
            yield path
    finally:
        signal.signal(signal.SIGIO, before)


def test_clocks_go_on_while_the_program_cannot_be_loaded(tmp_path: Path) -> None:
    with unanswered(tmp_path / "program") as program:
        result = holdfast.run([program], timeout=0.3, grace=20)
    assert outcome_of(result) == ("timed_out", "deadline")
    assert_all_gone(result.report)
    assert outcome_of(holdfast.run([program], timeout=60)) == ("succeeded", "exit"), "without the lease it is loaded"
