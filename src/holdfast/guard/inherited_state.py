"""The state that a command inherits from this process through its guard, as one value that can be compared.

A guard that is used again passes on what *it* inherited when it was started. So it is used again only while the
inherited state of this process is still the same: user, groups, capabilities, seccomp, umask, CPU affinity, priority
and resource limits. The guard is told the working directory each time. Namespaces and our own cgroup are not compared:
a program that changes these while it has runs should open a new Supervisor.
"""

from __future__ import annotations

import os
import resource
import sys

_ROOM = 8192  # a process in few groups takes 1,500 bytes; asking for much more costs more than the reading
_LIMITS = tuple(value for name, value in vars(resource).items() if name.startswith("RLIMIT_"))


InheritedState = tuple[object, ...]


def read_inherited_state() -> InheritedState | None:
    """Read the inherited state of this process; None when that is impossible, and then no guard may be used again."""
    try:
        fd = os.open("/proc/thread-self/status", os.O_RDONLY | os.O_CLOEXEC)
        try:
            status = os.read(fd, _ROOM)
        finally:
            os.close(fd)
        if len(status) == _ROOM:
            return None  # thousands of groups: what was read is not all of it
        return (
            _between(status, b"\nUmask:", b"\nState:"),
            _between(status, b"\nUid:", b"\nFDSize:"),
            _between(status, b"\nGroups:", b"\nNStgid:"),
            _between(status, b"\nCapInh:", b"\nvoluntary_ctxt_switches:"),
            os.getpriority(os.PRIO_PROCESS, 0),
            tuple(map(resource.getrlimit, _LIMITS)),
        )
    except (OSError, ValueError):
        return None


def descriptor_limit() -> int:
    """The number of descriptors that this process may have open."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


def _between(text: bytes, first: bytes, last: bytes) -> bytes:
    start = text.index(first)
    return text[start : text.index(last, start)]
