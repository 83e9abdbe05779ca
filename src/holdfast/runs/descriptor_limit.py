"""Descriptors of a server that starts runs: a raised limit, and a reserve that no stranger can use up.

Every connection and every run of a server takes descriptors, and the usual soft limit of 1,024 is soon reached. A
command must not see the raised limit: programs that use select(2) fail above 1,024, and old ones close every number up
to the limit before they start another program. So the guard sets the old soft limit again before it starts the command.

The reserve. The kernel gives each new descriptor the lowest free number. So a listener that closes every connection
whose number is not below a bound leaves the numbers above that bound to others, and nobody needs to count. Strangers
have the lowest bound, then the owner's socket, and runs have none.
"""

from __future__ import annotations

import os
import resource
import sys
from typing import NamedTuple

from ..guard import spec_frames

MOST = 1 << 16  # some hosts allow a billion, and the kernel's table of descriptors grows with their numbers
_FOR_ANY_RUNS = 64  # journals that are read, databases, a guard that is being started
_FOR_A_RUN = 6
_FOR_THE_OWNER = 64


def raise_descriptor_limit() -> int:
    """Raise the soft limit as far as the hard limit and MOST allow; returns the limit in force now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST if hard == resource.RLIM_INFINITY else min(hard, MOST)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return sys.maxsize if soft == resource.RLIM_INFINITY else soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    spec_frames.descriptors_of_commands = soft
    return wanted


class DescriptorReserve(NamedTuple):
    """The numbers that are kept for runs and for the owner's socket: the highest ones below `limit`."""

    limit: int
    for_runs: int
    for_owner: int

    @classmethod
    def of(cls, limit: int, max_runs: int) -> DescriptorReserve:
        """The reserve for so many runs at once; of a low limit, at most a half."""
        for_runs = min(_FOR_ANY_RUNS + _FOR_A_RUN * max_runs, limit // 3)
        return cls(limit, for_runs, min(_FOR_THE_OWNER, limit // 6))

    @property
    def owner_bound(self) -> int:
        """The owner's connections have numbers below this."""
        return self.limit - self.for_runs

    @property
    def stranger_bound(self) -> int:
        """The connections of strangers have numbers below this."""
        return self.owner_bound - self.for_owner

    def shortages(self) -> list[str]:
        """What is wrong now, as sentences: descriptors are short when the runs' part of the reserve is in use."""
        free = _lowest_free()
        if free is None:
            return ["no file descriptor is left: runs cannot be started"]
        if free >= self.owner_bound:
            return [f"file descriptors are short: {free} of {self.limit} are in use"]
        return []


def _lowest_free() -> int | None:
    """The lowest free number, so all numbers below it are in use; None: no descriptor is left."""
    try:
        fd = os.open("/", os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return None
    os.close(fd)
    return fd
