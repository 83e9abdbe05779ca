"""The supervisor under asyncio and trio: many runs, one pump, and nothing lost when a task is cancelled."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest

import holdfast
from holdfast import Supervisor
from holdfast.guard.binary import guard_path
from holdfast.runs import watched_run
from holdfast.runs.live import LiveRun

from ..support.evidence import BUSY_S
from ..support.leftovers import open_descriptors
from ..support.processes import is_gone, stop_both, wait_exited
from ..support.readiness import read_ready, until_ready
from .test_blocking import fake_guard

if TYPE_CHECKING:
    from holdfast import Outcome, Run

    from ..support.children import Children

pytestmark = [pytest.mark.guard, pytest.mark.anyio]


async def read_until(run: Run, text: bytes, *, late: bool = False) -> bytes:
    seen = b""
    async for chunk in run.output(late=late):
        seen += chunk.data
        if text in seen:
            return seen
    raise AssertionError(f"ended before it wrote {text!r}: {seen[:2000]!r}")


def verdict(outcome: Outcome) -> tuple[str | None, str | None]:
    return outcome.status, outcome.cause


# One run in one await.


async def test_a_run_in_one_await() -> None:
    async with Supervisor() as supervisor:
        result = await supervisor.run("cat; echo err >&2; exit 3", shell=True, input=b"in")
        assert (result.stdout, result.stderr, result.exit_code, result.ok) == (b"in", b"err\n", 3, False)
        assert (await supervisor.run(["true"])).ok
        assert supervisor.runs == ()
        with pytest.raises(holdfast.SpecError, match="both given"):
            await supervisor.run(["cat"], input=b"in", stdin="null")


async def test_a_cancelled_caller_ends_its_run(tmp_path: Path) -> None:
    fifo = tmp_path / "ready"
    os.mkfifo(fifo)
    async with Supervisor() as supervisor:
        async with anyio.create_task_group() as group:
            group.start_soon(supervisor.run, ["sh", "-c", f"echo $$ > {fifo}; exec sleep 600"])
            pid = int(await anyio.to_thread.run_sync(fifo.read_text))
            group.cancel_scope.cancel()
        assert supervisor.runs == ()
        assert is_gone(pid)


# The present state.


async def test_a_run_from_start_to_end(contained: str) -> None:
    async with Supervisor() as supervisor:
        run = await supervisor.start(["sh", "-c", "echo out; echo err >&2; exit 3"], name="one")
        assert list(supervisor.runs) == [run]
        assert verdict(await run.wait()) == ("failed", "exit")
        report = await run.settled()
        assert list(supervisor.runs) == []
        assert (report["state"], report["name"], report["containment"]) == ("settled", "one", contained)
        result = await run.result()
        assert (result.stdout, result.stderr, result.exit_code) == (b"out\n", b"err\n", 3)
    assert (run.state, run.status, run.cause) == ("settled", "failed", "exit")
    assert repr(run) == f"<Run {run.run_id} settled failed/exit>"


async def test_properties_are_up_to_date_without_the_event_loop(child: Children) -> None:
    async with Supervisor(reuse_guards=False) as supervisor:
        run = await supervisor.start(child("exits.sh", 0))
        assert wait_exited(run.guard_pid), "the event loop is blocked meanwhile"
        assert (run.state, run.status) == ("settled", "succeeded")
        assert run.pid is not None
        assert run.report["exit_code"] == 0
        assert run.facts[-1].kind == "end"


async def test_a_guard_that_exits_between_two_looks_has_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Supervisor(reuse_guards=False) as supervisor:
        run = await supervisor.start(["true"])
        looks = iter((0, 4711))  # not forked yet, then there; gone at every later look
        monkeypatch.setattr("holdfast.guard.conversation.guard_of", lambda _sentinel: next(looks, 0))
        monkeypatch.setattr("holdfast.runs.live.is_exiting", lambda _pid: False)
        with monkeypatch.context() as unread:
            unread.setattr("holdfast.runs.live.LiveRun.refresh", lambda _live: None)  # STARTED is not read yet
            assert run.guard_pid == 4711
        await run.settled()


async def test_the_verdict_of_a_deadline_is_on_time_while_the_event_loop_is_blocked(child: Children) -> None:
    async with Supervisor(reuse_guards=False) as supervisor:
        run = await supervisor.start(child("ignores_term"), timeout=0.3, grace=0.2)
        assert wait_exited(run.guard_pid)
        assert verdict(await run.wait()) == ("timed_out", "deadline")
        times = {fact.kind: fact.at_ns for fact in run.facts}
        assert 0.3e9 <= times["deadline"] - times["started"] < BUSY_S * 1e9


def reap_as_a_stranger(pid: int) -> None:
    while os.waitpid(-1, os.WNOHANG)[0] != pid:  # ChildProcessError when it is not among them
        pass


async def test_a_guard_that_somebody_else_has_reaped() -> None:
    async with Supervisor(reuse_guards=False) as supervisor:
        run = await supervisor.start(["true"])
        sentinel = run.sentinel_pid
        assert wait_exited(sentinel)
        reap_as_a_stranger(sentinel)
        assert (await run.result()).status == "succeeded"


# Waiting.


async def test_wait_answers_at_the_verdict_and_settled_at_the_end(child: Children) -> None:
    async with Supervisor() as supervisor:
        run = await supervisor.start(child("ignores_term"), grace=60)
        await until_ready(run)
        await run.cancel("not needed")
        outcome = await run.wait()
        assert (outcome.status, outcome.cause, outcome.state) == ("cancelled", "user", "stopping")
        await run.cancel(now=True)
        report = await run.settled()
        assert (report["status"], report["cause"], report["signal"]) == ("cancelled", "user", 9)
        assert report["escalated"] is True


async def test_cancelling_whoever_waits_does_not_lose_the_run() -> None:
    async with Supervisor() as supervisor:
        run = await supervisor.start(["sh", "-c", "read line; echo $line"], stdin="pipe")
        for waiting in (run.wait, run.settled, run.result, run.output().__anext__):
            with anyio.CancelScope() as scope:
                scope.cancel()
                await waiting()
            assert scope.cancelled_caught
        assert run.status is None
        await run.write_stdin(b"still here\n")
        assert (await run.result()).stdout == b"still here\n"


async def test_many_tasks_wait_for_one_run() -> None:
    outcomes: list[Outcome] = []

    async def wait_for(run: Run) -> None:
        outcomes.append(await run.wait())

    async with Supervisor() as supervisor, anyio.create_task_group() as group:
        run = await supervisor.start(["cat"], stdin="pipe")
        for _ in range(5):
            group.start_soon(wait_for, run)
        await run.close_stdin()
    assert [outcome.status for outcome in outcomes] == ["succeeded"] * 5


# Requests.


async def test_a_second_cancel_joins_and_now_kills(child: Children) -> None:
    async with Supervisor() as supervisor:
        run = await supervisor.start(child("reports_signals"), ladder="INT:60s,TERM:60s,KILL")
        await until_ready(run)
        for _ in range(3):
            await run.cancel()
        assert [fact.detail["signal"] for fact in run.facts if fact.kind == "signalled"] == [int(signal.SIGINT)]
        await run.cancel(now=True)
        await run.settled()
        await run.cancel()  # over: nothing to do, and no error
        assert verdict(run.outcome) == ("cancelled", "user")
        assert run.report["escalated"]


@pytest.mark.parametrize("how", ["deadline", "cancel"])
async def test_leaving_joins_an_end_that_is_under_way(how: str, tmp_path: Path) -> None:
    """The command saves its state for half a second: the grace of five is not cut short."""
    mark = tmp_path / "saved"
    script = f"trap 'sleep 0.5; touch {mark}; exit 0' TERM; echo ready; while :; do sleep 0.05; done"
    async with Supervisor() as supervisor:
        run = await supervisor.start(["sh", "-c", script], grace=5, timeout=1.5 if how == "deadline" else None)
        await until_ready(run)
        if how == "cancel":
            await run.cancel()
        await run.wait()
    assert mark.exists()
    assert not run.report["escalated"]
    assert [fact.detail["cause"] for fact in run.facts if fact.kind == "stop_asked"][-1] == "shutdown"


async def test_a_cancel_with_an_unknown_cause(child: Children) -> None:
    async with Supervisor() as supervisor:
        run = await supervisor.start(child("ignores_term"))
        with pytest.raises(holdfast.SpecError, match="bored"):
            await run.cancel(cause="bored")
        await run.cancel(cause="superseded", now=True)
        assert verdict(await run.wait()) == ("cancelled", "superseded")


def held_guard(directory: Path) -> tuple[Path, Path]:
    """A guard that begins when the test writes to the FIFO."""
    guard, gate = directory / "guard", directory / "gate"
    os.mkfifo(gate)
    guard.write_text(f'#!/bin/sh\nread go <{gate}\nexec {guard_path()} "$@"\n')
    guard.chmod(0o755)
    return guard, gate


async def test_started_returns_while_a_silent_command_runs() -> None:
    async with Supervisor() as supervisor:
        run = await supervisor.start(["sleep", "600"])
        with anyio.fail_after(60):
            await run.started()
        assert run.pid is not None
        assert run.state == "running"


@pytest.mark.parametrize("is_cancelled", [True, False], ids=["cancelled", "control"])
async def test_a_cancel_before_the_start_means_never_executed(
    is_cancelled: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The race: the request is in the socket before the guard first looks. Holding the guard forces this order."""
    guard, gate = held_guard(tmp_path)
    async with Supervisor() as supervisor, anyio.create_task_group() as group:
        monkeypatch.setenv("HOLDFAST_GUARD", str(guard))
        run = await supervisor.start(["touch", str(tmp_path / "executed")])
        if is_cancelled:
            group.start_soon(run.cancel)
            await anyio.wait_all_tasks_blocked()  # the task has asked, and waits for the answer
        gate.write_text("go\n")
        await run.settled()
    assert (tmp_path / "executed").exists() is not is_cancelled
    assert ("started" in [fact.kind for fact in run.facts]) is not is_cancelled
    assert verdict(run.outcome) == (("cancelled", "user") if is_cancelled else ("succeeded", "exit"))


async def test_the_verdict_stays_when_the_guard_dies_after_it(child: Children) -> None:
    async with Supervisor() as supervisor:
        run = await supervisor.start(child("ignores_term"), grace=60)
        pid = (await until_ready(run))["pid"]
        await run.cancel("enough")
        os.kill(run.guard_pid, signal.SIGKILL)
        report = await run.settled()
        assert (report["status"], report["cause"], report["state"]) == ("cancelled", "user", "settled")
        assert wait_exited(pid, 0)


async def test_a_lost_guard(child: Children, contained: str) -> None:
    async with Supervisor() as supervisor:
        argv = child("starts_and_waits.sh", *child("ignores_term"))
        run, other = await supervisor.start(argv), await supervisor.start(["cat"], stdin="pipe")
        pid = (await until_ready(run))["pid"]
        os.kill(run.guard_pid, signal.SIGKILL)
        assert verdict(await run.wait()) == ("lost", "guard")
        report = await run.settled()
        assert (report["tree"], report["containment"]) == ("gone", contained)
        assert wait_exited(pid, 0)
        await other.close_stdin()
        assert verdict(await other.wait()) == ("succeeded", "exit"), "the others do not notice"


async def test_a_record_that_cannot_be_read_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async with Supervisor() as supervisor:
        with monkeypatch.context() as patch:
            patch.setenv("HOLDFAST_GUARD", str(fake_guard(tmp_path / "guard", b"HLDF" + b"\xff" * 40)))
            run = await supervisor.start(["true"])
        for waiting in (run.wait, run.settled, run.result):
            with pytest.raises(holdfast.JournalDamagedError):
                await waiting()
        assert list(supervisor.runs) == []
        other = await supervisor.start(["true"])
        assert verdict(await other.wait()) == ("succeeded", "exit"), "the others do not notice"


async def test_extend_within_the_ceiling(child: Children) -> None:
    async with Supervisor() as supervisor:
        run = await supervisor.start(child("exits_on_term"), timeout=60, max_timeout=100)
        await run.extend(30)
        assert [fact.detail["limit_ns"] for fact in run.facts if fact.kind == "extended"] == [90 * 10**9]
        with pytest.raises(holdfast.RequestError) as caught:
            await run.extend(30)
        assert (caught.value.errno, caught.value.run_id) == (errno.ERANGE, run.run_id)
        await run.cancel(now=True)
        await run.settled()
        with pytest.raises(holdfast.RequestError, match="too late"):
            await run.extend(1)


async def test_signals_reach_the_leader_or_the_tree(child: Children) -> None:
    async with Supervisor() as supervisor:
        shell = """trap '' USR1; "$0" & wait"""
        run = await supervisor.start(["sh", "-c", shell, *child("reports_signals")])
        await until_ready(run)
        await run.signal("USR1")  # the shell ignores it
        await run.signal("USR1", tree=True)
        await read_until(run, b"got 10\n")
        with pytest.raises(holdfast.SpecError):
            await run.signal("NOSUCH")
        await run.signal("KILL")
        assert verdict(await run.wait()) == ("failed", "signal")
        reached = [fact.detail["reached"] for fact in run.facts if fact.kind == "signalled"]
        assert reached[:3] == [1, 2, 1]


# Input and the terminal.


async def test_write_and_close_stdin() -> None:
    data = bytes(range(256)) * 8192  # much more than a pipe holds
    async with Supervisor() as supervisor:
        run = await supervisor.start(["cat"], stdin="pipe")
        assert await run.write_stdin(data) is True
        await run.close_stdin()
        await run.close_stdin()
        assert await run.write_stdin(b"more") is False
        assert (await run.result()).stdout == data


async def test_two_writers_do_not_mix() -> None:
    one, other = b"a" * 300_000, b"b" * 300_000
    async with Supervisor() as supervisor:
        run = await supervisor.start(["cat"], stdin="pipe")
        async with anyio.create_task_group() as group:
            group.start_soon(run.write_stdin, one)
            group.start_soon(run.write_stdin, other)
        await run.close_stdin()
        assert (await run.result()).stdout in (one + other, other + one)


@pytest.mark.parametrize("ends", ["the run", "stdin"])
async def test_a_writer_that_waits_learns_of_the_end(child: Children, ends: str) -> None:
    taken: list[bool] = []

    async def write(run: Run) -> None:
        taken.append(await run.write_stdin(bytes(1 << 20)))

    async with Supervisor() as supervisor, anyio.create_task_group() as group:
        run = await supervisor.start(child("never_reads.sh", "stay"), stdin="pipe")
        await read_until(run, b"ready\n")
        group.start_soon(write, run)
        await anyio.wait_all_tasks_blocked()
        await (run.cancel() if ends == "the run" else run.close_stdin())
        if ends == "stdin":
            await run.cancel()
    assert taken == [False]


async def test_a_run_without_stdin_or_terminal(child: Children) -> None:
    async with Supervisor() as supervisor:
        run = await supervisor.start(child("exits_on_term"))
        with pytest.raises(holdfast.RequestError, match='stdin="pipe"'):
            await run.write_stdin(b"x")
        with pytest.raises(holdfast.RequestError, match="pty=True"):
            await run.resize(24, 80)


async def test_a_terminal_has_a_size_and_an_end_of_file(child: Children) -> None:
    async with Supervisor() as supervisor:
        run = await supervisor.start(["sh", "-c", "stty size; cat"], pty=True, window_size=(33, 101))
        await read_until(run, b"33 101")
        await run.write_stdin(b"typed\n")
        await run.close_stdin()
        assert b"typed" in (await run.result()).stdout
        run = await supervisor.start(child("reports_signals"), pty=True, grace=0.1)
        await until_ready(run)
        await run.resize(50, 120)
        await read_until(run, b"got %d" % signal.SIGWINCH)


# Output.


async def test_output_while_running_and_after_by_several_readers() -> None:
    async with Supervisor() as supervisor:
        run = await supervisor.start(["sh", "-c", "echo one; read x; echo two >&2"], stdin="pipe")
        early = run.output()
        assert (await early.__anext__()).data == b"one\n"
        await run.write_stdin(b"\n")
        chunk = await early.__anext__()
        assert (chunk.stream, chunk.data, chunk.late) == ("stderr", b"two\n", False)
        with pytest.raises(StopAsyncIteration):
            await early.__anext__()
        assert [chunk.data async for chunk in run.output()] == [b"one\n", b"two\n"]
    assert [chunk.stream async for chunk in run.output()] == ["stdout", "stderr"], "also when all is over"


async def test_late_output_is_fenced(child: Children) -> None:
    async with Supervisor() as supervisor:
        run = await supervisor.start(child("exits_on_term"))
        await until_ready(run)
        await run.cancel()
        await read_until(run, b"bye\n", late=True)
        await run.settled()
        assert b"bye" not in b"".join([chunk.data async for chunk in run.output()])
        assert [chunk.late async for chunk in run.output(late=True)] == [False, True]
        assert b"bye" not in (await run.result()).stdout


async def test_streamed_output_takes_bounded_memory(child: Children) -> None:
    size, seen, largest = 96 << 20, 0, 0
    async with Supervisor() as supervisor:
        run = await supervisor.start(child("writes_bytes", size), keep_output=False)
        async for chunk in run.output():
            seen += len(chunk.data) if chunk.stream == "stdout" else 0
            largest = max(largest, os.fstat(run._live.journal).st_blocks * 512)  # noqa: SLF001
        assert seen == size
        assert largest < 40 << 20, "the window is 16 MiB, and there is a megabyte or two on each side of it"
        assert (await run.result()).stdout == b""
        with pytest.raises(holdfast.HoldfastError, match="keep_output=True"):
            run.output()


async def test_kept_output_takes_as_much_as_there_is(child: Children) -> None:
    """The control of the test above: the measured memory does grow."""
    size = 96 << 20
    async with Supervisor() as supervisor:
        run = await supervisor.start(child("writes_bytes", size))
        await run.settled()
        assert os.fstat(run._live.journal).st_blocks * 512 >= size  # noqa: SLF001
        assert len((await run.result()).stdout) == size


async def test_a_consumer_that_stops_reading_does_not_stop_the_end(child: Children) -> None:
    async with Supervisor() as supervisor:
        run = await supervisor.start(child("writes_bytes", 1 << 30), keep_output=False, grace=0.1)
        assert (await run.output().__anext__()).data
        await run.cancel()
        assert (await run.settled())["status"] == "cancelled"


# Leaving.


async def test_leaving_ends_what_is_left_newest_first(child: Children) -> None:
    async with Supervisor() as supervisor:
        runs = [await supervisor.start(child("exits_on_term")) for _ in range(4)]
        for run in runs:
            await until_ready(run)
    assert [verdict(run.outcome) for run in runs] == [("cancelled", "shutdown")] * 4
    asked = [next(fact.at_ns for fact in run.facts if fact.kind == "stop_asked") for run in runs]
    assert asked == sorted(asked, reverse=True)
    assert all(run.pid is not None and is_gone(run.pid) for run in runs)


async def test_leaving_by_an_exception_does_not_wrap_it(child: Children) -> None:
    runs: list[Run] = []

    async def stumble() -> None:
        async with Supervisor() as supervisor:
            runs.append(await supervisor.start(child("exits_on_term")))
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await stumble()
    assert (runs[0].state, runs[0].cause) == ("settled", "shutdown")


async def test_leaving_because_of_a_cancellation(child: Children) -> None:
    with anyio.CancelScope() as scope:
        async with Supervisor() as supervisor:
            run = await supervisor.start(child("ignores_term"), grace=0.1)
            await until_ready(run)
            scope.cancel()
            await anyio.sleep_forever()
    assert scope.cancelled_caught
    assert (run.state, run.cause, run.outcome.escalated) == ("settled", "shutdown", True)


async def test_a_cancelled_start_starts_nothing(tmp_path: Path) -> None:
    async with Supervisor() as supervisor:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await supervisor.start(["touch", str(tmp_path / "executed")])
        assert scope.cancelled_caught
        assert supervisor.runs == ()
    assert not (tmp_path / "executed").exists()


async def test_a_supervisor_that_is_not_open() -> None:
    closed = Supervisor()
    with pytest.raises(holdfast.HoldfastError, match="not open"):
        await closed.start(["true"])
    async with closed:
        pass
    with pytest.raises(holdfast.HoldfastError, match="not open"):
        await closed.start(["true"])
    with pytest.raises(holdfast.HoldfastError, match="used before"):
        async with closed:
            pass


async def test_a_stopped_guard_does_not_hold_up_the_end(child: Children) -> None:
    async with Supervisor() as supervised:
        run = await supervised.start(child("ignores_term"), grace=0, kill_wait=0.1, drain=0.1)
        pid = (await until_ready(run))["pid"]
        stop_both(run.sentinel_pid, run.guard_pid)
    assert verdict(run.outcome) == ("cancelled", "shutdown")  # it was continued
    assert wait_exited(pid, 0)


async def test_a_settled_run_can_be_closed() -> None:
    before = open_descriptors()
    async with Supervisor() as supervisor:
        run = await supervisor.start(["cat"], stdin="pipe")
        with pytest.raises(holdfast.HoldfastError, match="not settled"):
            run.close()
        await run.close_stdin()
        await run.settled()
        run.close()
        with pytest.raises(holdfast.HoldfastError, match="closed"):
            run.output()
        with pytest.raises(holdfast.HoldfastError, match="closed"):
            await run.result()
        assert (run.status, run.report["status"]) == ("succeeded", "succeeded")
    assert open_descriptors() == before


async def test_a_run_that_nobody_needs_keeps_no_file_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even if its sentinel was still exiting when the run was over. The disk can be unmounted after the block."""
    reap, seen = LiveRun.reap, []

    def reap_late(live: LiveRun, *, wait: bool = False) -> bool:
        seen.append(wait)
        return wait and reap(live, wait=True)

    monkeypatch.setattr(LiveRun, "reap", reap_late)
    gc.disable()
    try:
        async with Supervisor(state_dir=tmp_path) as supervisor:
            await (await supervisor.start(["true"])).settled()
        del supervisor
        links = open_descriptors().values()
    finally:
        gc.enable()
    assert seen[0] is False
    assert [link for link in links if link.startswith(str(tmp_path))] == []


# Refusals, and their messages.


async def test_what_is_refused_says_why_and_what_to_do(child: Children) -> None:
    async with Supervisor() as supervisor:
        endless = await supervisor.start(child("ignores_term"), grace=0)
        bounded = await supervisor.start(child("ignores_term"), grace=0, timeout=600, max_timeout=601)
        for run in (endless, bounded):
            await until_ready(run)
        for run, words, code in (
            (endless, "no deadline.*nothing to extend", errno.EINVAL),
            (bounded, "longest timeout.*ask for less", errno.ERANGE),
        ):
            with pytest.raises(holdfast.RequestError, match=words) as refused:
                await run.extend("1m")
            assert (refused.value.errno, refused.value.run_id) == (code, run.run_id)
        for asked in (
            bounded.extend(-5),
            bounded.extend("soon"),
            bounded.cancel(reason=None),  # type: ignore[arg-type]
            bounded.cancel(reason=b"x"),  # type: ignore[arg-type]
            bounded.signal("NOPE"),
        ):
            with pytest.raises(holdfast.SpecError) as wrong:
                await asked
            assert wrong.value.remedy
        assert bounded.status is None
        await bounded.cancel(now=True)
        with pytest.raises(holdfast.RequestError, match=r"too late.*longer timeout"):
            await bounded.extend(1)


async def test_one_live_run_for_an_id(child: Children) -> None:
    async with Supervisor() as supervisor:
        first = await supervisor.start(child("ignores_term"), grace=0, run_id="mine")
        with pytest.raises(holdfast.RunExistsError, match="mine"):
            await supervisor.start(["true"], run_id="mine")
        await first.cancel(now=True)
        await first.settled()
        again = await supervisor.start(["true"], run_id="mine")
        assert (await again.wait()).status == "succeeded"


async def test_a_state_directory_is_a_path() -> None:
    for wrong in (5, ""):
        with pytest.raises(holdfast.SpecError, match="state_dir"):
            Supervisor(state_dir=wrong)  # type: ignore[arg-type]


async def test_a_stopped_guard_that_is_asked_is_not_waited_for(
    child: Children, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watched_run, "ANSWER_S", 0.05)
    monkeypatch.setattr(watched_run, "look", lambda _live, _now: None)  # it would continue the guard
    async with Supervisor() as supervisor:
        run = await supervisor.start(child("ignores_term"), grace=0, timeout=600)
        await until_ready(run)
        stop_both(run.sentinel_pid, run.guard_pid)
        for asked in (run.cancel(), run.extend(1), run.signal("USR1")):
            with pytest.raises(holdfast.RequestError, match=f"process {run.guard_pid}") as silent:
                await asked
            assert silent.value.errno == errno.ETIMEDOUT
        os.kill(run.sentinel_pid, signal.SIGCONT)
        assert verdict(await run.wait()) == ("cancelled", "user")  # the guard finds the request when it goes on


# The embedding program.

FORKING = """
import os, signal, sys
from holdfast.guard import spec_frames
from holdfast.runs.ephemeral import start_ephemeral
from holdfast.values.spec import make_spec
if sys.argv[1] == "blind":
    spec_frames.os.getpid = lambda: 0
live = start_ephemeral(make_spec(sys.argv[2:], stdin="pipe", grace=0.1))
if os.fork() == 0:
    os.read(0, 1)  # until the test closes it
    os._exit(0)
while live.outcome.started is None:
    live.refresh()
print("ready", f"pid={live.outcome.started.detail['pid']}", flush=True)
signal.pause()
"""


@pytest.mark.parametrize("watching", ["watching", "blind"])
def test_a_fork_that_holds_the_socket_does_not_hold_the_run(child: Children, watching: str) -> None:
    """The race: our death against a copy of the control socket in a forked child, which causes no end of file."""
    argv = [sys.executable, "-c", FORKING, watching, *child("ignores_term")]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        pid = read_ready(program.stdout.fileno())["pid"]
        program.kill()
        if watching == "watching":
            assert wait_exited(pid)
        else:
            assert not wait_exited(pid, 0.5), "the control: only the watch on its owner's pid told the guard"
        program.stdin.close()  # the fork ends, and with it the last copy
        assert wait_exited(pid)


async def test_a_live_run_costs_three_descriptors() -> None:
    async with Supervisor() as supervisor:
        await supervisor.start(["sleep", "110"])  # the first one opens what the supervisor looks at its own state with
        before = len(open_descriptors())
        for _ in range(10):
            await supervisor.start(["sleep", "110"])
        assert len(open_descriptors()) - before == 30


@pytest.mark.alone
@pytest.mark.slow
async def test_a_thousand_live_runs() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 4000:
        pytest.skip(f"allowed: only {hard} descriptors are allowed here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 8192)) if hard > 0 else 8192, hard))
    try:
        async with Supervisor() as supervisor:
            # A guard built with sanitizers takes a hundred times the memory; fewer of those show as much.
            count = 100 if "HOLDFAST_GUARD" in os.environ else 1000
            runs = [await supervisor.start(["cat"], stdin="pipe" if n % 2 else "null") for n in range(count)]
            for run in runs:
                await run.close_stdin()
            statuses = {(await run.wait()).status for run in runs}
        assert statuses == {"succeeded"}
    finally:
        del runs
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_runs_with_input_end_well_under_plain_asyncio() -> None:
    # Not under anyio.run, which leaves a mark of the event loop.
    async def main() -> int:
        async with Supervisor() as supervisor:
            run = await supervisor.start(["sh", "-c", "exit 3"], stdin="pipe")
            return int((await run.settled())["exit_code"])

    assert asyncio.run(asyncio.wait_for(main(), 60)) == 3
