"""The pool of idle guards: guards that have ended a run and can keep another.

Starting a guard costs as much as a short run itself. A guard comes into the pool only with its tree gone. It gets a new
run only while the inherited state of this process (see `inherited_state`) is still the same as when it started the
guard. The owner of a pool closes the pool when it is done. A guard whose owner dies sees its socket close and exits.

Many runs at once leave many idle guards. The pool holds at most `MOST_IDLE` of them, and at most so many that they take
a quarter of the descriptors this process may have, two for each. Guards that nobody needed for a whole second are
spare. The spare ones are ended, except for the last `KEPT`, which wait as long as the pool is open.
"""

from __future__ import annotations

import os
import select
import time

from ..values.fast_imports import TYPE_CHECKING, NamedTuple
from .containment import probe
from .inherited_state import StateReader, descriptor_limit
from .leftovers import leaf_path, remove_leaf
from .packets import NEXT_RUN_ID_MAX
from .processes import continue_one, kill_both

if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Collection

    from ..values.spec import RunSpec
    from .inherited_state import InheritedState

MOST_IDLE = 256
KEPT = 32
SPARE_S = 1.0
_GOES_WITHIN_S = 5.0


class PooledGuard(NamedTuple):
    """An idle guard. It still has the cgroup that all its runs were in, named after the first of them."""

    control: socket
    pidfd: int  # of its sentinel
    sentinel_pid: int
    first_run: str
    cgroup_base: str | None  # the directory that holds the cgroup, if there is one

    def dismiss(self) -> None:
        """Tell the guard that there is no other run: it removes its cgroup and exits. Twice does no harm."""
        self.control.close()
        if self.pidfd >= 0:
            continue_one(self.pidfd)  # a stopped sentinel continues its guard

    def end(self, within_s: float = _GOES_WITHIN_S) -> None:
        """End the guard and reap it, and remove its cgroup."""
        self.dismiss()
        if self.pidfd >= 0:
            self._reap(within_s)
            os.close(self.pidfd)
        # A guard that was killed could not remove its cgroup. The kernel refuses this while a process is inside.
        if (leaf := leaf_path(self.cgroup_base, self.first_run)) is not None:
            remove_leaf(leaf)

    def _reap(self, within_s: float) -> None:
        gone = select.poll()
        gone.register(self.pidfd, select.POLLIN)
        try:
            if not gone.poll(within_s * 1000):  # both are stopped, and cannot exit by themselves
                kill_both(self.pidfd, self.sentinel_pid, 0, self.first_run)
            os.waitid(os.P_PIDFD, self.pidfd, os.WEXITED)
        except (ProcessLookupError, ChildProcessError):
            pass


class GuardPool:
    """Idle guards that this process started with the same inherited state. When that state changes, a new pool is made.

    A run keeps the pool that its guard belongs to, so a guard that was started before a change never gets into the
    pool that was made after it.
    """

    __slots__ = ("_cgroup_base", "_fewest", "_guards", "_inherited_state", "_is_closed", "_most", "_reader")

    def __init__(self, inherited_state: InheritedState | None = None, reader: StateReader | None = None) -> None:
        self._guards: list[PooledGuard] = []
        self._fewest = 0  # the fewest idle guards since the last `take_spare`
        self._inherited_state = inherited_state
        self._reader = StateReader() if reader is None else reader
        # A program that moves to another cgroup gets another pool.
        self._cgroup_base = None if inherited_state is None else probe().cgroup_base
        self._is_closed = inherited_state is None
        self._most = min(MOST_IDLE, max(KEPT, descriptor_limit() // 8))  # the limit is part of the inherited state

    @property
    def is_current(self) -> bool:
        """Whether the inherited state of this process is still the same as when it started these guards."""
        return self._inherited_state is not None and self._inherited_state == self.read_inherited_state()

    def read_inherited_state(self) -> InheritedState | None:
        """The inherited state of this thread, which is that of a guard that it starts now; None: it cannot be read."""
        return self._reader.read()

    def for_inherited_state(self, inherited_state: InheritedState | None) -> GuardPool:
        """Return the pool for guards with this inherited state.

        That is this pool if its own state is equal. Otherwise close this pool, end its guards, and return a new one.
        """
        if inherited_state is not None and inherited_state == self._inherited_state:
            return self
        self._end_guards()
        return GuardPool(inherited_state, self._reader)

    def is_of_another(self, inherited_state: InheritedState | None) -> bool:
        """Whether these guards were started with another state than this one, or with one that is not known."""
        return self._inherited_state is None or self._inherited_state != inherited_state

    @property
    def has_room(self) -> bool:
        """Whether the pool would keep one more guard."""
        return not self._is_closed and len(self._guards) < self._most

    def take(self) -> PooledGuard | None:
        """Take an idle guard out of the pool; None when there is none.

        Guards that the kernel does not let us look at are ended: since their start we have entered a Landlock domain or
        a user namespace, and they are outside. The caller checks `is_current` before the guard starts anything: only
        then does the guard pass on to the command what a new guard would.
        """
        outside = []
        guard = None
        while guard is None and self._guards:
            guard = self._guards.pop()
            if not self._reader.may_look_at(guard.sentinel_pid):
                outside.append(guard)
                guard = None
        self._fewest = min(self._fewest, len(self._guards))
        if outside:
            end_all(outside)
        return guard

    def give(self, control: socket, pidfd: int, sentinel_pid: int, first_run: str) -> None:
        """Keep a guard for the next run. The caller has asked `has_room`."""
        self._guards.append(PooledGuard(control, pidfd, sentinel_pid, first_run, self._cgroup_base))

    @property
    def has_spare(self) -> bool:
        """Whether there are more guards than the pool keeps when nobody needs them."""
        return len(self._guards) > KEPT

    def take_spare(self) -> list[PooledGuard]:
        """Take out the guards that nobody needed since the last call, the longest idle first; `KEPT` of them stay."""
        count = max(0, self._fewest - KEPT)
        spare, self._guards = self._guards[:count], self._guards[count:]
        self._fewest = len(self._guards)
        return spare

    @staticmethod
    def suits(spec: RunSpec) -> bool:
        """Whether a guard that was started earlier can keep this run.

        A run with a terminal, in a container, of a foreign process, with a starter, or of a lifetime beyond ours needs
        a new guard.
        """
        needs_its_own = spec.pty or spec.in_container or spec.foreign or spec.starter or spec.lifetime != "owner"
        return not needs_its_own and len(spec.run_id) <= NEXT_RUN_ID_MAX

    def close(self) -> None:
        """End every guard in the pool, keep none from now on, and close what the pool reads its state from."""
        self._end_guards()
        self._reader.close()

    def _end_guards(self) -> None:
        self._is_closed = True
        guards, self._guards = self._guards, []
        end_all(guards)


def end_all(guards: Collection[PooledGuard]) -> None:
    """End these guards side by side, and reap them."""
    for guard in guards:
        guard.dismiss()
    end = time.monotonic() + _GOES_WITHIN_S
    for guard in guards:
        guard.end(max(0.0, end - time.monotonic()))
