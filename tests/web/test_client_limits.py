"""The account of one client: its connections, requests and bytes, with a clock that stands still."""

from __future__ import annotations

import pytest

from holdfast.web import client_limits
from holdfast.web.client_limits import BURST_S, ClientBounds, ClientLimits, address_account
from holdfast.web.problems import ProblemError


class Clock:
    """A clock that stands still until the test moves it."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Held:
    """A connection that can be evicted."""

    charged = 0
    gives_way = True
    is_evicted = False

    def evict(self, _detail: str) -> None:
        self.is_evicted = True


def taken(limits: ClientLimits, client: str, *, is_known: bool = True) -> int:
    """How many requests pass before one is refused."""
    count = -1
    with pytest.raises(ProblemError) as raised:  # noqa: PT012 - any of them may be refused
        for count in range(100_000):  # noqa: B007 - how many passed
            limits.take(client, is_known=is_known)
    assert raised.value.problem.status == 429
    assert int(raised.value.headers["Retry-After"]) >= 1
    return count


def test_a_client_has_its_burst_and_then_its_rate() -> None:
    clock = Clock()
    limits = ClientLimits(ClientBounds(requests_per_s=10, stranger_requests_per_s=2), clock)
    assert taken(limits, "token a") == 10 * BURST_S
    assert taken(limits, "token b") == 10 * BURST_S  # each has its own
    assert taken(limits, "address 127.0.0.1", is_known=False) == 2 * BURST_S
    clock.now += 1
    assert taken(limits, "token a") == 10
    clock.now += 1000
    assert taken(limits, "token a") == 10 * BURST_S


def test_without_bounds_nothing_is_refused() -> None:
    limits = ClientLimits(ClientBounds())
    for _ in range(10_000):
        limits.take("user 0", is_known=True)
    members = [Held() for _ in range(100)]
    for member in members:
        limits.enter("user 0", member)
        limits.enter_stranger("address 127.0.0.1", member)
    assert not [member for member in members if member.is_evicted]
    assert limits.charge("user 0", 1 << 40) is None


def test_a_known_client_beyond_its_connections_is_refused_until_one_ends() -> None:
    limits = ClientLimits(ClientBounds(connections=2))
    first, second, third = Held(), Held(), Held()
    limits.enter("token a", first)
    limits.enter("token a", second)
    limits.enter("token a", first)  # it counts once
    with pytest.raises(ProblemError, match="token a has 2 connections"):
        limits.enter("token a", third)
    limits.enter("token b", third)
    limits.leave("token a", first)
    limits.enter("token a", third)


def test_connections_of_strangers_give_way_the_oldest_idle_one_first() -> None:
    limits = ClientLimits(ClientBounds(connections=2))
    busy, idle, newest, other = Held(), Held(), Held(), Held()
    busy.gives_way = False
    for member in (busy, idle):
        limits.enter_stranger("address 192.0.2.1", member)
    limits.enter_stranger("address 192.0.2.2", other)
    limits.enter_stranger("address 192.0.2.1", newest)
    assert [each.is_evicted for each in (busy, idle, newest, other)] == [False, True, False, False]


def test_bytes_that_wait_are_counted_until_they_are_answered() -> None:
    limits = ClientLimits(ClientBounds(waiting_bytes=100))
    assert limits.charge("token a", 60) is None
    assert limits.charge("token b", 60) is None
    told = limits.charge("token a", 60)
    assert told is not None
    assert "token a" in told
    limits.release("token a", 120)
    assert limits.charge("token a", 100) is None


def test_a_host_counts_once_whatever_its_address() -> None:
    assert address_account("192.0.2.7") == address_account("::ffff:192.0.2.7") == "address 192.0.2.7"
    assert address_account("2001:db8::1") == address_account("2001:db8::ffff") != address_account("2001:db8:0:1::1")
    assert address_account("fe80::1%eth0") == address_account("fe80::2")


def test_accounts_of_clients_that_went_away_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_limits, "_MOST_ACCOUNTS", 100)
    limits = ClientLimits(ClientBounds(stranger_requests_per_s=2))
    here = Held()
    limits.enter("token a", here)
    for number in range(1000):
        limits.take(f"address {number}", is_known=False)
    accounts = limits._accounts  # noqa: SLF001
    assert len(accounts) <= 100
    assert here in accounts["token a"].members  # control: who is here is not forgotten
