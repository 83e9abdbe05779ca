"""Many runs at once under asyncio or trio.

All control sockets of a supervisor are in one epoll set and one task, the pump, waits for that set; a run is therefore
three descriptors and a few small objects: no task, no thread, no lock. The guard keeps every promise by itself, so
nothing here is urgent: a blocked event loop learns of a verdict late, it does not delay it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
from anyio.lowlevel import checkpoint

from .errors import HoldfastError
from .live import LiveRun, new_spec
from .pump import Pump
from .supervised import Output, Run

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType
    from typing import Self, Unpack

    from anyio.abc import TaskGroup

    from .spec import SpecOptions, Text

__all__ = ["Output", "Run", "Supervisor"]

_FORCED_END_S = 10.0
_IN_ORDER_S = 2.0


class Supervisor:
    """Starts runs and looks after them; leaving the `async with` ends what is left, newest first, and waits for it.

    Not for several threads or event loops: each takes its own.
    """

    def __init__(self) -> None:
        self._runs: dict[int, Run] = {}  # by guard pid, oldest first; those that are not settled
        self._pump: Pump | None = None
        self._group: TaskGroup | None = None
        self._is_closing = False

    async def __aenter__(self) -> Self:
        """ResourceError when there is no descriptor left."""
        if self._group is not None:
            raise HoldfastError("this supervisor was used before", remedy="make a new one for each `async with`")
        self._pump = Pump()
        self._group = await anyio.create_task_group().__aenter__()
        self._group.start_soon(self._pump.run, name="holdfast pump")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._group is not None
        assert self._pump is not None
        self._is_closing = True
        # Shielded: a cancelled caller gets a clean end all the same, bounded by the ladders of its own runs.
        try:
            with anyio.CancelScope(shield=True):
                await self._end_all(self._pump)
        finally:
            # No shield holds against asyncio's own Task.cancel(), asked a second time. Closing the sockets is then the
            # last thing to do: the guards see their owner go and end what is left.
            for run in self.runs:
                run.abandon()
            with anyio.CancelScope(shield=True):
                await self._pump.stop()
        # The group holds our own tasks only; the caller's exception is not its business and must not come out wrapped.
        await self._group.__aexit__(None, None, None)

    @property
    def runs(self) -> tuple[Run, ...]:
        """The runs that are not settled, oldest first."""
        return tuple(self._runs.values())

    async def start(
        self,
        argv: Sequence[Text],
        *,
        keep_output: bool = True,
        window_size: tuple[int, int] | None = None,
        **options: Unpack[SpecOptions],
    ) -> Run:
        """Start a run. The options are those of `make_spec`; `window_size` is (rows, columns) of a pty.

        With `keep_output=False` the output has one consumer, is forgotten as it is consumed, and the command waits
        when the consumer falls behind: memory stays bounded, and somebody has to read.

        SpecError: the options are wrong. ResourceError, GuardError: it could not be started; nothing is left of it.
        """
        # Before the launch: a cancellation that arrives here finds nothing started. After it nothing is awaited.
        await checkpoint()
        if self._pump is None or self._group is None or self._is_closing:
            raise HoldfastError("this supervisor is not open", remedy="start runs inside `async with Supervisor()`")
        spec = new_spec(argv, options)
        live = LiveRun.start(spec, windowed=not keep_output, window_size=window_size)
        run = Run(live, self._pump, self._group, self._forget)
        self._runs[live.guard_pid] = run
        run.begin()
        return run

    def _forget(self, run: Run) -> None:
        self._runs.pop(run.guard_pid, None)

    async def _end_all(self, pump: Pump) -> None:
        bound_s = _FORCED_END_S
        in_order_until = anyio.current_time() + _IN_ORDER_S
        for run in reversed(self.runs):
            bound_s = max(bound_s, run.begin_shutdown())
            # The next one only when this one's first signal is out, so that newest first holds for those who get them,
            # and not only for the asking. A guard that does not answer cannot hold the others up for long.
            with anyio.move_on_after(in_order_until - anyio.current_time()):
                await run.shutdown_begun()
        if await pump.wait_idle(bound_s):
            return
        # A guard that is stopped or stuck. Without it the run ends as lost, which is at least true.
        for run in self.runs:
            run.kill_guard()
        await pump.wait_idle(_FORCED_END_S)
