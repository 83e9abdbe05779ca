"""The state that a command inherits from this process through its guard, as one value that can be compared.

A guard that is used again passes on what *it* inherited when it was started. So it is used again only while a new guard
would inherit the same: everything that survives fork and exec, and that this thread can read about itself, is compared.
Decision 19 has the table, and the reason for each thing that is missing here. Some state cannot be read. A thread in a
Landlock domain, or in a user namespace of its own, may not look at a process outside of it: an old guard is outside, a
new guard is inside (`StateReader.may_look_at`).

The guard is told the working directory with each run.

Cost. The look is taken once per run. Therefore the reader keeps its files in /proc open, which halves the time. They
belong to the thread that opened them.

Danger. A program may install a seccomp filter that kills it for a call that the filter does not expect. From then on no
look is taken, and no guard is used again. Filters that were there before this module was loaded, those of a container
or a service manager, do not count: they allow these calls, or refuse them without a signal.
"""

from __future__ import annotations

import os
import resource
import sys
from _thread import get_native_id

from ..values.fast_imports import TYPE_CHECKING

if TYPE_CHECKING:
    from .state_calls import StateCalls

InheritedState = tuple[object, ...]

_ROOM = 8192  # a process in few groups takes 1,500 bytes; asking for much more costs more than the reading
_LOOK = os.O_RDONLY | os.O_CLOEXEC
_THREAD = "/proc/thread-self"
_STATUS = f"{_THREAD}/status"
_ALWAYS_THERE = (f"{_THREAD}/limits", f"{_THREAD}/cgroup", f"{_THREAD}/oom_score_adj")
# A kernel without core dumps, auditing, cache allocation or labels does not have these files, or cannot read them.
_OPTIONAL = (
    "/proc/self/coredump_filter",  # of the process: a thread has none of its own
    f"{_THREAD}/loginuid",
    f"{_THREAD}/cpu_resctrl_groups",
    f"{_THREAD}/attr/current",
    f"{_THREAD}/attr/exec",
)
_MOVES = 1 << 18 | 1 << 21  # CAP_SYS_CHROOT, CAP_SYS_ADMIN
# The mount namespace shows in the mount of the root directory; `may_look_at` answers for the user namespace.
_NAMESPACES = (b"cgroup", b"ipc", b"net", b"pid_for_children", b"time_for_children", b"uts")


class StateReader:
    """Reads the inherited state of the calling thread, again and again, from files that it keeps open."""

    __slots__ = (
        "_calls",
        "_capabilities",
        "_files",
        "_may_move",
        "_namespaces",
        "_status",
        "_thread",
    )

    def __init__(self) -> None:
        self._thread = 0  # the thread that the open files are about; 0: no file is open
        self._status = self._namespaces = -1
        self._files: list[int] = []
        self._calls: StateCalls | None = None
        self._capabilities, self._may_move = b"", True

    def read(self) -> InheritedState | None:
        """Read the inherited state of this thread; None when that is impossible, and then no guard may be used again.

        A None is not equal to an earlier None: the caller has to ask.
        """
        try:
            calls = self._calls
            if calls is None or self._thread != get_native_id():  # at first, in another thread, in a forked program
                calls = self._open()
            status = os.pread(self._status, _ROOM, 0)
            if len(status) == _ROOM or _FILTERS not in status:
                return None  # thousands of groups, so this is not all of it; or the next call may be deadly
            # The first part has the name and the parent as well. They seldom change, and a new guard does no harm.
            first = status[: status.index(b"\nFDSize:")]
            groups = _between(status, b"\nGroups:", b"\nNStgid:")
            capabilities = _between(status, b"\nCapInh:", b"\nvoluntary_ctxt_switches:")
            files = [os.pread(fd, _ROOM, 0) for fd in self._files]
            if capabilities != self._capabilities:
                self._capabilities, self._may_move = capabilities, _may_move(capabilities)
            if not self._may_move:
                return (first, groups, capabilities, *files, *calls.read())
            namespaces = [os.readlink(name, dir_fd=self._namespaces) for name in _NAMESPACES]
            return (first, groups, capabilities, *files, *calls.read(), *namespaces, calls.read_root())
        except (OSError, ValueError, ImportError):
            return None

    def may_look_at(self, pid: int) -> bool:
        """Whether the kernel lets this thread look at a process: not out of a Landlock domain or a user namespace."""
        try:
            return (self._calls or self._open()).may_look_at(pid)
        except (OSError, ImportError):
            return False

    def close(self) -> None:
        """Close the files. A later read opens them again."""
        self._thread = 0
        for fd in (self._status, self._namespaces, *self._files):
            if fd >= 0:
                os.close(fd)
        self._status = self._namespaces = -1
        self._files.clear()

    def _open(self) -> StateCalls:
        from .state_calls import StateCalls  # here, because a program without a pool of guards needs no ctypes

        self.close()
        try:
            self._status = os.open(_STATUS, _LOOK)
            for path in _ALWAYS_THERE:
                self._files.append(os.open(path, _LOOK))
            self._files += [fd for path in _OPTIONAL if (fd := _open_optional(path)) >= 0]
            try:
                self._namespaces = os.open(f"{_THREAD}/ns", _LOOK | os.O_DIRECTORY)
            except PermissionError:
                pass  # a process that has given up its user may not look there, and has no capability to move with
            self._calls = calls = StateCalls()
        except BaseException:
            self.close()
            raise
        self._thread = get_native_id()
        return calls


def read_inherited_state() -> InheritedState | None:
    """Read the inherited state of this thread once; see `StateReader.read`."""
    reader = StateReader()
    try:
        return reader.read()
    finally:
        reader.close()


def descriptor_limit() -> int:
    """The number of descriptors that this process may have open."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


def _open_optional(path: str) -> int:
    """Open a file if the kernel has it and can read it; else -1. OSError: there is no descriptor left."""
    try:
        fd = os.open(path, _LOOK)
    except FileNotFoundError:
        return -1
    try:
        os.pread(fd, _ROOM, 0)
    except OSError:  # EINVAL: there is no security module that gives labels
        os.close(fd)
        return -1
    return fd


def _between(text: bytes, first: bytes, last: bytes) -> bytes:
    start = text.index(first)
    return text[start : text.index(last, start)]


def _may_move(capabilities: bytes) -> bool:
    """Whether this thread may change its namespaces or its root.

    A thread without these capabilities gets them only in a user namespace of its own, which `may_look_at` sees, or with
    another program.
    """
    permitted = capabilities.index(b"CapPrm:\t") + 8
    return int(capabilities[permitted : permitted + 16], 16) & _MOVES != 0


def _filters_at_first() -> bytes:
    """The lines about seccomp, mode and number of filters, as they were when this module was loaded."""
    try:
        fd = os.open(_STATUS, _LOOK)
        try:
            status = os.read(fd, _ROOM)
        finally:
            os.close(fd)
        start = status.index(b"\nSeccomp:")
        end = status.index(b"\n", start + 1)
        if status.startswith(b"\nSeccomp_filters:", end):
            end = status.index(b"\n", end + 1)
        return status[start : end + 1]
    except (OSError, ValueError):
        return b"\nnot known\n"  # in no status: no guard is used again


_FILTERS = _filters_at_first()
