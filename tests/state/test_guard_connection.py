"""Requests to a live run from another process, and their answers."""

from __future__ import annotations

import errno
import os
import signal
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from holdfast.guard import packets
from holdfast.state import guard_connection
from holdfast.state.guard_connection import GuardConnection
from holdfast.values.errors import RequestError, RunNotFoundError
from tests.support.durable import DurableRun, facts_of_success, journal_bytes, put_run, run_to_end

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.state.directory import StateDirectory

pytestmark = pytest.mark.guard
READY = ["sh", "-c", "echo ready; exec sleep 60"]


class TestRequests:
    def test_extend(self, state: StateDirectory) -> None:
        with DurableRun(state, READY, timeout=100, max_timeout=200) as run:
            run.until_ready()
            guard_connection.extend(state, run.run_id, 50)
            with run.record() as record:
                extended = [fact for fact in record.reader.facts if fact.kind == "extended"]
                assert [fact.detail["limit_ns"] for fact in extended] == [150_000_000_000]
            with pytest.raises(RequestError) as raised:
                guard_connection.extend(state, run.run_id, 500)
            assert raised.value.errno == errno.ERANGE
            assert raised.value.run_id == run.run_id

    def test_signal(self, state: StateDirectory) -> None:
        script = "trap 'exit 7' USR1; echo ready; while :; do read line; done"
        with DurableRun(state, ["sh", "-c", script], stdin="pipe") as run:
            run.until_ready()
            guard_connection.send_signal(state, run.run_id, signal.SIGUSR1)
            run.until_ended()
            with run.record() as record:
                assert record.outcome.exit_code == 7

    def test_too_late(self, state: StateDirectory) -> None:
        run_id = run_to_end(state)
        with pytest.raises(RequestError, match="too late") as raised:
            guard_connection.extend(state, run_id, 1)
        assert raised.value.errno == errno.ESRCH
        with pytest.raises(RunNotFoundError, match="nobody"):
            guard_connection.extend(state, "nobody", 1)

    def test_no_answer_is_bounded(self, state: StateDirectory) -> None:
        with DurableRun(state, READY) as run:
            run.until_ready()
            run.stop_guard()
            with GuardConnection(state, run.run_id) as asker, pytest.raises(RequestError) as raised:
                asker.ask(packets.heartbeat, within_s=0.2)
            assert raised.value.errno == errno.ETIMEDOUT
            signal.pidfd_send_signal(run.handle.pidfd, signal.SIGCONT)

    def test_the_bound_is_that_of_the_record(self, state: StateDirectory) -> None:
        for run_id, spec, expected in (
            ("plain", b'{"ladder": "INT:2s,TERM:8s,KILL", "kill_wait_s": 1.0, "drain_s": 3.0}', 14.0),
            ("grace", b'{"grace_s": 4.0}', 11.0),
            ("zero", b'{"grace_s": 0.0, "ladder": "TERM:0s,KILL", "kill_wait_s": 0.0, "drain_s": 0.0}', 0.0),
            ("broken", b"?", 17.0),
        ):
            put_run(state, run_id, journal_bytes(run_id, facts_of_success(0)[:1], spec=spec))
            with GuardConnection(state, run_id) as asker:
                asker.record.read()
                assert asker.bound_s(now=False) == pytest.approx(expected + 3.0), run_id


def connect(connection: GuardConnection) -> None:
    """Connect as soon as the guard has taken in enough of the earlier ones."""
    end = time.monotonic() + 60
    while not connection.connect():
        assert time.monotonic() < end, connection.problem
        os.sched_yield()


class TestCrowd:
    """More connections than the guard has places: the last place is for the newest."""

    @pytest.fixture
    def crowded(self, state: StateDirectory) -> Iterator[tuple[DurableRun, list[GuardConnection]]]:
        with DurableRun(state, READY, timeout=60, grace=0.1) as run, ExitStack() as stack:
            run.until_ready()
            idle = [stack.enter_context(GuardConnection(state, run.run_id)) for _ in range(20)]
            for connection in idle:
                assert connection.look() == "live"
                connect(connection)
            yield run, idle

    def test_idle_connections_keep_nobody_from_asking(
        self, crowded: tuple[DurableRun, list[GuardConnection]], state: StateDirectory
    ) -> None:
        run, _ = crowded
        guard_connection.ask_stop(state, run.run_id, "enough", now=True)
        run.until_ended()
        with run.record() as record:
            assert (record.outcome.status, record.outcome.cause) == ("cancelled", "user")

    def test_only_the_newest_is_replaced(
        self, crowded: tuple[DurableRun, list[GuardConnection]], state: StateDirectory
    ) -> None:
        run, idle = crowded
        guard_connection.extend(state, run.run_id, 1)  # answered, so the guard has taken in the others
        is_open = [connection.conversation.take_in() for connection in idle]
        assert is_open == [True] * 14 + [False] * 6
        ticket = idle[0].conversation.ask(packets.heartbeat)
        assert idle[0].conversation.wait(ticket, time.monotonic() + 60)

    def test_a_request_comes_before_the_owner_that_replaces_its_sender(
        self, crowded: tuple[DurableRun, list[GuardConnection]], state: StateDirectory
    ) -> None:
        run, _ = crowded
        run.stop_guard()
        with ExitStack() as stack:
            late = [stack.enter_context(GuardConnection(state, run.run_id)) for _ in range(5)]
            for connection in late:
                assert connection.connect(), connection.problem
            late[0].send(lambda ticket: packets.stop(ticket, "user", "enough", now=True))
            signal.pidfd_send_signal(run.handle.pidfd, signal.SIGCONT)
            run.until_ended()
        with run.record() as record:
            assert (record.outcome.status, record.outcome.cause) == ("cancelled", "user")
