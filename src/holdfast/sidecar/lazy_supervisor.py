"""The supervisor whose runs are kept: opened when it is first wanted, so that a sidecar without such runs has none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

from ..values.errors import HoldfastError

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AsyncExitStack

    from ..runs.supervisor import Supervisor


class LazySupervisor:
    """A supervisor that is opened when it is first wanted, by the task that will leave it, as task groups need it."""

    def __init__(self, stack: AsyncExitStack, make: Callable[[], Supervisor]) -> None:
        self._stack = stack
        self._make = make
        self._wanted, self._answered = anyio.Event(), anyio.Event()
        self._is_over = False
        self._error: HoldfastError | None = None
        self.opened: list[Supervisor] = []

    async def get(self) -> Supervisor:
        """The supervisor; StateError when its directory cannot be used, and the next call tries again."""
        if not self.opened:
            self._wanted.set()
            await self._answered.wait()
        if not self.opened:
            raise self._error or HoldfastError("the sidecar is ending")
        return self.opened[0]

    async def serve(self) -> None:
        """Open it when it is wanted, until `close`."""
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
        self._is_over = True
        self._wanted.set()
