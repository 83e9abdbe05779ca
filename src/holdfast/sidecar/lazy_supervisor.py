"""A supervisor that is opened at its first use, for runs that are kept in the state directory.

A sidecar that never starts such a run never opens a state directory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

from ..values.errors import HoldfastError

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AsyncExitStack

    from ..runs.supervisor import Supervisor


class LazySupervisor:
    """Opens a supervisor at the first `get`. The task in `serve` opens it, because the same task must close it."""

    def __init__(self, stack: AsyncExitStack, make: Callable[[], Supervisor]) -> None:
        self._stack = stack
        self._make = make
        self._wanted, self._answered = anyio.Event(), anyio.Event()
        self._is_over = False
        self._error: HoldfastError | None = None
        self.opened: list[Supervisor] = []

    async def get(self) -> Supervisor:
        """The supervisor. StateError: the state directory cannot be used; the next call tries again."""
        if not self.opened:
            self._wanted.set()
            await self._answered.wait()
        if not self.opened:
            raise self._error or HoldfastError("the sidecar is ending")
        return self.opened[0]

    async def serve(self) -> None:
        """Open the supervisor when a `get` waits for it; return after `close`."""
        while True:
            await self._wanted.wait()
            if self._is_over:
                return
            try:
                self.opened.append(await self._stack.enter_async_context(self._make()))
            except HoldfastError as error:
                self._error = error
            answered, self._wanted, self._answered = self._answered, anyio.Event(), anyio.Event()
            answered.set()

    def close(self) -> None:
        """End `serve`; a `get` that still waits fails."""
        self._is_over = True
        self._wanted.set()
