"""The poller: one epoll set for all runs of a supervisor, and the one task that waits for it.

Invariants. A descriptor is taken out of the set before it is closed, and a batch of events is handled without awaiting
anything. So an event never meets a number that was closed and opened again. Finalisers unregister nothing: forked
children of the embedding program share the set, and their end must not change ours.
"""

from __future__ import annotations

import select
from typing import TYPE_CHECKING

import anyio

from ..values.errors import ResourceError
from .alarm import Alarm

if TYPE_CHECKING:
    from collections.abc import Callable


class Poller:
    """Calls a handler whenever its descriptor has something to read. Handlers do not raise and do not wait."""

    __slots__ = ("_alarm", "_done", "_epoll", "_handlers", "_idle", "_on_alarm", "_scope")

    def __init__(self, on_alarm: Callable[[], None]) -> None:
        """Make the epoll set; call `on_alarm` when the alarm rings. ResourceError: there is no descriptor left."""
        self._on_alarm = on_alarm
        try:
            self._epoll = select.epoll(flags=select.EPOLL_CLOEXEC)
        except OSError as error:
            raise ResourceError.from_os_error(error, doing="open an epoll set") from None
        try:
            self._alarm = Alarm()
        except OSError as error:
            self._epoll.close()
            raise ResourceError.from_os_error(error, doing="open a timer") from None
        self._epoll.register(self._alarm.fd, select.EPOLLIN)
        self._handlers: dict[int, Callable[[], None]] = {}
        self._scope = anyio.CancelScope(shield=True)  # only `stop` ends the poller, not the cancellation of the caller
        self._done = anyio.Event()
        self._idle: anyio.Event | None = None

    def ring_by(self, at: float) -> None:
        """Let the alarm ring at this time (CLOCK_MONOTONIC), or earlier if that was asked for before."""
        self._alarm.ring_by(at)

    def watch(self, fd: int, handler: Callable[[], None]) -> None:
        """Call `handler` whenever `fd` is readable. OSError: the kernel has no room (fs.epoll.max_user_watches)."""
        self._epoll.register(fd, select.EPOLLIN)
        self._handlers[fd] = handler

    def silence(self, fd: int) -> None:
        """Stop calling the handler, but count the descriptor as watched."""
        self._epoll.unregister(fd)

    def unwatch(self, fd: int) -> None:
        """Forget a descriptor, before the caller closes it. A descriptor that is not watched is fine."""
        if self._handlers.pop(fd, None) is None:
            return
        try:
            self._epoll.unregister(fd)
        except FileNotFoundError:
            pass  # silenced
        if not self._handlers and self._idle is not None:
            self._idle.set()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is watched."""
        return not self._handlers

    async def wait_idle(self, within_s: float) -> bool:
        """Wait until nothing is watched; False when that takes too long."""
        if self._handlers:
            self._idle = anyio.Event()
            with anyio.move_on_after(within_s):
                await self._idle.wait()
        return self.is_idle

    async def run(self) -> None:
        """Wait and call handlers until `stop`."""
        try:
            with self._scope:
                if anyio.get_cancelled_exc_class().__module__.startswith("asyncio"):
                    await self._run_on_asyncio()
                while True:
                    await anyio.wait_readable(self._epoll.fileno())
                    self._handle()
        finally:
            self._done.set()

    async def _run_on_asyncio(self) -> None:
        """Let asyncio's loop call us when the set is ready: that saves a turn and two system calls for each wake."""
        import asyncio

        loop, fd = asyncio.get_running_loop(), self._epoll.fileno()
        try:
            # The loop calls outside of tasks, and there anyio cannot tell which library runs.
            from sniffio import current_async_library_cvar

            current_async_library_cvar.set("asyncio")  # in the context of our own task, in which the loop calls
        except ImportError:
            pass  # then anyio asks asyncio for the running loop
        loop.add_reader(fd, self._handle)
        try:
            await anyio.sleep_forever()
        finally:
            loop.remove_reader(fd)

    def _handle(self) -> None:
        handlers = self._handlers
        for ready, _ in self._epoll.poll(0):
            if ready == self._alarm.fd:
                self._alarm.quiet()
                self._on_alarm()
            # There is no handler if the handler of an earlier event of this batch removed it.
            elif (handler := handlers.get(ready)) is not None:
                handler()

    async def stop(self) -> None:
        """End the waiting and close the set."""
        self._scope.cancel()
        await self._done.wait()
        self._epoll.close()
        self._alarm.close()
