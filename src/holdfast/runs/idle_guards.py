"""The idle guards of one supervisor: the pool they wait in, and the task that ends the spare ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

from ..guard.pool import SPARE_S, GuardPool, end_all

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from ..guard.pool import PooledGuard
    from .poller import Poller


class IdleGuards:
    """The pool of a supervisor, thinned out while it holds more guards than are needed.

    A spare guard sees its socket close and exits. The poller sees the exit, so no task waits for it.
    """

    __slots__ = ("_exiting", "_group", "_is_closing", "_poller", "_thinning", "pool")

    def __init__(self, poller: Poller, group: TaskGroup) -> None:
        self.pool = GuardPool()  # replaced when the inherited state of this process changes
        self._poller = poller
        self._group = group
        self._is_closing = False
        self._thinning: anyio.CancelScope | None = None
        self._exiting: dict[int, PooledGuard] = {}  # by pidfd: spare guards that were told to exit

    def thin_out(self) -> None:
        """Begin to end the spare guards, unless that is under way or there are none."""
        if self.pool.has_spare and self._thinning is None and not self._is_closing:
            self._thinning = anyio.CancelScope()
            self._group.start_soon(self._end_spare, self._thinning, name="holdfast idle guards")

    async def _end_spare(self, scope: anyio.CancelScope) -> None:
        try:
            with scope:
                while self.pool.has_spare:
                    await anyio.sleep(SPARE_S)
                    if self._is_closing:
                        break  # this task woke before its cancellation; `close` ends all guards
                    for guard in self.pool.take_spare():
                        self._let_go(guard)
        finally:
            self._thinning = None

    def _let_go(self, guard: PooledGuard) -> None:
        try:
            self._poller.watch(guard.pidfd, lambda: self._on_exit(guard))
        except (OSError, ValueError):  # the kernel cannot watch it, or there is no pidfd
            guard.end()
            return
        self._exiting[guard.pidfd] = guard
        guard.dismiss()

    def _on_exit(self, guard: PooledGuard) -> None:
        self._poller.unwatch(guard.pidfd)
        del self._exiting[guard.pidfd]
        guard.end()

    def stop_thinning(self) -> None:
        """Stop watching the guards that exit, so that the poller waits only for runs. `close` reaps these guards."""
        self._is_closing = True
        if self._thinning is not None:
            self._thinning.cancel()
        for pidfd in self._exiting:
            self._poller.unwatch(pidfd)

    def close(self) -> None:
        """End every idle guard and reap it."""
        end_all(self._exiting.values())
        self.pool.close()
