"""Stopping many runs side by side: what is confirmed about the end of each."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from holdfast.guard import packets
from holdfast.journal.reader import JournalReader
from holdfast.state import guard_connection, parallel_stop, run_directory
from holdfast.state.guard_connection import STARTING_S, GuardConnection
from holdfast.state.parallel_stop import StopResult, stop_all
from tests.support.durable import DurableRun, HeldLock, journal_bytes, put_run, run_to_end
from tests.support.evidence import BUSY_S, Stopwatch
from tests.support.processes import is_gone

if TYPE_CHECKING:
    from _socket import socket

    from holdfast.state.directory import StateDirectory
    from tests.support.children import Children

pytestmark = pytest.mark.guard
READY = ["sh", "-c", "echo ready; exec sleep 60"]


def fill_queue(run: DurableRun) -> list[socket]:
    """Connect to a guard that accepts no connection, until there is no room."""
    connections = []
    for _ in range(100):
        try:
            connections.append(run_directory.connect(run.record_path()))
        except BlockingIOError:
            return connections
    raise AssertionError("a queue without end")


class TestStopping:
    def test_confirms_what_is_on_record(self, state: StateDirectory) -> None:
        with DurableRun(state, READY) as run:
            run.until_ready()
            run.let_go()
            (stopped,) = stop_all(state, [run.run_id], cause="user", reason="not needed")
            assert (stopped.how, stopped.asked, stopped.problem) == ("confirmed", True, None)
            assert stopped.report is not None
            assert (stopped.report["status"], stopped.report["cause"]) == ("cancelled", "user")
            assert "not needed" in stopped.report["reason"]
            assert stopped.report["tree"] == "gone"
            assert is_gone(stopped.report["pid"])

    def test_all_ladders_run_side_by_side(self, state: StateDirectory, child: Children) -> None:
        argv = child("ignores_term")
        with ExitStack() as stack:
            runs = [stack.enter_context(DurableRun(state, argv, grace=2)) for _ in range(6)]
            for run in runs:
                run.until_ready()
            run_ids = [run.run_id for run in reversed(runs)]
            results = stop_all(state, run_ids)
            assert [stopped.run_id for stopped in results] == run_ids
            assert {stopped.how for stopped in results} == {"confirmed"}
            reports = [stopped.report or {} for stopped in results]
            assert all(report["escalated"] for report in reports)
            asked = [report["verdict_at"] for report in reports]
            assert asked == sorted(asked)  # the order that was given
            settled = [report["settled_at"] for report in reports]
            assert all(following < end for following, end in zip(asked[1:], settled, strict=False)), "nobody waits"

    def test_now_goes_to_the_last_rung(self, state: StateDirectory, child: Children) -> None:
        with DurableRun(state, child("ignores_term"), grace=60) as run, Stopwatch() as watch:
            run.until_ready()
            (stopped,) = stop_all(state, [run.run_id], now=True)
            assert stopped.how == "confirmed"
        assert watch.seconds < BUSY_S

    def test_one_that_is_over_is_not_asked(self, state: StateDirectory) -> None:
        run_id = run_to_end(state)
        (stopped,) = stop_all(state, [run_id])
        assert (stopped.how, stopped.asked) == ("confirmed", False)
        assert stopped.report is not None
        assert stopped.report["status"] == "succeeded"

    def test_one_whose_guard_is_gone_is_finished(self, state: StateDirectory) -> None:
        with DurableRun(state, READY) as run:
            run.until_ready()
            run.kill_guard()
            (stopped,) = stop_all(state, [run.run_id])
        assert stopped.report is not None
        assert (stopped.report["status"], stopped.asked) == ("lost", False)
        assert stopped.how == ("confirmed" if stopped.report["tree"] == "gone" else "unknown")

    def test_a_guard_that_dies_while_it_is_asked(self, state: StateDirectory, child: Children) -> None:
        with DurableRun(state, child("ignores_term"), grace=60) as run:
            run.until_ready()
            results = []
            thread = threading.Thread(target=lambda: results.extend(stop_all(state, [run.run_id])))
            thread.start()
            reader, end = JournalReader(run.handle.journal), time.monotonic() + 30
            while not any(fact.kind == "stop_asked" for fact in reader.facts) and time.monotonic() < end:
                reader.scan()  # a wake may have another reason; the record says when the stop was asked
            run.kill_guard()
            thread.join(30)
        (stopped,) = results
        assert stopped.report is not None
        assert (stopped.report["status"], stopped.report["cause"]) == ("cancelled", "user")  # it was recorded

    def test_a_stopped_guard_is_continued(self, state: StateDirectory) -> None:
        with DurableRun(state, READY, grace=1, kill_wait=1, drain=1) as run:
            run.until_ready()
            run.stop_guard()
            (stopped,) = stop_all(state, [run.run_id])
            assert stopped.how == "confirmed"
            assert stopped.report is not None
            assert (stopped.report["status"], stopped.report["cause"]) == ("cancelled", "user")

    def test_a_guard_that_is_stopped_in_a_loop_is_ended_by_force(self, state: StateDirectory, child: Children) -> None:
        with DurableRun(state, child("stops_guard", "loop"), grace=0, kill_wait=1, drain=0.1) as run:
            with Stopwatch() as watch:
                (stopped,) = stop_all(state, [run.run_id])
            assert stopped.how == "confirmed"
            # The rule, ten seconds more if it was stopped before its start was on record, and what a busy machine adds.
            assert watch.seconds < 0 + 1 + 0.1 + 2 + STARTING_S + BUSY_S

    def test_control_without_that_a_stopped_guard_is_unknown_after_the_bound(
        self, state: StateDirectory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("continue_guard", "end_by_force"):
            monkeypatch.setattr(parallel_stop, name, lambda _record: None)
        with DurableRun(state, READY, grace=0, kill_wait=0.1, drain=0.1) as run:
            run.until_ready()
            run.stop_guard()
            with Stopwatch() as watch:
                (stopped,) = stop_all(state, [run.run_id])
            assert stopped.how == "unknown"
            assert "bound" in str(stopped.problem)
            assert 0.2 < watch.seconds < BUSY_S
            signal.pidfd_send_signal(run.handle.pidfd, signal.SIGCONT)
            run.until_ended()  # the request was there when it woke up
            with run.record() as record:
                assert record.outcome.cause == "user"

    def test_a_full_queue_of_connections_does_not_block(
        self, state: StateDirectory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("continue_guard", "end_by_force"):
            monkeypatch.setattr(parallel_stop, name, lambda _record: None)
        with DurableRun(state, READY, grace=0, kill_wait=0.1, drain=0.1) as run:
            run.until_ready()
            run.stop_guard()
            connections = fill_queue(run)
            (stopped,) = stop_all(state, [run.run_id])
            assert stopped.how == "unknown"
            assert "cannot be reached" in str(stopped.problem)
            for connection in connections:
                connection.close()
            signal.pidfd_send_signal(run.handle.pidfd, signal.SIGCONT)
            (stopped,) = stop_all(state, [run.run_id])
            assert stopped.how == "confirmed"

    def test_a_guard_without_room_takes_the_newest_asker(self, state: StateDirectory) -> None:
        with DurableRun(state, READY) as run, ExitStack() as idle:
            run.until_ready()
            for _ in range(15):  # as many as it takes besides its owner
                other = run_directory.connect(run.record_path())
                idle.callback(other.close)
                other.send(packets.heartbeat(1))
                assert other.recv(4096)
            (stopped,) = stop_all(state, [run.run_id])
            assert stopped.how == "confirmed"

    def test_a_run_that_is_given_up_before_it_started(self, state: StateDirectory) -> None:
        path = put_run(state, "soon", journal_bytes("soon", []))
        results: list[StopResult] = []
        with HeldLock(path, byte=1):
            asker = GuardConnection(state, "soon")
            assert asker.look() == "live"
            assert asker.record.guard == "starting"
            assert asker.bound_s(now=True) >= guard_connection.STARTING_S
            thread = threading.Thread(target=lambda: results.extend(stop_all(state, ["soon"])))
            thread.start()
            run_directory.discard(state, "soon")
        thread.join(30)
        asker.close()
        (stopped,) = results
        assert (stopped.how, stopped.asked) == ("confirmed", False)

    def test_unreadable_and_missing_ones_stop_nobody(self, state: StateDirectory) -> None:
        put_run(state, "foreign", journal_bytes("foreign").replace(b"HOLDFAST\x01", b"HOLDFAST\x63", 1))
        put_run(state, "noise", os.urandom(100))
        with DurableRun(state, READY) as run:
            run.until_ready()
            results = stop_all(state, ["foreign", "noise", "nobody", run.run_id])
        assert [stopped.how for stopped in results] == ["unknown", "unknown", "confirmed", "confirmed"]
        assert "version" in str(results[0].problem)
