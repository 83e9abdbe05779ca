"""`holdfast.Supervisor`: many runs at once under asyncio or trio.

One epoll set holds all control sockets of a supervisor, and one task, the poller, waits for that set. So a run is three
descriptors and a few small objects: no task, no thread, no lock. The guard keeps every promise by itself, so nothing
here is urgent: a blocked event loop learns of a verdict late, it does not delay it.
"""

from __future__ import annotations

import array  # noqa: F401 - for the reader: loading it later may fail for want of a descriptor
import errno
import os
import time
from typing import TYPE_CHECKING

import anyio
from anyio.lowlevel import checkpoint_if_cancelled

from ..values.disk_floor import floor_of, floor_of_variable
from ..values.durations import parse_duration
from ..values.errors import HoldfastError, RequestError, RunExistsError, SpecError
from ..values.spec_cache import new_spec
from .ephemeral import start_ephemeral
from .idle_guards import IdleGuards
from .output import RunOutput
from .poller import Poller
from .run import Run
from .shell_line import shell_argv
from .watched_run import WatchedRun

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType
    from typing import Self, Unpack

    from anyio.abc import TaskGroup

    from ..state.directory import StateDirectory
    from ..values.fields import Duration, Text
    from ..values.options import SpecOptions
    from ..values.spec import RunSpec
    from .live import LiveRun
    from .result import Result

__all__ = ["Run", "RunOutput", "Supervisor"]

_FORCED_END_S = 10.0
_IN_ORDER_S = 2.0
_EXIT_S = 1.0  # from the end of a run to the exit of its sentinel


class Supervisor:
    """Starts runs and looks after them. When the `async with` block ends, it ends its live runs and waits for them.

    With a `state_dir` each run has a directory there, where other programs find it, also after a crash. A run whose
    lifetime is `session` or `detached` then goes on when the block ends. Without a `state_dir` the supervisor uses the
    guards of ended runs again, which makes short runs cheaper.

    A supervisor belongs to one thread and one event loop.
    """

    def __init__(
        self,
        *,
        state_dir: Text | None = None,
        reuse_guards: bool = True,
        shutdown_grace: Duration | None = None,
        disk_floor: str | None = None,
    ) -> None:
        """Open the state directory, if one is given. StateError: it cannot be used. SpecError: an argument is wrong.

        With `reuse_guards=False`, every run gets a new guard. With `shutdown_grace`, runs that are still alive when the
        block ends are killed after that time at the latest, also when their own grace is longer. `disk_floor` is the
        free space on the disk of the state directory below which no run starts: `1G`, `5%`, both, or `none`. The
        default is HOLDFAST_DISK_FLOOR, else `5%,1G`.
        """
        self._disk_floor = floor_of(disk_floor) if disk_floor else floor_of_variable(os.environ)
        self._shutdown_grace_s = (
            None if shutdown_grace is None else parse_duration(shutdown_grace, field="shutdown_grace")
        )
        self._state = None if state_dir is None else _open_state(state_dir)
        self._reuses_guards = state_dir is None and reuse_guards
        self._idle: IdleGuards | None = None
        self._runs: dict[WatchedRun, Run] = {}  # the runs that are not settled, oldest first
        self._run_ids: set[str] = set()  # of these runs
        self._exiting: dict[WatchedRun, float] = {}  # runs that are over, and until when their sentinels may exit
        self._poller: Poller | None = None
        self._group: TaskGroup | None = None
        self._is_closing = False
        self._leaving = ("shutdown", "the supervisor was left")
        self._sweeping = anyio.CancelScope()

    async def __aenter__(self) -> Self:
        """Start the supervisor's own tasks. ResourceError: there is no descriptor left."""
        if self._group is not None:
            raise HoldfastError("this supervisor was used before", remedy="make a new one for each `async with`")
        self._poller = Poller(self._look_at_guards)
        self._group = await anyio.create_task_group().__aenter__()
        self._group.start_soon(self._poller.run, name="holdfast poller")
        if self._reuses_guards:
            self._idle = IdleGuards(self._poller, self._group)
        if self._state is not None:
            self._group.start_soon(self._sweep, self._state, name="holdfast sweep")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._group is not None
        assert self._poller is not None
        self._is_closing = True
        if self._idle is not None:
            self._idle.stop_thinning()
        # Shielded: a cancelled caller gets a clean end all the same, bounded by the ladders of its own runs.
        try:
            with anyio.CancelScope(shield=True):
                await self._end_all(self._poller)
        finally:
            # No shield holds against a second Task.cancel() of asyncio. Closing the sockets is then the last thing to
            # do: the guards see that their owner is gone and end their runs.
            for watched in tuple(self._runs):
                watched.abandon()
            if self._idle is not None:
                self._idle.close()
            self._sweeping.cancel()
            with anyio.CancelScope(shield=True):
                await self._poller.stop()
            # A run knows its supervisor. Without this, its journal would stay open until the garbage collector comes.
            self._exiting.clear()
        # The group holds only our own tasks, so the caller's exception must not come out wrapped in a group.
        await self._group.__aexit__(None, None, None)

    @property
    def runs(self) -> tuple[Run, ...]:
        """The runs that are not settled, oldest first."""
        return tuple(self._runs.values())

    def leave_with(self, cause: str, reason: str) -> None:
        """Set the stop cause for runs that are still alive when the `async with` block ends; else it is `shutdown`."""
        self._leaving = (cause, reason)

    async def start(
        self,
        argv: Sequence[Text],
        *,
        shell: bool = False,
        keep_output: bool = True,
        window_size: tuple[int, int] | None = None,
        **options: Unpack[SpecOptions],
    ) -> Run:
        """Start a run. The options are those of `make_spec`; `window_size` is (rows, columns) of a pty.

        With `shell`, `argv` is a line of shell.

        With `keep_output=False` the output has one consumer, is forgotten as it is consumed, and the command waits
        when the consumer falls behind. So memory stays bounded, but the caller has to read the output.

        SpecError: the options are wrong. ResourceError, GuardError: the run was not started, and nothing is left of it.
        """
        if shell:
            argv = shell_argv(argv)
        return await self.start_spec(new_spec(argv, options), keep_output=keep_output, window_size=window_size)

    async def run(
        self,
        argv: Sequence[Text],
        *,
        input: bytes | None = None,  # noqa: A002 - as in `holdfast.run`
        shell: bool = False,
        **options: Unpack[SpecOptions],
    ) -> Result:
        """Start a run, wait until it is settled, and return its result: `holdfast.run` without blocking the event loop.

        `input` is written to the command's stdin, which is then closed. A caller that is cancelled ends the run by its
        ladder, and waits for it. Otherwise as `start`.
        """
        from .awaited_run import result_of  # here, because most callers keep the run in their hands
        from .blocking import with_input

        if input is not None:
            options = with_input(input, options)
        return await result_of(await self.start(argv, shell=shell, **options), input)

    async def register(self, pid: int, **options: Unpack[SpecOptions]) -> Run:
        """Watch a process that another program started, as a run: it is listed, and ended by the ladder as any run.

        Its end is seen by a pidfd. Its exit code is known only where the kernel tells it (Linux 6.15); otherwise the
        outcome is `lost` with the cause `unseen`. Its descendants are ended as far as /proc shows them, so the report
        never calls the tree gone. Options that need the parent's place (output, stdin, budgets) are refused.

        SpecError: no such process, this program or an ancestor of it, another user's, or wrong options. Otherwise
        fails as `start` does.
        """
        from .registration import registered_spec  # here, because most programs start everything themselves

        return await self.start_spec(registered_spec(pid, options))

    async def start_spec(
        self, spec: RunSpec, *, keep_output: bool = True, window_size: tuple[int, int] | None = None
    ) -> Run:
        """Start a run whose spec was made before. Otherwise as `start`."""
        # Here, before the launch, a cancellation finds nothing started. After the launch nothing is awaited.
        await checkpoint_if_cancelled()
        if self._poller is None or self._group is None or self._is_closing:
            raise HoldfastError("this supervisor is not open", remedy="start runs inside `async with Supervisor()`")
        if self._state is None and spec.lifetime != "owner":
            remedy = "give the supervisor a state_dir, or use lifetime='owner'"
            message = f"a run of lifetime {spec.lifetime!r} needs a directory to be found in"
            raise SpecError(message, field="lifetime", run_id=spec.run_id, remedy=remedy)
        if self._state is None and spec.run_id in self._run_ids:
            raise RunExistsError("there is a live run of this id", run_id=spec.run_id, remedy="leave run_id out")
        live = self._launch(spec, keep_output=keep_output, window_size=window_size)
        return self._begin(live, self._poller, self._group)

    def _launch(self, spec: RunSpec, *, keep_output: bool, window_size: tuple[int, int] | None) -> LiveRun:
        if self._state is not None:
            # Here, because a supervisor without a directory needs none of it.
            from ..state.disk_reserve import check_floor
            from .durable import start_durable

            check_floor(self._state.path, self._disk_floor, spec.run_id)
            return start_durable(self._state, spec, held=not keep_output, window_size=window_size)
        pool = None if self._idle is None else self._idle.pool
        live = start_ephemeral(spec, windowed=not keep_output, window_size=window_size, pool=pool)
        if self._idle is not None and live.pool is not None:
            self._idle.pool = live.pool
        return live

    async def adopt(self, run_id: str) -> Run:
        """Go on with a run of this state directory that another process started, or read one that is over.

        The run's output is there from the beginning, and its clocks have never stopped. The run does not end with this
        supervisor's block. RunNotFoundError: there is no such run. JournalError: its journal cannot be read.
        """
        if self._poller is None or self._group is None or self._is_closing or self._state is None:
            raise HoldfastError("this supervisor cannot adopt", remedy="open it with a state_dir")
        if self._state.is_elsewhere(run_id):
            remedy = "ask the daemon that placed it (holdfast serve --engine ray)"
            raise RequestError("the run is on another host", errno=errno.EREMOTE, run_id=run_id, remedy=remedy)
        from .durable import adopt

        live = await anyio.to_thread.run_sync(adopt, self._state, run_id)
        run = self._begin(live, self._poller, self._group)
        run.ends_with_us = False
        await run.take_input()
        return run

    def _begin(self, live: LiveRun, poller: Poller, group: TaskGroup) -> Run:
        watched = WatchedRun(live, poller, group, self._forget)
        run = Run(watched)
        self._runs[watched] = run
        self._run_ids.add(run.run_id)
        watched.begin()
        poller.ring_by(live.watchdog.next_at)
        return run

    def _look_at_guards(self) -> None:
        now = time.monotonic()
        for watched in tuple(self._runs):
            watched.look_at_guard(now)
        self._exiting = {watched: until for watched, until in self._exiting.items() if watched.awaits_exit}
        for watched, until in self._exiting.items():
            watched.hurry_exit(kill=now >= until)
        again = [watched.live.watchdog.next_at for watched in self._runs]
        if self._exiting:
            again.append(now + _EXIT_S)
        if self._poller is not None and again:
            self._poller.ring_by(min(again))

    async def _sweep(self, state: StateDirectory) -> None:
        """Look after the whole state directory while we live: finish what other processes left behind."""
        from ..state.upkeep.sweep import INTERVAL_S, Sweeper

        with self._sweeping:
            await anyio.sleep(INTERVAL_S)
            await Sweeper(state).run()

    def _forget(self, watched: WatchedRun) -> None:
        self._runs.pop(watched, None)
        if watched.awaits_exit and self._poller is not None:
            until = self._exiting[watched] = time.monotonic() + _EXIT_S
            self._poller.ring_by(until)
        self._run_ids.discard(watched.live.spec.run_id)
        if self._idle is not None:
            self._idle.thin_out()

    async def _end_all(self, poller: Poller) -> None:
        bound_s = _FORCED_END_S
        in_order_until = anyio.current_time() + _IN_ORDER_S
        for watched, run in tuple(self._runs.items()):
            if not run.ends_with_us:
                watched.let_go()
        for watched in reversed(tuple(self._runs)):
            bound_s = max(bound_s, watched.begin_shutdown(*self._leaving, self._shutdown_grace_s))
            # Ask the next run only when this one is stopping, so that the runs get their signals newest first, not only
            # our requests. A guard that does not answer cannot hold the others up for long.
            with anyio.move_on_after(in_order_until - anyio.current_time()):
                await watched.shutdown_begun()
        if await poller.wait_idle(bound_s):
            return
        # The guards that are left are stopped or stuck. Without them their runs end as lost, which is at least true.
        for watched in self._runs:
            watched.live.kill_guard()
        await poller.wait_idle(_FORCED_END_S)


def _open_state(path: Text) -> StateDirectory:
    from ..state.directory import StateDirectory
    from ..values.fields import check_path

    return StateDirectory.open(check_path(path, "state_dir"))
