"""Ending foreign orphans: SIGTERM, a grace period, SIGKILL; each signal to exactly the process that was found.

A pidfd pins a process. We open it, compare the identity once more, and only then send a signal through it. So the
signal reaches that process, or none. These processes have no guard, so its ladder cannot climb for them.
"""

from __future__ import annotations

import os
import select
import signal
import time
from typing import TYPE_CHECKING, NamedTuple

from ..proc.process_table import with_ancestors
from ..values.identity import is_safe_target, is_same, read_identity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .orphan_search import ForeignOrphan

GRACE_S = 5.0
_KILL_S = 5.0


class OrphanEnd(NamedTuple):
    """The result for one orphan: `gone` (confirmed), `survivor`, or `refused` with the reason."""

    orphan: ForeignOrphan
    how: str
    why: str | None = None


def end(orphans: Sequence[ForeignOrphan], *, grace_s: float = GRACE_S) -> list[OrphanEnd]:
    """End these processes; blocks until they are gone, at most for the grace and five seconds. One result each."""
    results: dict[int, OrphanEnd] = {}
    pinned: dict[int, int] = {}
    ours = frozenset(with_ancestors(os.getpid()))
    for orphan in orphans:
        answer = _pin(orphan, ours)
        if isinstance(answer, int):
            pinned[orphan.pid] = answer
        else:
            results[orphan.pid] = answer
    try:
        for number, within_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, _KILL_S)):
            for pidfd in pinned.values():
                _send(pidfd, number)
            _wait(list(pinned.values()), within_s)
        for orphan in orphans:
            if orphan.pid in pinned:
                is_gone = _is_over(pinned[orphan.pid])
                results[orphan.pid] = OrphanEnd(orphan, "gone" if is_gone else "survivor")
    finally:
        for pidfd in pinned.values():
            os.close(pidfd)
    return [results[orphan.pid] for orphan in orphans]


def _pin(orphan: ForeignOrphan, ours: frozenset[int]) -> int | OrphanEnd:
    """A pidfd of exactly this process, or the result."""
    if not is_safe_target(orphan.pid) or orphan.pid in ours:
        return OrphanEnd(orphan, "refused", "it is init, this process, or one of its ancestors")
    if orphan.why_not is not None:
        return OrphanEnd(orphan, "refused", orphan.why_not)
    try:
        pidfd = os.pidfd_open(orphan.pid)
    except ProcessLookupError:
        return OrphanEnd(orphan, "gone")
    except OSError as error:
        return OrphanEnd(orphan, "refused", os.strerror(error.errno or 0))
    now = read_identity(orphan.pid)
    if now is not None and is_same(now, orphan.identity) is True:
        return pidfd
    os.close(pidfd)
    if now is not None and is_same(now, orphan.identity) is None:
        return OrphanEnd(orphan, "refused", "nobody can tell whether it is the same process")
    return OrphanEnd(orphan, "gone")  # another process may have its PID now, and is left alone


def _send(pidfd: int, number: signal.Signals) -> None:
    try:
        signal.pidfd_send_signal(pidfd, number)
        signal.pidfd_send_signal(pidfd, signal.SIGCONT)  # a stopped process can act, too
    except OSError:
        pass  # it is gone, or may not be signalled: the wait tells


def _wait(pidfds: list[int], within_s: float) -> None:
    deadline = time.monotonic() + within_s
    left = [pidfd for pidfd in pidfds if not _is_over(pidfd)]
    while left and (rest := deadline - time.monotonic()) > 0:
        poll = select.poll()
        for pidfd in left:
            poll.register(pidfd, select.POLLIN)
        over = {pidfd for pidfd, _ in poll.poll(rest * 1000)}
        left = [pidfd for pidfd in left if pidfd not in over]


def _is_over(pidfd: int) -> bool:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(0))
