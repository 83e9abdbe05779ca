"""The conversation with a real guard: answers, refusals, silence, and the bound on an end."""

from __future__ import annotations

import errno
import time

import pytest

from holdfast import RequestError
from holdfast.guard import packets
from holdfast.guard.conversation import Conversation, settle_bound_s
from holdfast.values.spec import make_spec

from ..support.driven import BOUND_S, Driven

SLEEPS = ["sleep", "110"]


def wait(conversation: Conversation, ticket: int, within_s: float = BOUND_S) -> bool:
    return conversation.wait(ticket, time.monotonic() + within_s)


def fill(conversation: Conversation) -> None:
    """Send requests until the guard's socket is full, which is an error."""
    for _ in range(100_000):
        conversation.ask(packets.heartbeat)


def test_a_request_is_answered_or_refused() -> None:
    with Driven(SLEEPS) as run:
        run.until("started")
        conversation = run.live.conversation
        done, refused = conversation.ask(packets.heartbeat), conversation.ask(lambda ticket: packets.extend(ticket, 1))
        assert done != refused
        assert wait(conversation, refused)
        conversation.conclude(done)
        with pytest.raises(RequestError, match="refused the request") as error:
            conversation.conclude(refused)
        assert error.value.errno == errno.EINVAL  # there is no deadline to move


def test_an_answer_to_somebody_else_is_left_out() -> None:
    with Driven(SLEEPS) as run:
        conversation = run.live.conversation
        conversation.socket.send(packets.heartbeat(10**9))  # as the last run of a guard from the pool
        ours = conversation.ask(packets.heartbeat)
        assert wait(conversation, ours)
        assert not conversation.has_answered(10**9)


def test_a_stopped_guard_does_not_answer_and_then_does_not_read() -> None:
    with Driven(SLEEPS) as run:
        run.until("started")
        run.stop_guard()
        conversation = run.live.conversation
        ticket = conversation.ask(packets.heartbeat)
        assert not wait(conversation, ticket, 0.05)
        with pytest.raises(RequestError, match=f"process {run.live.guard_pid}") as silent:
            conversation.conclude(ticket)
        assert silent.value.errno == errno.ETIMEDOUT
        with pytest.raises(RequestError, match="does not read") as full:
            fill(conversation)
        assert full.value.errno == errno.EAGAIN
        run.continue_guard()
        assert wait(conversation, ticket), "it finds the requests when it goes on"


def test_a_run_that_is_over_takes_no_more_requests() -> None:
    with Driven(["true"]) as run:
        run.settle()
        with pytest.raises(RequestError, match="the run is over") as error:
            run.live.conversation.ask(packets.heartbeat)
        assert error.value.errno == errno.ESRCH


def test_the_bound_of_an_end_is_the_sum_of_its_waits() -> None:
    long = make_spec(["true"], ladder="INT:2s,TERM:8s,KILL", kill_wait=4, drain=1)
    short = make_spec(["true"], ladder="INT:1s,TERM:8s,KILL", kill_wait=4, drain=1)
    assert settle_bound_s(long) - settle_bound_s(short) == pytest.approx(1)
    assert settle_bound_s(long) - settle_bound_s(long, now=True) == pytest.approx(10)
    assert settle_bound_s(long, now=True) > 5
