"""Requests at bad moments: right before their sender leaves, far too many, or to a busy guard."""

from __future__ import annotations

import select
import time
from contextlib import contextmanager
from errno import ERANGE
from typing import TYPE_CHECKING

import pytest

from holdfast.guard import packets
from holdfast.state import run_directory
from holdfast.state.directory import StateDirectory
from tests.support.cgroups import use_no_cgroup
from tests.support.driven import Driven, ask
from tests.support.evidence import BUSY_S, all_of, assert_all_gone, kinds, one, outcome_of
from tests.support.freezer import Freezer, why_no_freezer
from tests.support.guards import guard_as
from tests.support.shimmed import guard_with_slow_proc

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.children import Children

pytestmark = pytest.mark.guard

READY = ["sh", "-c", "echo ready; exec sleep 60"]
CROWD = 300

# --- the last words of an owner ---


@pytest.mark.parametrize("lifetime", ["owner", "detached"])
@pytest.mark.parametrize("unread", [True, False])
def test_a_stop_right_before_leaving_is_done(lifetime: str, unread: bool, tmp_path: Path) -> None:
    """With a wake unread, closing makes the guard's next receive fail once, ahead of the request."""
    state = StateDirectory.open(str(tmp_path / "state"))
    with Driven(READY, state=state, lifetime=lifetime, wake_output=unread) as run:
        run.until_ready()
        poll = select.poll()
        poll.register(run.live.control.fileno(), select.POLLIN)
        if not unread:
            assert poll.poll(20_000), "the wake for the start"
            run.live.on_readable()
        assert bool(poll.poll(20_000 if unread else 0)) is unread, "a wake"
        run.live.ask_stop("user", "last words")
        run.live.control.close()
        result = run.settle()
    assert outcome_of(result) == ("cancelled", "user")
    assert "last words" in result.report["reason"]
    assert_all_gone(result.report)


def test_control_leaving_without_a_word_is_the_owners_end() -> None:
    with Driven(READY, wake_output=True) as run:
        run.until_ready()
        run.live.control.close()
        assert outcome_of(run.settle()) == ("cancelled", "owner")


# --- far too many ---

TIMEOUT_NS = 30_000_000_000


@pytest.mark.parametrize("by_ns", [2**64 - 1, 2**64 - 1 - TIMEOUT_NS, 2**63, 2**62])
def test_an_extension_beyond_all_time_is_refused(by_ns: int) -> None:
    with Driven(["cat"], stdin="pipe", timeout=TIMEOUT_NS / 1e9, warn_before=1) as run:
        run.until("started")
        assert run.ask(lambda ticket: packets.extend(ticket, by_ns)) == ERANGE
        run.take_turns()
        assert not all_of(run.facts, "extended")
        assert not all_of(run.facts, "deadline"), "the clock did not wrap round"
        assert run.ask(lambda ticket: packets.extend(ticket, 10**9)) == 0, "and it can still be moved"
        run.live.close_input()
        result = run.settle()
    assert outcome_of(result) == ("succeeded", "exit")
    assert one(result.facts, "extended").detail["limit_ns"] == TIMEOUT_NS + 10**9


# --- a guard with much to do ---


@pytest.fixture
def no_cgroup(monkeypatch: pytest.MonkeyPatch) -> None:
    """Budgets are sampled and processes are killed one by one."""
    use_no_cgroup(monkeypatch)


@pytest.mark.alone
@pytest.mark.usefixtures("no_cgroup")
def test_a_large_tree_is_sampled_and_killed_beside_requests() -> None:
    line = f"for i in $(seq {CROWD}); do sleep 60 & done; echo ready; wait"
    with Driven(["sh", "-c", line], memory="8G", pids=10_000, timeout=100) as run:
        run.until_ready()
        begin = time.monotonic()
        for _ in range(20):
            assert run.ask(packets.heartbeat, within_s=BUSY_S) == 0
        assert time.monotonic() - begin < 2
        assert run.ask(lambda ticket: packets.stop(ticket, "user", "", now=True), within_s=BUSY_S) == 0
        result = run.settle()
    assert outcome_of(result) == ("cancelled", "user")
    assert one(result.facts, "signalled").detail["reached"] == CROWD + 1
    assert_all_gone(result.report)


@pytest.mark.usefixtures("no_cgroup")
def test_a_sample_that_takes_longer_than_its_interval(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_GUARD", str(guard_with_slow_proc(tmp_path, 50)))
    with Driven(READY, memory="8G", timeout=100) as run:
        run.until_ready()
        begin = time.monotonic()
        while time.monotonic() < begin + 1:  # ten times the interval: samples are on their way
            assert run.ask(packets.heartbeat, within_s=BUSY_S) == 0
        assert run.ask(lambda ticket: packets.stop(ticket, "user", "", now=True), within_s=BUSY_S) == 0
        assert outcome_of(run.settle()) == ("cancelled", "user")


@pytest.fixture
def freezer() -> Iterator[Freezer]:
    """A freezer, in which even SIGKILL has to wait."""
    if why_not := why_no_freezer():
        pytest.skip(why_not)
    with Freezer() as freezer:
        yield freezer


@pytest.mark.root
@pytest.mark.usefixtures("no_cgroup")
def test_killing_what_does_not_die(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, freezer: Freezer, child: Children
) -> None:
    """Each pass takes longer than its slice, so the next is due at once; requests come between."""
    monkeypatch.setenv("HOLDFAST_GUARD", str(guard_with_slow_proc(tmp_path, 30)))
    with Driven(child("ignores_term"), grace=0.1, kill_wait=15) as run:
        freezer.freeze(run.until_ready()["pid"])
        run.live.ask_stop("user", "", now=True)
        run.until("stop_asked")
        begin = time.monotonic()
        while time.monotonic() < begin + 1:  # many passes
            assert run.ask(packets.heartbeat, within_s=BUSY_S) == 0
        assert "tree" not in kinds(run.facts), "it is still at it"
        freezer.thaw()
        result = run.settle()
    assert_all_gone(result.report)


# --- more connections than descriptors ---


@contextmanager
def too_many(run: Driven, path: str) -> Iterator[None]:
    """More connections than the guard has descriptors for; the others stay in the queue."""
    connections = [run_directory.connect(path) for _ in range(15)]
    try:
        poll = select.poll()
        for connection in connections:
            connection.send(packets.heartbeat(1))
            poll.register(connection.fileno(), select.POLLIN)
        for _ in connections:
            run.take_turns()
        assert 0 < len(poll.poll(0)) < 15, "the descriptors did not run out"
        yield
    finally:
        for connection in connections:
            connection.close()


@pytest.fixture
def few_descriptors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Enough to watch everything (another test covers that), but not for 15 connections."""
    monkeypatch.setenv("HOLDFAST_GUARD", str(guard_as(tmp_path, ["prlimit", "--nofile=22"])))


@pytest.mark.usefixtures("few_descriptors")
def test_a_listener_without_descriptors_does_not_spin(tmp_path: Path) -> None:
    state = StateDirectory.open(str(tmp_path / "state"))
    with Driven(READY, state=state, lifetime="detached", timeout=3, grace=5) as run:
        run.until_ready()
        with too_many(run, state.run_path(run.live.spec.run_id)):
            result = run.settle()
        assert run.guard_cpu_s() < 0.4
    assert outcome_of(result) == ("timed_out", "deadline")


@pytest.mark.usefixtures("few_descriptors")
def test_a_listener_that_has_descriptors_again_listens(tmp_path: Path) -> None:
    state = StateDirectory.open(str(tmp_path / "state"))
    with Driven(READY, state=state, lifetime="detached", timeout=60) as run:
        run.until_ready()
        path = state.run_path(run.live.spec.run_id)
        with too_many(run, path):
            pass
        again = run_directory.connect(path)
        assert ask(again, packets.heartbeat) == 0
        again.close()


@pytest.mark.usefixtures("few_descriptors")
def test_a_verdict_does_not_keep_a_listener_paused(tmp_path: Path, child: Children) -> None:
    """Every phase clears the timers of the one before, that of the pause too: then there must be no pause."""
    state = StateDirectory.open(str(tmp_path / "state"))
    with Driven(child("reports_signals"), state=state, lifetime="detached", ladder="USR1:10m,KILL") as run:
        run.until_ready()
        path = state.run_path(run.live.spec.run_id)
        with too_many(run, path):
            run.live.ask_stop("user", "while it cannot accept")
            run.until("signalled")
        again = run_directory.connect(path)
        assert ask(again, packets.heartbeat) == 0
        again.close()
