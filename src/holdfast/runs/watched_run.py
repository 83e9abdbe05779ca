"""A live run watched by a supervisor's poller: what the guard says becomes a change that tasks can wait for.

The poller calls `_on_control` when the guard has said something. `_on_control` updates what is known of the run and
wakes the tasks that wait for it. Such a task looks, waits for the next change, and looks again, with nothing awaited
between the look and the wait. So it misses no change. Cancelling the task ends only the wait; the run goes on.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import anyio

from ..guard.conversation import ANSWER_S
from ..guard.processes import continue_one
from ..values.errors import HoldfastError, RequestError, ResourceError
from .guard_watch import OVER, act, look
from .watchdog import ABANDON

if TYPE_CHECKING:
    from collections.abc import Callable

    from anyio.abc import TaskGroup

    from .live import LiveRun
    from .poller import Poller


class WatchedRun:
    """One live run of a supervisor, from its start until its guard is reaped."""

    __slots__ = ("_change", "_error", "_forget", "_is_forcing", "_poller", "group", "live")

    def __init__(self, live: LiveRun, poller: Poller, group: TaskGroup, forget: Callable[[WatchedRun], None]) -> None:
        self.live = live
        self._poller = poller
        self.group = group
        self._forget = forget  # called when the supervisor has no more to do with the run
        self._error: Exception | None = None  # why nothing more will be known of it
        self._change: anyio.Event | None = None
        self._is_forcing = False  # a step of the watchdog is under way

    def begin(self) -> None:
        """Let the poller watch this run. ResourceError when the kernel refuses; the run is ended then."""
        live = self.live
        try:
            self._poller.watch(live.control.fileno(), self._on_control)
        except OSError as error:
            live.kill_guard()  # its command, if it was started, dies with it
            live.reap(wait=True)
            live.close()
            self._forget(self)
            raise ResourceError.from_os_error(error, doing="watch a run", run_id=live.spec.run_id) from None

    # Waiting.

    @property
    def has_failed(self) -> bool:
        """Whether nothing more will be known of the run: it cannot be read, or its supervisor has left it."""
        return self._error is not None

    def check(self) -> None:
        """Raise the error that ended the watching, if there is one."""
        if self._error is not None:
            raise self._error

    async def changed(self) -> None:
        """Wait for the next change. Raises as `check` does."""
        self.check()
        if self._change is None:
            self._change = anyio.Event()
        await self._change.wait()

    async def answered(self, ticket: int) -> None:
        """Wait until the guard has done what was asked. RequestError: it refused, or did not answer (ETIMEDOUT).

        RequestError also when the run is over (ESRCH).
        """
        live = self.live
        with anyio.move_on_after(ANSWER_S):
            while not live.conversation.has_answered(ticket):
                if live.ended:
                    raise RequestError.too_late(live.spec.run_id)
                await self.changed()
        live.conversation.conclude(ticket)

    async def done(self, ask: Callable[[], int]) -> None:
        """Repeat a request until the guard does or refuses it: before the command runs, the guard answers ESRCH."""
        while True:
            self.check()
            ticket = ask()
            try:
                return await self.answered(ticket)
            except RequestError as error:
                # ESRCH without a verdict means too early, not too late. Each round waits for the guard's answer, and
                # after that the guard starts the command.
                if error.errno != errno.ESRCH or self.live.ended or self.live.outcome.status is not None:
                    raise

    def _announce(self) -> None:
        if self._change is not None:
            self._change.set()
            self._change = None

    # What the guard says.

    def _on_control(self) -> None:
        live = self.live
        try:
            live.on_readable()
        except Exception as error:  # noqa: BLE001 - whatever it is, it concerns this run and not the others
            self._fail(error)
            self._announce()
            return
        if live.guard_lost:
            self._begin_clean_up()
        elif live.ended:
            self._leave()
        self._announce()

    def _begin_clean_up(self) -> None:
        self._poller.silence(self.live.control.fileno())
        self.group.start_soon(self._clean_up, name=f"holdfast clean-up {self.live.spec.run_id}")

    async def _clean_up(self) -> None:
        """End what a dead guard left. This uses a thread, because it walks /proc or waits for a cgroup."""
        with anyio.CancelScope(shield=True):
            try:
                await anyio.to_thread.run_sync(self.live.clean_up)
            except Exception as error:  # noqa: BLE001 - it concerns this run: the tasks that wait for it are told
                self._error = error
            self._leave()
            self._announce()

    def _fail(self, error: Exception) -> None:
        """Give up on a run after this error: ask its guard to end it, and raise the error in all waiting tasks."""
        self._error = error
        try:
            self.live.ask_stop("user", "its record cannot be read")
        except RequestError:
            pass  # the run is over; or the guard does not read, and sees the closed socket later
        self._leave()

    def _leave(self) -> None:
        """From now on wait only for the guard's exit, or keep the guard for another run."""
        live, poller = self.live, self._poller
        reusable = live.guard_is_reusable
        if not reusable and not live.reap():
            # Before the control socket is taken out, so that the poller is not idle in between.
            poller.watch(live.pidfd, self._on_guard_exit)
        poller.unwatch(live.control.fileno())
        if reusable:
            live.part_from_guard()
        self._close()

    def _on_guard_exit(self) -> None:
        self._poller.unwatch(self.live.pidfd)
        self.live.reap(wait=True)

    # When the guard says nothing.

    def look_at_guard(self, now: float) -> None:
        """Continue a guard that was stopped. Past the run's bound, end the run by force, in a thread."""
        live = self.live
        if now < live.watchdog.next_at or live.ended or live.guard_lost or self._is_forcing:
            return
        try:
            step = look(live, now)
        except Exception as error:  # noqa: BLE001 - as in `_on_control`
            self._fail(error)
            self._announce()
            return
        if step == OVER:
            self._on_control()
        elif step is not None:
            self._is_forcing = True
            pidfd = _duplicate(live.pidfd)  # here, because we close the other one in this thread
            self.group.start_soon(self._force, step, pidfd, name=f"holdfast watchdog {live.spec.run_id}")

    async def _force(self, step: str, pidfd: int) -> None:
        try:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(act, self.live, step, pidfd)
        finally:
            if pidfd >= 0:
                os.close(pidfd)
        self._is_forcing = False
        if step == ABANDON and not self.live.ended and not self.live.guard_lost:
            self.live.guard_lost = True
            self._begin_clean_up()

    @property
    def awaits_exit(self) -> bool:
        """Whether the run is over, and its sentinel has not been reaped yet."""
        return self.live.ended and self.live.pidfd >= 0

    def hurry_exit(self, *, kill: bool) -> None:
        """Continue, or kill, a sentinel and a guard that do not exit although the run is over."""
        if kill:
            self.live.kill_guard(within_s=0)
        else:
            continue_one(self.live.pidfd)

    # When the supervisor is left.

    def begin_shutdown(self, cause: str, reason: str, grace_s: float | None) -> float:
        """Ask for the end, within this grace if there is one; returns how many seconds that may take."""
        try:
            self.live.ask_stop(cause, reason, grace=grace_s)
        except RequestError:
            pass  # over, or its guard is stuck; the bounded wait that follows deals with both
        return self.live.settle_bound_s()

    async def shutdown_begun(self) -> None:
        """Wait until the run is stopping, for any reason."""
        live = self.live
        while live.outcome.status is None and not live.ended and not self.has_failed:
            await self.changed()

    def abandon(self) -> None:
        """Give up on a guard that does not end. We close the socket, so a guard that wakes up later ends the run."""
        run_id = self.live.spec.run_id
        self._fail(HoldfastError("the guard cannot be ended", run_id=run_id, remedy="look at its process"))
        self._announce()

    def let_go(self) -> None:
        """Stop watching a run that does not end with its supervisor. The run goes on."""
        self._poller.unwatch(self.live.control.fileno())
        self._close()
        self._error = HoldfastError(
            "the supervisor was left",
            run_id=self.live.spec.run_id,
            remedy="adopt the run with another supervisor",
        )
        self._announce()

    def _close(self) -> None:
        self.close_stdin()
        self.live.close_control()
        self._forget(self)

    def close_stdin(self) -> None:
        """Close our end of the command's stdin, if it is open."""
        if self.live.input >= 0:
            # A task that waits for room is told before the number can become another file's.
            anyio.notify_closing(self.live.input)
            self.live.close_input()


def _duplicate(pidfd: int) -> int:
    """A descriptor of the same process; -1 when there is none, or no number is left: it is found by its PID then."""
    try:
        return os.dup(pidfd) if pidfd >= 0 else -1
    except OSError:
        return -1
