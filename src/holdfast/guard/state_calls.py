"""System calls that read inherited state which no file in /proc shows, and one that asks what we may look at.

Each takes half a microsecond through ctypes. They never wait, so other threads of Python need not run meanwhile. A call
that this kernel does not know is left out at the first look. A call that is refused (a container's seccomp filter)
counts as an answer: a program that may not read such a state may not set it either.
"""

from __future__ import annotations

import ctypes
import os

_NUMBERS = {  # get_mempolicy, get_robust_list, ioprio_get, keyctl, sched_getattr, statx
    "x86_64": (239, 274, 252, 250, 315, 332),
    "aarch64": (236, 100, 31, 219, 275, 291),
}
_L1D_FLUSH, _CAN_BE_SET = (52, 2), 1
# Options of prctl that return their value, each with its first argument.
_PRCTLS = {
    "securebits": (27, 0),
    "timer slack": (30, 0),
    "machine check policy": (34, 0),
    "huge pages": (42, 0),
    "scalable vectors": (51, 0),
    "L1D flush": _L1D_FLUSH,
    "flusher of I/O": (58, 0),
    "scalable matrices": (64, 0),
    "memory that may be written or executed": (66, 0),
    "merged memory": (68, 0),
}
_SCHED_CORE = 62
_SCHED_ATTR_SIZE, _STATX_SIZE, _NODES = 56, 256, 1024
_ONE_PROCESS = 1  # of ioprio_get
_GET_KEYRING_ID, _SESSION_KEYRING = 0, -3
_AT_FDCWD, _DONT_SYNC = -100, 0x4000
_WANTED = 0x100 | 0x1000 | 0x4000  # of statx: the inode and the mount, by a number that no later mount gets
_HAS_MOUNT = 0x10 | 0x40  # in the second byte of the answer
_ASK = 0xFFFFFFFF  # of personality

_libc = ctypes.PyDLL(None)
_libc.syscall.restype = ctypes.c_long
_syscall, _prctl, _personality = _libc.syscall, _libc.prctl, _libc.personality


class StateCalls:
    """The calls, with room for their answers. Serves one thread. OSError: this architecture has no numbers here."""

    __slots__ = (
        "_answers",
        "_attributes",
        "_cookie",
        "_has_cookies",
        "_head",
        "_length",
        "_mode",
        "_nodes",
        "_numbers",
        "_options",
        "_root",
    )

    def __init__(self) -> None:
        if (numbers := _NUMBERS.get(os.uname().machine)) is None:
            raise OSError(f"the numbers of system calls on {os.uname().machine} are not known")
        self._numbers = numbers
        answers = {option: _prctl(*option, 0, 0, 0) for option in _PRCTLS.values()}
        self._options = [option for option, answer in answers.items() if answer != -1]
        if _L1D_FLUSH in self._options and not answers[_L1D_FLUSH] & _CAN_BE_SET:
            self._options.remove(_L1D_FLUSH)
        self._root = ctypes.create_string_buffer(_STATX_SIZE)
        # One buffer, because each that is read takes as long as a call.
        self._answers = ctypes.create_string_buffer(_SCHED_ATTR_SIZE + _NODES // 8 + 8 + 4)
        self._attributes = ctypes.byref(self._answers)
        self._nodes = ctypes.byref(self._answers, _SCHED_ATTR_SIZE)
        self._cookie = ctypes.byref(self._answers, _SCHED_ATTR_SIZE + _NODES // 8)
        self._mode = ctypes.byref(self._answers, _SCHED_ATTR_SIZE + _NODES // 8 + 8)
        self._has_cookies = _prctl(_SCHED_CORE, 0, 0, 0, self._cookie) == 0
        self._head, self._length = ctypes.byref(ctypes.c_void_p()), ctypes.byref(ctypes.c_size_t())

    def read(self) -> tuple[object, ...]:
        """What a child of this thread inherits now, but for its root directory."""
        get_mempolicy, _, ioprio_get, keyctl, sched_getattr, _ = self._numbers
        _syscall(sched_getattr, 0, self._attributes, _SCHED_ATTR_SIZE, 0)
        _syscall(get_mempolicy, self._mode, self._nodes, _NODES, None, 0)
        if self._has_cookies:
            _prctl(_SCHED_CORE, 0, 0, 0, self._cookie)
        return (
            self._answers.raw,
            _syscall(ioprio_get, _ONE_PROCESS, 0),
            _syscall(keyctl, _GET_KEYRING_ID, _SESSION_KEYRING, 0),
            _personality(_ASK),
            *[_prctl(option, argument, 0, 0, 0) for option, argument in self._options],
        )

    def read_root(self) -> bytes:
        """The root directory of this thread. OSError: it cannot be told from another."""
        if _syscall(self._numbers[5], _AT_FDCWD, b"/", _DONT_SYNC, _WANTED, self._root) < 0:
            raise OSError("the root directory cannot be examined")
        place = self._root.raw
        if not place[1] & _HAS_MOUNT:  # a kernel before 5.8
            raise OSError("the mount of the root directory is not known")
        return place[32:40] + place[136:152]  # inode, device, mount

    def may_look_at(self, pid: int) -> bool:
        """Whether the kernel lets this thread look at a process: not out of a Landlock domain or a user namespace."""
        # Of the calls that ask for this permission, get_robust_list is the cheapest, and it needs no /proc.
        return bool(_syscall(self._numbers[1], pid, self._head, self._length) == 0)
