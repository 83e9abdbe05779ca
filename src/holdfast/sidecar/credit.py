"""How many bytes of output a client is ready to take."""

from __future__ import annotations

import anyio

MOST = 1 << 53  # what JavaScript counts exactly; more is not more


class OutputCredit:
    """Given in bytes by the client, taken as output is sent. One taker."""

    def __init__(self, bytes_: int = 0) -> None:
        self._left = min(bytes_, MOST)
        self._more = anyio.Event()
        self._is_over = False

    def give(self, bytes_: int) -> None:
        """Let more come."""
        self._left = min(self._left + bytes_, MOST)
        self._more.set()

    def end(self) -> None:
        """Nothing is wanted any more."""
        self._is_over = True
        self._more.set()

    async def take(self, most: int) -> int:
        """Wait until there is any, and take as much of it as is needed; 0 when nothing is wanted any more."""
        while self._left == 0 and not self._is_over:
            self._more = anyio.Event()
            await self._more.wait()
        taken = 0 if self._is_over else min(self._left, most)
        self._left -= taken
        return taken
