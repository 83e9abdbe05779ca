"""A sandbox that a program puts on itself, and that its children cannot leave: in it nobody can make a FIFO."""

from __future__ import annotations

import ctypes
import os
import struct

_CREATE_RULESET, _RESTRICT_SELF = 444, 446  # of Landlock, the same on every architecture
_MAKE_FIFO = 1 << 10
_NO_NEW_PRIVILEGES = 38
_libc = ctypes.CDLL(None, use_errno=True)


def enter() -> None:
    """Enter it, for good. OSError: this kernel has no Landlock."""
    handled = struct.pack("<Q", _MAKE_FIFO)
    ruleset = _checked(_libc.syscall(_CREATE_RULESET, handled, len(handled), 0))
    try:
        if os.geteuid() != 0:  # root needs no such mark, and then nothing in /proc tells of the sandbox
            _checked(_libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
        _checked(_libc.syscall(_RESTRICT_SELF, ruleset, 0))
    finally:
        os.close(ruleset)


def why_none() -> str | None:
    """Why there is no such sandbox on this machine; None if there is one."""
    version = 1  # a flag: the call makes nothing, and says how much of Landlock there is
    return None if _libc.syscall(_CREATE_RULESET, None, 0, version) > 0 else "no Landlock on this machine"


def _checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
