"""Guards that have ended a run and can keep another: starting one costs as much as a short run itself.

A guard comes here only with its tree gone, and goes to a new run only while this process still is what the guard
inherited from (see `inheritance`). Whoever holds them lets go of all of them before it is done; one whose owner dies
sees its socket close and exits.

After many runs at once there are many: as long as they are needed again and again they stay, up to `MOST_IDLE`, and up
to a quarter of the descriptors this process may have, two for each. Those that a whole second goes by without are
spare, and are ended down to the `KEPT`, which wait for as long as it takes.
"""

from __future__ import annotations

import os
import select
import time

from ..values.fast_imports import TYPE_CHECKING, NamedTuple, signal
from .containment import probe
from .inherited_state import descriptor_limit, fingerprint
from .launch import LONGEST_RUN_ID
from .leftovers import leaf_path, remove_leaf

if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Collection

    from ..values.spec import RunSpec
    from .inherited_state import Look

MOST_IDLE = 256
KEPT = 32
SPARE_S = 1.0
_GOES_WITHIN_S = 5.0


class PooledGuard(NamedTuple):
    """A guard without a run. It has a cgroup all the same: the one its runs were in, one after the other."""

    control: socket
    pidfd: int
    pid: int
    first_run: str

    def end(self, within_s: float = _GOES_WITHIN_S) -> None:
        """End it and reap it: there is nothing that depends on it."""
        self.control.close()  # it sees that, removes its cgroup and goes
        if self.pidfd >= 0:
            self._reap(within_s)
            os.close(self.pidfd)
        # One that was killed could not do that. The kernel refuses it when somebody is inside after all.
        if (leaf := leaf_path(probe().cgroup_base, self.first_run)) is not None:
            remove_leaf(leaf)

    def _reap(self, within_s: float) -> None:
        gone = select.poll()
        gone.register(self.pidfd, select.POLLIN)
        try:
            if not gone.poll(within_s * 1000):  # somebody stopped it
                signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
            os.waitid(os.P_PIDFD, self.pidfd, os.WEXITED)
        except (ProcessLookupError, ChildProcessError):
            pass


class GuardPool:
    """Idle guards that were all started by a process that looked the same; once it looks otherwise they are closed.

    A run keeps the set its guard belongs to, so a guard that was started before a change never gets into the next.
    """

    __slots__ = ("_fewest", "_guards", "_is_closed", "_look", "_most")

    def __init__(self, look: Look | None = None) -> None:
        self._guards: list[PooledGuard] = []
        self._fewest = 0  # of them since the last look for spare ones
        self._look = look
        self._is_closed = look is None
        self._most = min(MOST_IDLE, max(KEPT, descriptor_limit() // 8))  # a program that changes that looks otherwise

    @property
    def is_current(self) -> bool:
        """Whether this process still looks the same."""
        return self._look is not None and self._look == fingerprint()

    def for_look(self, look: Look | None) -> GuardPool:
        """Where a guard goes that was started by a process that looked like this: here, or to a new set instead."""
        if look is not None and look == self._look:
            return self
        self.close()
        return GuardPool(look)

    @property
    def has_room(self) -> bool:
        """Whether one more would be kept."""
        return not self._is_closed and len(self._guards) < self._most

    def take(self) -> PooledGuard | None:
        """One that passes on what a new one would, if the set is current: to be looked at before it starts anything."""
        if not self._guards:
            return None
        guard = self._guards.pop()
        self._fewest = min(self._fewest, len(self._guards))
        return guard

    def give(self, control: socket, pidfd: int, pid: int, first_run: str) -> None:
        """Keep it for the next run; only while there is room."""
        self._guards.append(PooledGuard(control, pidfd, pid, first_run))

    @property
    def has_spare(self) -> bool:
        """Whether there are more than are kept for long."""
        return len(self._guards) > KEPT

    def take_spare(self) -> list[PooledGuard]:
        """Those that nobody needed since this was last asked, the longest idle first; not of those to keep."""
        count = max(0, self._fewest - KEPT)
        spare, self._guards = self._guards[:count], self._guards[count:]
        self._fewest = len(self._guards)
        return spare

    @staticmethod
    def spec_for(spec: RunSpec) -> RunSpec | None:
        """The spec as a guard can take it that was started earlier; None when it needs a new one.

        Such a guard is not where we are now, so it is told; and a terminal or a life beyond ours is for a guard of its
        own.
        """
        if spec.pty or spec.in_container or spec.lifetime != "owner" or len(spec.run_id) > LONGEST_RUN_ID:
            return None
        try:
            here = os.getcwd()
        except OSError:
            return None
        return spec._replace(cwd=here if spec.cwd is None else os.path.join(here, spec.cwd))

    def close(self) -> None:
        """End every one, and keep none from now on."""
        self._is_closed = True
        guards, self._guards = self._guards, []
        end_all(guards)


def end_all(guards: Collection[PooledGuard]) -> None:
    """End every one of them, side by side, and reap them."""
    for guard in guards:
        guard.control.close()
    end = time.monotonic() + _GOES_WITHIN_S
    for guard in guards:
        guard.end(max(0.0, end - time.monotonic()))
