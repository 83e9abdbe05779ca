"""A guard between two runs: late requests of the last run, and requests while the guard is idle."""

from __future__ import annotations

import errno
import os
import select
import signal
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from holdfast.guard import launch, packets
from holdfast.guard.descriptors import GuardDescriptors
from holdfast.guard.inherited_state import read_inherited_state
from holdfast.guard.pool import GuardPool
from holdfast.runs.ephemeral import start_ephemeral
from holdfast.runs.live import LiveRun
from holdfast.values.spec import make_spec

from ..support.evidence import kinds, one
from ..support.processes import descendants, own_children, state_of, stop_both, wait_exited
from ..support.shimmed import guard_that_makes_no_sessions, guard_whose_kills_are_done

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ..support.children import Children

pytestmark = pytest.mark.guard

BOUND_S = 60.0


@pytest.fixture
def idle() -> Iterator[GuardPool]:
    """The idle guards of this test; all of them have exited at its end."""
    guards = GuardPool(read_inherited_state())
    yield guards
    guards.close()


@contextmanager
def started(idle: GuardPool, *argv: str) -> Iterator[LiveRun]:
    """A run whose guard may be used again, or is used again."""
    live = start_ephemeral(make_spec(argv, timeout=60, grace=1), pool=idle)
    try:
        yield live
    finally:
        if live.guard_is_reusable:
            live.part_from_guard()
        if live.pidfd >= 0:
            live.kill_guard()
            live.reap(wait=True)
            live.clean_up()
        live.close()


def settle(live: LiveRun) -> tuple[str | None, str | None]:
    """Wait for the end, or for the guard's; returns status and cause."""
    poll, end = select.poll(), time.monotonic() + BOUND_S
    poll.register(live.control.fileno(), select.POLLIN)
    while not live.ended:
        assert poll.poll(max(0.0, end - time.monotonic()) * 1000), f"it does not end: {live.facts}"
        live.hear_guard()
    return live.outcome.status, live.outcome.cause


def until_started(live: LiveRun) -> None:
    end = time.monotonic() + BOUND_S
    while live.outcome.started is None:
        assert time.monotonic() < end
        os.sched_yield()
        live.refresh()


def test_the_next_run_among_requests_that_see_the_last_one_end(
    idle: GuardPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The guard finds the run over between two requests; the request after them is not for that run any more."""
    monkeypatch.setenv("HOLDFAST_GUARD", str(guard_whose_kills_are_done(tmp_path)))
    with started(idle, "sleep", "60") as first:
        until_started(first)
        stop_both(first.sentinel_pid, first.guard_pid)
        first.ask_signal(signal.SIGKILL, tree=False)
        first.ask_signal(signal.SIGCONT, tree=True)
        guard = first.guard_pid
        first.part_from_guard()
        with started(idle, "true") as second:
            assert second.guard_pid == guard
            os.kill(second.sentinel_pid, signal.SIGCONT)
            assert settle(second) == ("succeeded", "exit")


@pytest.mark.parametrize(
    "packet", [packets.read(0, 0), packets.stop(1 << 40, "user", "", now=False)], ids=["read", "stop"]
)
def test_a_request_that_comes_behind_the_end_does_not_send_the_guard_away(idle: GuardPool, packet: bytes) -> None:
    with started(idle, "true") as first:
        assert settle(first) == ("succeeded", "exit")
        first.control.send(packet)
        guard = first.guard_pid
        first.part_from_guard()
    with started(idle, "true") as second:
        assert settle(second) == ("succeeded", "exit")
        assert second.guard_pid == guard


@pytest.mark.parametrize("may_have_it", [False, True])
def test_a_guard_starts_nothing_before_it_may(
    may_have_it: bool, idle: GuardPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The launcher looks whether a guard may have the next run before the guard hears of it."""
    ran = tmp_path / "ran"
    with started(idle, "true") as first:
        assert settle(first) == ("succeeded", "exit")
        guard = first.guard_pid
        first.part_from_guard()

    def look(_: GuardPool) -> bool:
        end = time.monotonic() + BOUND_S
        while state_of(guard) != "S":  # a guard that sleeps has seen everything
            assert time.monotonic() < end
            os.sched_yield()
        assert not descendants(guard)
        assert not ran.exists()
        return may_have_it

    monkeypatch.setattr(GuardPool, "is_current", property(look))
    with started(idle, "sh", "-c", 'echo "$PPID" >>"$0"', str(ran)) as second:
        assert settle(second) == ("succeeded", "exit")
        assert (second.guard_pid == guard) is may_have_it
        assert ran.read_text() == f"{second.guard_pid}\n"


def test_a_child_that_fails_before_it_may_go_on_is_why_nothing_ran(
    idle: GuardPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_GUARD", str(guard_that_makes_no_sessions(tmp_path)))
    with started(idle, "true") as first:
        assert settle(first) == ("failed", "spawn")
        guard = first.guard_pid
        first.part_from_guard()

    with started(idle, "true") as second:
        assert settle(second) == ("failed", "spawn")
        assert second.guard_pid == guard
        assert one(second.facts, "spawn_failed").detail["error"] == errno.ENOSYS
        assert kinds(second.facts)[-4:] == ["spawn_failed", "tree", "drained", "end"]
        assert "exited" not in kinds(second.facts)
        second.part_from_guard()


@pytest.mark.parametrize("used", [False, True], ids=["new", "used"])
def test_an_interrupt_while_it_is_started_ends_it_at_once(
    used: bool, idle: GuardPool, child: Children, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody has a handle of the run then: it is ended, and its guard gets no other run."""
    before = own_children()
    if used:
        with started(idle, "true") as first:
            assert settle(first) == ("succeeded", "exit")
            first.part_from_guard()
    close = GuardDescriptors.close_theirs
    met: list[set[int]] = []

    def interrupted(descriptors: GuardDescriptors) -> None:
        close(descriptors)
        if not met:
            met.append(own_children() - before)
            raise KeyboardInterrupt

    monkeypatch.setattr(GuardDescriptors, "close_theirs", interrupted)
    monkeypatch.setattr(launch, "_ENDS_WITHIN_MS", 600_000)  # longer than a test may take
    with pytest.raises(KeyboardInterrupt), started(idle, *child("ignores_term")):
        pass
    assert len(met[0]) == 1, "its guard"
    assert not met[0] & own_children()


def test_a_signal_ends_an_idle_guard(idle: GuardPool) -> None:
    with started(idle, "true") as first:
        assert settle(first) == ("succeeded", "exit")
        guard = first.guard_pid
        first.part_from_guard()
    os.kill(guard, signal.SIGTERM)
    assert wait_exited(guard)
    with started(idle, "true") as second:
        assert settle(second) == ("succeeded", "exit")
        assert second.guard_pid != guard


def test_a_run_that_a_signal_meets_at_its_guard_is_cancelled_and_not_lost(idle: GuardPool) -> None:
    with started(idle, "true") as first:
        assert settle(first) == ("succeeded", "exit")
        guard, sentinel = first.guard_pid, first.sentinel_pid
        first.part_from_guard()
    stop_both(sentinel, guard)
    os.kill(guard, signal.SIGTERM)
    with started(idle, "true") as second:
        assert second.guard_pid == guard
        os.kill(sentinel, signal.SIGCONT)
        status, _ = settle(second)
        assert (status, second.outcome.started) == ("cancelled", None)


def test_an_answer_to_the_last_run_is_none_to_the_next(idle: GuardPool) -> None:
    with started(idle, "true") as first:
        assert settle(first) == ("succeeded", "exit")
        first.ask_stop()  # too late: refused, but the sender is gone
        first.part_from_guard()
    with started(idle, "sleep", "60") as second:
        until_started(second)  # the refusal is in the socket
        ticket = second.ask_stop()
        assert settle(second) == ("cancelled", "user")
        second.conversation.conclude(ticket)
