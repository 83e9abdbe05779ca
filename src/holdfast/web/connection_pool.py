"""Connection pool: the connections of one listener, and how many bytes of clients that nobody knows they hold.

Each listener has a pool of its own, so clients of one listener cannot lock out those of another. A client is known when
the kernel vouches for it (a Unix socket) or when a request of its connection has passed the access checks. A connection
of an unknown client costs its listener little, and gives way:

- When the pool is full, the unknown connection that has waited longest for a request makes room. Only when there is
  none, a new connection is one too many and is told so.
- The bytes that unknown clients have sent and that are not answered yet have a bound in total. The connection that
  holds most of them is closed, so a small request of another client passes even then.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from .client_limits import ClientLimits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .pool_member import Member

CROWD = 32  # connections beyond the most: they stay only until they have been told
UNKNOWN_BYTES = 16 << 20


class ConnectionPool:
    """The connections of one listener. `enter` and `leave` count; everything happens on the event loop's thread."""

    def __init__(
        self,
        most: int,
        *,
        name: str = "",
        number_bound: int = sys.maxsize,
        knows_peers: bool = False,
        clients: ClientLimits | None = None,
    ) -> None:
        """`clients` has the limits of each client; the pools of a server share it."""
        self.clients = clients or ClientLimits()
        self.most = most
        self.name = name
        self.knows_peers = knows_peers
        self._short_at: int | None = None  # how many connections there were when descriptors were short
        self._number_bound = number_bound  # of descriptors: the numbers from here on are kept for others
        self._taken = 0
        self._unknown: dict[Member, None] = {}  # the oldest first
        self._unknown_bytes = 0

    def enter(self, number: int) -> bool:
        """Take a place for a connection with this descriptor; False: there is none, close the connection."""
        is_short = number >= self._number_bound
        if is_short:
            self.note_shortage()
        has_made_room = is_short and self._make_room()
        while self._taken >= self.most and self._make_room():
            pass
        # A connection that took the place of another one may have a number a little above the bound.
        highest = self._number_bound + (CROWD if has_made_room else 0)
        if number >= highest or self._taken >= self.most + CROWD:
            return False
        self._taken += 1
        return True

    def leave(self) -> None:
        """Give the place back."""
        self._taken -= 1
        if self._short_at is not None and self._taken < self._short_at * 3 // 4:
            self._short_at = None

    def note_shortage(self) -> None:
        """Note that descriptors are short; the note holds until a quarter of the connections are gone."""
        self._short_at = self._taken

    def is_crowded(self) -> bool:
        """Whether there are more connections than allowed, after those of unknown clients have made room."""
        while self._taken > self.most and self._make_room():
            pass
        return self._taken > self.most

    def begin(self, member: Member) -> None:
        """Note that a connection has begun; its client is unknown unless the kernel vouches for it."""
        if not self.knows_peers:
            self._unknown[member] = None

    def end(self, member: Member) -> None:
        """Note that the client is known from now on, or that its connection is over."""
        self.release(member)
        self._unknown.pop(member, None)

    def charge(self, member: Member, size: int) -> None:
        """Count bytes that an unknown client has sent. Above the bound, the connection with most of them is closed."""
        if member not in self._unknown:
            return
        member.charged += size
        self._unknown_bytes += size
        while self._unknown_bytes > UNKNOWN_BYTES:
            largest = max(self._unknown, key=lambda each: each.charged)
            self.end(largest)
            largest.evict("clients without a token have sent too much")

    def release(self, member: Member) -> None:
        """Forget the bytes of a connection: its requests are answered."""
        self._unknown_bytes -= member.charged
        member.charged = 0

    def shortages(self) -> Iterator[str]:
        """What is wrong now, as sentences."""
        if self._taken >= self.most:
            yield f"{self.name} has {self._taken} connections, and {self.most} are the most"
        elif self._short_at is not None:
            yield f"{self.name} refuses connections: file descriptors are short"

    def _make_room(self) -> bool:
        oldest = next((member for member in self._unknown if member.gives_way), None)
        if oldest is not None:
            self.end(oldest)
            oldest.evict("")
        return oldest is not None
