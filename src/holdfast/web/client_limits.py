"""Limits of one client: its connections, its requests per second, and the bytes of its requests that wait.

The access checks say who a client is: a user of the Unix socket, a token by its name, the sessions of browsers. Each
has an account here, whatever connections its requests come through. A client that nobody knows has the account of its
address. That account never counts for a client that is known: on 127.0.0.1 every stranger has the address of the owner.

A known client beyond a limit is refused (429), and told when to come again. The connections of strangers give way
instead, the oldest first: a refusal would lock out the owner, whose connection is a stranger's until its first request.
How many bytes strangers may send is a bound of the pool (`connection_pool.py`).
"""

from __future__ import annotations

import ipaddress
import time
from typing import TYPE_CHECKING, NamedTuple

from .problems import CLIENT_LIMIT, ProblemError, retry_after

if TYPE_CHECKING:
    from collections.abc import Callable

    from .pool_member import Member

BURST_S = 5.0  # a client that was quiet may send the requests of so many seconds at once
_MOST_ACCOUNTS = 10_000
_LOOKED_AT = 16  # accounts that one new account may push out


class ClientBounds(NamedTuple):
    """The limits of one client; None: no limit."""

    connections: int | None = None
    requests_per_s: int | None = None
    stranger_requests_per_s: int | None = None
    waiting_bytes: int | None = None


class ClientAccount:
    """What one client has now."""

    def __init__(self, now: float) -> None:
        self.members: dict[Member, None] = {}  # its connections, the oldest first
        self.waiting_bytes = 0
        self._spent = 0.0  # of its requests, as many as are not made good by time
        self._at = now

    @property
    def is_idle(self) -> bool:
        """Whether the client has neither a connection nor bytes here."""
        return not self.members and not self.waiting_bytes

    def take(self, rate: float, now: float) -> float:
        """Count one request; returns 0, or the seconds after which there is room for it."""
        self._spent = max(0.0, self._spent - (now - self._at) * rate)
        self._at = now
        most = max(1.0, rate * BURST_S)
        if self._spent + 1 > most:
            return (self._spent + 1 - most) / rate
        self._spent += 1
        return 0.0


class ClientLimits:
    """The accounts of all clients of a server. Everything happens on the event loop's thread."""

    def __init__(self, bounds: ClientBounds | None = None, now: Callable[[], float] = time.monotonic) -> None:
        self.bounds = bounds or ClientBounds()  # may be replaced at any time
        self._accounts: dict[str, ClientAccount] = {}  # the one that was used last is last
        self._now = now

    def account(self, client: str) -> ClientAccount:
        """The account of this client."""
        found = self._accounts.pop(client, None) or ClientAccount(self._now())
        self._accounts[client] = found
        if len(self._accounts) > _MOST_ACCOUNTS:
            self._forget()
        return found

    def enter_stranger(self, address: str, member: Member) -> None:
        """Count a connection of a client that nobody knows. Beyond the limit, the oldest idle one gives way."""
        members = self.account(address).members
        members[member] = None
        most = self.bounds.connections
        if most is not None and len(members) > most:
            oldest = next((each for each in members if each.gives_way and each is not member), None)
            if oldest is not None:
                del members[oldest]
                oldest.evict("")

    def enter(self, client: str, member: Member) -> None:
        """Count a connection of a known client. ProblemError 429: it has too many."""
        members = self.account(client).members
        most = self.bounds.connections
        if member not in members and most is not None and len(members) >= most:
            raise _refusal(f"{client} has {len(members)} connections, which is the most", "http.client_connections")
        members[member] = None

    def leave(self, client: str, member: Member) -> None:
        """Forget a connection of this client."""
        if (account := self._accounts.get(client)) is not None:
            account.members.pop(member, None)

    def take(self, client: str, *, is_known: bool) -> None:
        """Count a request. ProblemError 429: the client has sent too many."""
        rate = self.bounds.requests_per_s if is_known else self.bounds.stranger_requests_per_s
        if rate is None:
            return
        wait_s = self.account(client).take(rate, self._now())
        if wait_s:
            name = "http.client_rate" if is_known else "http.stranger_rate"
            raise _refusal(f"{client} sends more than {rate} requests per second", name, wait_s)

    def charge(self, client: str, size: int) -> str | None:
        """Count bytes of a request that is not answered yet; returns what is wrong when these are too many."""
        account = self.account(client)
        account.waiting_bytes += size
        most = self.bounds.waiting_bytes
        if most is None or account.waiting_bytes <= most:
            return None
        return f"{client} has sent more than {most} bytes that are not answered yet (http.client_bytes)"

    def release(self, client: str, size: int) -> None:
        """Forget bytes: their requests are answered."""
        if size and (account := self._accounts.get(client)) is not None:
            account.waiting_bytes -= size

    def _forget(self) -> None:
        for client in list(self._accounts)[:_LOOKED_AT]:
            account = self._accounts.pop(client)
            if account.is_idle:
                return
            self._accounts[client] = account


def address_account(host: str) -> str:
    """The account of an address: a host has 2**64 addresses of IPv6, so these count by network."""
    address = ipaddress.ip_address(host.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        mapped = address.ipv4_mapped
        return f"address {mapped}" if mapped else f"address {ipaddress.ip_network((address, 64), strict=False)}"
    return f"address {address}"


def _refusal(detail: str, setting: str, wait_s: float = 1.0) -> ProblemError:
    headers = retry_after(CLIENT_LIMIT, wait_s)
    return ProblemError(CLIENT_LIMIT, detail, remedy=f"send less, or raise {setting}", headers=headers)
