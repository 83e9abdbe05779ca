"""The lease of a node, as the node's actor sees it: start the lease keeper, find it again, and renew the lease.

A lease is safe without equal clocks. The node notes the time, then asks the cluster whether it may go on, and counts
the lease from the time *before* the question. The head writes "you may not go on" (a higher epoch) into the cluster's
store and waits for one whole lease. Whatever answer the node got before that write, it asked before it, too; so its
lease is over when the head has waited. How long messages take makes no difference.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from pathlib import Path

from ..values.errors import StateError
from ..values.identity import read_identity
from . import lease_keeper
from .lease_keeper import RENEWAL
from .messages import NodeFencedError

_FIFO = "lease.fifo"
_KEEPER = "lease.pid"
_PROGRAM = str(Path(lease_keeper.__file__))


def now_ns() -> int:
    """The time on the clock of leases, which also runs while the host sleeps."""
    return time.clock_gettime_ns(lease_keeper.CLOCK_BOOTTIME)


class Lease:
    """The lease of one node, whose files are in `directory`. The keeper outlives the actor that started it."""

    def __init__(self, directory: Path, length_s: float) -> None:
        self.length_s = length_s
        self._directory = directory
        self._end_ns = 0
        self._known: tuple[int, int, int] | None = None  # of the keeper: PID, start time, pidfd

    @property
    def left_s(self) -> float:
        """How long the lease lasts from now; 0 when it is over."""
        return max(0.0, (self._end_ns - now_ns()) / 1e9)

    def renew(self, asked_ns: int) -> None:
        """Let the lease last one length from `asked_ns`. Starts a keeper if there is none. StateError: cannot start."""
        self._end_ns = max(self._end_ns, asked_ns + int(self.length_s * 1e9))
        fifo = self._directory / _FIFO
        try:
            pipe = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:  # ENXIO: nobody reads it, so the keeper is gone; ENOENT: there was none yet
            self._start_keeper(fifo)
            return
        try:
            os.write(pipe, RENEWAL.pack(self._end_ns))
        except (BlockingIOError, BrokenPipeError):
            pass  # the keeper is stopped or gone: its timer ends the runs
        finally:
            os.close(pipe)

    @property
    def starter(self) -> tuple[int, int]:
        """PID and start time of the keeper, for the spec of a run. NodeFencedError: the lease is over."""
        if self._known is None or _has_exited(self._known[2]):
            self._forget()
            self._known = self._find()
        if self._known is None or not self.left_s:
            remedy = "the node has no contact with the Ray cluster; the run can start on another node"
            raise NodeFencedError("the lease of this node is over", remedy=remedy)
        return self._known[:2]

    def _find(self) -> tuple[int, int, int] | None:
        try:
            pid, start_ticks = map(int, (self._directory / _KEEPER).read_text().split())
            pidfd = os.pidfd_open(pid)
        except (OSError, ValueError):
            return None
        identity = read_identity(pid)
        if identity is None or identity.start_ticks != start_ticks or _has_exited(pidfd):
            os.close(pidfd)
            return None
        return pid, start_ticks, pidfd

    def _forget(self) -> None:
        if self._known is not None:
            os.close(self._known[2])
            self._known = None

    def __del__(self) -> None:
        self._forget()

    def _start_keeper(self, fifo: Path) -> None:
        try:
            if not fifo.exists():
                os.mkfifo(fifo, 0o600)
            command = [sys.executable, "-I", "-S", _PROGRAM, str(fifo), str(self._end_ns)]
            started = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=30)
            pid = int(started.stdout)
            identity = read_identity(pid)
            if identity is not None:
                (self._directory / _KEEPER).write_text(f"{pid} {identity.start_ticks}")
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            # Also when the lease is over already, because the host gave us no CPU time for so long.
            raise StateError(f"the lease keeper cannot be started: {error}") from None


def _has_exited(pidfd: int) -> bool:
    """Whether the process is gone or a zombie."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(0))
