"""A connection as its pool and the account of its client see it."""

from __future__ import annotations

from typing import Protocol


class Member(Protocol):
    """A connection, as its pool sees it."""

    charged: int

    @property
    def gives_way(self) -> bool:
        """Whether the client is unknown and has no request under way."""

    def evict(self, detail: str) -> None:
        """Close the connection, because others need the room."""
