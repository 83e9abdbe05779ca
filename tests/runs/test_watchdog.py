"""The owner's watchdog: sentinel and guard are stopped together, once or in a loop, and every waiter is answered."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest

import holdfast
from holdfast import Supervisor
from holdfast.guard.processes import kill_both
from holdfast.journal.facts import make_fact
from holdfast.outcome import decide
from holdfast.runs import blocking, watched_run
from holdfast.runs import live as live_module
from holdfast.runs.watchdog import ABANDON, END_TREE, KILL, LATE_S, PATIENCE_S, Watchdog, settle_s
from holdfast.values.spec import make_spec

from ..support.evidence import BUSY_S, kinds
from ..support.freezer import Freezer, why_no_freezer
from ..support.processes import is_gone, let_stop_both, state_of, stopping_both, wait_exited
from ..support.readiness import names_in, until_ready

if TYPE_CHECKING:
    from holdfast.runs.live import LiveRun

    from ..support.children import Children

pytestmark = pytest.mark.guard

SHORT: dict[str, Any] = {"grace": 0.2, "kill_wait": 1, "drain": 0.3}
TIMEOUT_S = 1.0  # long enough for a command on a busy machine to say that it is ready
# The rule: deadline, grace, drain and kill-wait, and two seconds. "The bound, computed", below, has the exact times.
END_S = TIMEOUT_S + 0.2 + 1 + 0.3 + 2.0


def bounded(begin: float) -> None:
    assert time.monotonic() - begin < END_S + BUSY_S


# `holdfast.run`.


@pytest.mark.parametrize("how", ["once", "loop"])
def test_a_command_that_stops_both_is_ended_in_time(child: Children, contained: str, how: str) -> None:
    begin = time.monotonic()
    result = holdfast.run(child("stops_guard", how), timeout=TIMEOUT_S, **SHORT)
    bounded(begin)
    assert (result.status, result.cause) in {("timed_out", "deadline"), ("lost", "guard")}
    assert (result.report["tree"], result.report["containment"]) == ("gone", contained)
    pid = result.report["pid"]  # None: the guard was stopped before it recorded the start, and then killed
    assert pid is None or wait_exited(pid, 0)


@pytest.mark.usefixtures("contained")
def test_a_process_without_a_session_or_an_environment_is_found_below_its_guard(child: Children) -> None:
    begin = time.monotonic()
    (program,) = child("stops_guard")
    line = f"env -i setsid {program} loop $PPID >/dev/null & echo ready hidden=$!; wait"
    result = holdfast.run(["sh", "-c", line], timeout=TIMEOUT_S, **SHORT)
    bounded(begin)
    assert result.report["tree"] == "gone"
    assert wait_exited(names_in(result.stdout)["hidden"], 0)


def test_an_exit_is_seen_without_any_bound(child: Children) -> None:
    result = holdfast.run(child("stops_guard", "exits"))
    assert (result.status, result.cause, result.exit_code) == ("failed", "exit", 7)


def test_an_interrupted_call_ends_although_both_are_stopped_in_a_loop(child: Children) -> None:
    seen: list[tuple[int, float]] = []

    def interrupt(chunk: holdfast.Chunk) -> None:
        names = names_in(chunk.data)
        let_stop_both(names)
        seen.append((names["pid"], time.monotonic()))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        holdfast.run(child("stops_guard", "asked"), on_output=interrupt, **SHORT)
    ((pid, begin),) = seen
    bounded(begin)
    assert wait_exited(pid, 0)


def test_control_without_the_watchdog_the_call_does_not_return(
    child: Children, monkeypatch: pytest.MonkeyPatch
) -> None:
    returned = threading.Event()
    seen: list[LiveRun] = []

    def do_nothing(live: LiveRun) -> bool:
        seen.append(live)
        live.watchdog.next_at = time.monotonic() + 0.1
        return False

    def call() -> None:
        holdfast.run(child("stops_guard", "once"), timeout=TIMEOUT_S, on_output=lambda _chunk: None)
        returned.set()

    monkeypatch.setattr(blocking, "watch", do_nothing)

    thread = threading.Thread(target=call)
    thread.start()
    try:
        assert not returned.wait(END_S)
    finally:
        os.kill(seen[0].sentinel_pid, signal.SIGCONT)
        thread.join()


# `Supervisor`.


@pytest.mark.anyio
@pytest.mark.parametrize("how", ["once", "loop"])
async def test_a_supervisor_ends_such_a_run_in_time(child: Children, contained: str, how: str) -> None:
    begin = time.monotonic()
    async with Supervisor() as supervisor:
        run = await supervisor.start(child("stops_guard", how), timeout=TIMEOUT_S, **SHORT)
        report = await run.settled()
        bounded(begin)
        other = await supervisor.start(["echo", "fine"])  # in a new leaf: the other one was killed
        fine = await other.result()
        assert fine.stdout == b"fine\n", fine.facts
    assert (report["status"], report["cause"]) in {("timed_out", "deadline"), ("lost", "guard")}
    assert (report["tree"], report["containment"]) == ("gone", contained)


@pytest.mark.anyio
async def test_a_step_that_comes_after_the_end_meets_no_other_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The watchdog's thread kills by a descriptor that is its own, although the run has ended and closed its own."""
    begun, may_go_on, seen = threading.Event(), threading.Event(), list[str]()

    def kill_late(pidfd: int, *more: Any) -> None:
        begun.set()
        assert may_go_on.wait(30)
        seen.append(Path(f"/proc/self/fdinfo/{pidfd}").read_text())
        kill_both(pidfd, *more)

    def kill_at_once(live: LiveRun, now: float) -> str | None:
        live.watchdog.next_at = now + 1
        live.pool = None  # as `look` does
        return KILL if live.spec.argv[0] == "sleep" and not begun.is_set() else None

    monkeypatch.setattr(live_module, "kill_both", kill_late)
    monkeypatch.setattr(watched_run, "look", kill_at_once)
    async with Supervisor() as supervisor:
        run = await supervisor.start(["sleep", "600"])
        sentinel = run.sentinel_pid
        assert await anyio.to_thread.run_sync(begun.wait, 30)
        await run.cancel(now=True)
        await run.settled()
        assert await anyio.to_thread.run_sync(wait_exited, sentinel)
        other = await supervisor.start(["cat"], stdin="pipe")
        may_go_on.set()
        await other.close_stdin()
        assert (await other.result()).status == "succeeded"
    (fields,) = seen
    assert "Pid:\t" in fields, "it is still a descriptor of a process"
    assert f"Pid:\t{sentinel}\n" in fields or "Pid:\t-1\n" in fields, "of the same one, or of none"


@pytest.mark.anyio
async def test_a_supervisor_sees_an_exit_without_any_bound(child: Children) -> None:
    async with Supervisor() as supervisor:
        run = await supervisor.start(child("stops_guard", "exits"))
        assert (await run.settled())["exit_code"] == 7


@pytest.mark.anyio
async def test_a_cancelled_run_ends_without_a_deadline(child: Children) -> None:
    async with Supervisor() as supervisor:
        run = await supervisor.start(child("stops_guard", "asked"), **SHORT)
        let_stop_both(await until_ready(run))
        begin = time.monotonic()
        with anyio.CancelScope() as scope:
            scope.cancel()
            await run.cancel("enough")
        await run.settled()
        bounded(begin)
    assert run.report["tree"] == "gone"


@pytest.mark.anyio
@pytest.mark.usefixtures("contained")
async def test_guards_that_are_stopped_from_outside_are_killed(child: Children) -> None:
    async with Supervisor() as supervisor:
        begin = time.monotonic()
        run = await supervisor.start(child("ignores_term"), timeout=TIMEOUT_S, **SHORT)
        pid = (await until_ready(run))["pid"]
        with stopping_both(run.sentinel_pid, run.guard_pid):
            report = await run.settled()
        bounded(begin)
        facts = (await run.result()).facts
    assert report["status"] in {"timed_out", "lost"}
    assert report["tree"] == ("unknown" if "lost" in kinds(facts) else "gone")
    assert wait_exited(pid, 0)


@pytest.mark.anyio
async def test_a_supervisor_that_is_left_does_not_wait_for_stopped_guards(child: Children) -> None:
    async with Supervisor() as supervisor:
        run = await supervisor.start(child("ignores_term"), **SHORT)
        pid = (await until_ready(run))["pid"]
        stopping = stopping_both(run.sentinel_pid, run.guard_pid)
        stopping.__enter__()
        begin = time.monotonic()
    stopping.__exit__(None, None, None)
    bounded(begin)
    assert run.status in {"cancelled", "lost"}
    assert wait_exited(pid, 0)


@pytest.mark.anyio
async def test_control_without_the_watchdog_nothing_ends(child: Children, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched_run, "look", lambda _live, _now: None)
    async with Supervisor() as supervisor:
        run = await supervisor.start(child("stops_guard", "once"), timeout=TIMEOUT_S, **SHORT)
        with anyio.move_on_after(END_S) as scope:
            await run.settled()
        assert scope.cancelled_caught
        assert (state_of(run.sentinel_pid), state_of(run.guard_pid)) == ("T", "T")
        os.kill(run.sentinel_pid, signal.SIGCONT)


def test_the_watchdog_does_not_use_the_clock_of_the_event_loop(child: Children) -> None:
    """A test's clock jumps ahead to the next timer when nothing happens: the watchdog must not have one."""
    trio = pytest.importorskip("trio")
    testing = pytest.importorskip("trio.testing")

    async def main() -> float:
        begin: float = trio.current_time()
        async with Supervisor() as supervisor:
            run = await supervisor.start(child("exits_at", 1300))
            await run.settled()
            passed: float = trio.current_time() - begin
        return passed

    assert trio.run(main, clock=testing.MockClock(autojump_threshold=0)) == 0


# A guard that not even SIGKILL ends.


@pytest.mark.root
@pytest.mark.anyio
@pytest.mark.parametrize("kept", [False, True])
async def test_guards_that_cannot_be_killed_are_left(child: Children, tmp_path: os.PathLike[str], kept: bool) -> None:
    if why_not := why_no_freezer():
        pytest.skip(why_not)
    with Freezer() as sentinels, Freezer() as guards:
        async with Supervisor(state_dir=tmp_path if kept else None) as supervisor:
            begin = time.monotonic()
            run = await supervisor.start(child("ignores_term"), timeout=TIMEOUT_S, **SHORT)
            pid = (await until_ready(run))["pid"]
            sentinels.freeze(run.sentinel_pid)
            guards.freeze(run.guard_pid)
            report = await run.settled()
            bounded(begin)
            assert wait_exited(pid, 0)
            for frozen in (sentinels, guards):
                frozen.thaw()
            assert wait_exited(run.guard_pid)
    assert (report["status"], report["cause"]) == ("lost", "guard")
    assert is_gone(run.sentinel_pid)


# The bound, computed.


def step_at(watchdog: Watchdog, now: float, outcome: Any, extended: Any = None, position: int = 0) -> str | None:
    return watchdog.next_step(now, outcome, extended, position) if watchdog.is_due(now, outcome) else None


def test_the_steps_and_their_times() -> None:
    spec = make_spec(["true"], timeout=10, **SHORT)
    settle = settle_s(spec)
    assert settle == pytest.approx(0.2 + 1 + 0.3)
    watchdog, nothing = Watchdog(spec, 100.0), decide(())
    due = 110.0 + settle + LATE_S
    looks = [100.0 + second for second in range(1, 13) if 100.0 + second < due]
    assert [step_at(watchdog, now, nothing) for now in looks] == [None] * len(looks)
    assert watchdog.next_at == pytest.approx(min(due, looks[-1] + 1))
    steps = []
    now = due + LATE_S
    for position in (1, 2, 2, 2):  # the journal grows once
        steps.append(step_at(watchdog, now, nothing, position=position))
        now += PATIENCE_S
    assert steps == [END_TREE, None, KILL, ABANDON]
    assert watchdog.next_at == float("inf")


def test_a_run_without_a_deadline_has_a_bound_once_it_is_asked_to_stop() -> None:
    watchdog = Watchdog(make_spec(["true"], **SHORT), 100.0)
    assert step_at(watchdog, 1000.0, decide(())) is None
    watchdog.stop_was_asked(1000.0)
    watchdog.stop_was_asked(1001.0)  # a second request does not move the bound
    for now in (1001.0, 1002.0):
        assert step_at(watchdog, now, decide(())) is None
    assert step_at(watchdog, 1002.6, decide(())) == END_TREE


def test_an_extended_deadline_moves_the_bound() -> None:
    watchdog = Watchdog(make_spec(["true"], timeout=1, **SHORT), 100.0)
    extended = make_fact("extended", 0, limit_ns=4_000_000_000)
    for now in (101.0, 102.0, 103.0, 104.0, 105.0, 106.0, 107.0):
        assert step_at(watchdog, now, decide(()), extended) is None
    assert step_at(watchdog, 107.6, decide(()), extended) == END_TREE


@pytest.mark.parametrize(("stragglers", "ends"), [("kill", True), ("wait", False)])
def test_after_the_exit(stragglers: str, ends: bool) -> None:
    watchdog = Watchdog(make_spec(["true"], stragglers=stragglers, **SHORT), 100.0)
    outcome = decide([make_fact("exited", time.clock_gettime_ns(time.CLOCK_BOOTTIME), wait_status=0)])
    steps = [step_at(watchdog, 101.0 + second, outcome) for second in range(5)]
    assert (END_TREE in steps) == ends


def test_an_owner_that_did_not_run_itself_gives_the_others_time() -> None:
    spec = make_spec(["true"], timeout=10, **SHORT)
    asleep, awake = Watchdog(spec, 100.0), Watchdog(spec, 100.0)
    nothing = decide(())
    for second in range(1, 11):
        assert step_at(awake, 100.0 + second, nothing) is None
        assert step_at(asleep, 100.0 + second, nothing) is None
    for now in (111.0, 112.0, 113.0):
        step_at(awake, now, nothing)
    assert step_at(awake, 113.6, nothing) == END_TREE
    assert step_at(asleep, 170.0, nothing) is None  # all of us were frozen: the guard has just begun to act
    assert step_at(asleep, 171.0, nothing) is None
