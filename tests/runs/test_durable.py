"""Runs with a directory: a reader that finds a lost guard waits for the end, whichever reader writes it."""

from __future__ import annotations

import os
import socket
import subprocess
from socket import AF_UNIX, SOCK_SEQPACKET
from typing import TYPE_CHECKING

import anyio
import pytest

from holdfast import HoldfastError, Supervisor
from holdfast.runs import durable
from holdfast.state import recovery, run_directory
from holdfast.state.directory import StateDirectory
from tests.support.descriptors import room_for
from tests.support.durable import DurableRun, HeldLock, run_to_end

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.state.recovery import RecoveredRun
    from tests.support.children import Children


@pytest.mark.guard
def test_another_reader_at_work_is_no_guard(tmp_path: Path, child: Children, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock of a reader looks like a guard's: an owner that mistook it reported a lost run as running."""
    state = StateDirectory.open(str(tmp_path / "state"))
    finish, looks = recovery.finish, 0
    with DurableRun(state, child("ignores_term")) as run:
        run.until_ready()
        run.kill_guard()
        other = HeldLock(run.record_path())

        def finish_slowly(state: StateDirectory, run_id: str) -> RecoveredRun | None:
            nonlocal looks
            looks += 1
            if looks == 3:
                other.__exit__(None, None, None)
            return finish(state, run_id)

        monkeypatch.setattr(recovery, "finish", finish_slowly)
        with other:
            assert durable.recover(state, run.run_id)
    assert looks == 3


@pytest.mark.guard
@pytest.mark.parametrize("is_reaped", [False, True])
def test_a_guard_that_is_dying_is_no_guard(
    is_reaped: bool, tmp_path: Path, child: Children, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Owners of a dying guard see the end of their connections before its lock and its socket are gone.

    Its sentinel and its writer have both open for a moment longer, when the guard is reaped already.
    """
    gone = subprocess.Popen(["/bin/true"])
    gone.wait()
    state = StateDirectory.open(str(tmp_path / "state"))
    finish, looks = recovery.finish, 0
    with DurableRun(state, child("ignores_term")) as run, socket.socket(AF_UNIX, SOCK_SEQPACKET) as still_open:
        run.until_ready()
        run.kill_guard()  # and not reaped: it has exited, as far as other processes can see
        os.unlink(os.path.join(run.record_path(), run_directory.SOCKET))
        directory = os.open(run.record_path(), os.O_RDONLY | os.O_DIRECTORY)
        still_open.bind(
            f"/proc/self/fd/{directory}/{run_directory.SOCKET}"
        )  # its path may be longer than an address can be
        os.close(directory)
        still_open.listen()
        lock = HeldLock(run.record_path())

        def finish_and_close(state: StateDirectory, run_id: str) -> RecoveredRun | None:
            nonlocal looks
            looks += 1
            if looks == 3:
                still_open.close()
                lock.__exit__(None, None, None)
            return finish(state, run_id)

        monkeypatch.setattr(recovery, "finish", finish_and_close)
        with lock:
            assert durable.recover(state, run.run_id, guard_pid=gone.pid if is_reaped else 0)
    assert looks == 3


@pytest.mark.guard
def test_a_guard_that_lives_is_told(tmp_path: Path, child: Children) -> None:
    state = StateDirectory.open(str(tmp_path / "state"))
    with DurableRun(state, child("ignores_term")) as run:
        run.until_ready()
        assert not durable.recover(state, run.run_id)
        with run.record() as record:
            assert record.guard == "alive"


@pytest.mark.guard
@pytest.mark.anyio
async def test_who_comes_after_the_verdict_is_told_at_once(tmp_path: Path, child: Children) -> None:
    """Nothing is recorded while the run unwinds, so nothing woke late readers: they saw the verdict only at the end."""
    async with Supervisor(state_dir=tmp_path) as supervisor, Supervisor(state_dir=tmp_path) as other:
        run = await supervisor.start(child("ignores_term"), grace=60)
        async for _ in run.output():
            break
        await run.cancel()
        with anyio.fail_after(20):
            assert (await (await other.adopt(run.run_id)).wait()).status == "cancelled"
        assert run.state == "stopping"  # and not because it was over
        await run.cancel(now=True)
        await run.settled()


@pytest.mark.anyio
async def test_a_run_that_was_let_go_is_not_cancelled_in_silence(tmp_path: Path, child: Children) -> None:
    """The supervisor is left, the run goes on: a cancel has nobody to ask, and says so."""
    async with Supervisor(state_dir=tmp_path) as supervisor:
        run = await supervisor.start(child("exits_on_term"), lifetime="detached")
        async for _ in run.output():
            break
    with pytest.raises(HoldfastError, match="the supervisor was left") as refused:
        await run.cancel()
    assert refused.value.remedy == "adopt the run with another supervisor"
    async with Supervisor(state_dir=tmp_path) as supervisor:
        adopted = await supervisor.adopt(run.run_id)
        await adopted.cancel()
        assert (await adopted.settled())["cause"] == "user"
        await adopted.cancel()  # the control: one that is over stays as it is


def refusals_at_every_missing_descriptor(state: StateDirectory) -> list[HoldfastError]:
    """Start runs with more and more descriptors until one starts; returns the errors of the failed starts."""
    run_to_end(state, idle_counts="heartbeat")  # opens and imports everything that is needed once per process
    refused: list[HoldfastError] = []
    for room in range(24):
        try:
            with room_for(room):
                run = DurableRun(state, ["true"], run_id=f"room-{room}", idle_counts="heartbeat")
        except HoldfastError as error:
            refused.append(error)
        else:
            with run:
                run.until_ended()
            break
    assert len(refused) >= 5, "directory, journal, listener, and what the guard needs: each was the missing one once"
    assert [error.run_id for error in refused] == [f"room-{room}" for room in range(len(refused))]
    assert all("Too many open files" in str(error) for error in refused)
    return refused


@pytest.mark.guard
def test_at_every_descriptor_that_is_missing_a_start_leaves_nothing(tmp_path: Path) -> None:
    """Listing the directory for its removal needs a descriptor, too: that OSError hid the first error."""
    state = StateDirectory.open(str(tmp_path / "state"))
    refused = refusals_at_every_missing_descriptor(state)
    left = {name for path in (state.runs_path, state.live_path) for name in os.listdir(path)}
    assert not [error for error in refused if error.run_id in left or f".new-{error.run_id}" in left]
    assert not [error for error in refused if "cannot be removed" in str(error)]


@pytest.mark.guard
def test_without_names_to_remove_it_by_a_directory_stays_and_the_error_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = StateDirectory.open(str(tmp_path / "state"))
    monkeypatch.setattr(run_directory, "_BEFORE_THE_START", ())
    refused = refusals_at_every_missing_descriptor(state)
    left = {path for path in map(state.run_path, os.listdir(state.runs_path)) if "room-" in path}
    named = {path for path in left for error in refused if f"cannot be removed from {path}: " in str(error)}
    assert named
    assert left - named == {state.run_path(f"room-{len(refused)}")}  # the one that was started


@pytest.mark.guard
def test_an_adopted_run_keeps_what_it_was_asked_for(tmp_path: Path, child: Children) -> None:
    """Every option that is on record: an adopted run once lost `merge`, `idle_counts`, `warn_signal` and others."""
    state = StateDirectory.open(str(tmp_path / "state"))
    options = {"merge": True, "idle_timeout": 60, "idle_counts": "cpu", "warn_signal": "SIGUSR2", "grace": 3}
    with DurableRun(state, child("ignores_term"), env_drop="SECRET_*", **options) as run:
        run.until_ready()  # a guard that is killed before it has recorded its start leaves its cgroup
        adopted = durable.adopt(state, run.run_id)
        adopted.close()
        assert adopted.spec == run.spec
