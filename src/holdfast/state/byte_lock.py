"""A lock on one byte of an open file: the kernel releases it when the last copy of the descriptor is closed.

The lock belongs to the open file description, not to the process. A child that inherits the descriptor holds the lock
as well, and a lock never outlives the processes that have the file open.
"""

from __future__ import annotations

import errno
import os
import struct
from fcntl import fcntl

_F_OFD_GETLK, _F_OFD_SETLK = 36, 37
_F_WRLCK, _F_UNLCK = 1, 2
_FLOCK = struct.Struct("hhqqi4x")  # type, whence, start, length, pid: as fcntl(2) on 64-bit Linux


def lock(fd: int, byte: int) -> bool:
    """Lock this byte for as long as `fd` or a copy of it is open; False when another open file has the lock."""
    try:
        fcntl(fd, _F_OFD_SETLK, _FLOCK.pack(_F_WRLCK, os.SEEK_SET, byte, 1, 0))
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        raise
    return True


def is_locked(fd: int, byte: int) -> bool:
    """Whether another open file has the lock. OSError: the kernel has no such locks."""
    answer = fcntl(fd, _F_OFD_GETLK, _FLOCK.pack(_F_WRLCK, os.SEEK_SET, byte, 1, 0))
    kind: int = _FLOCK.unpack(answer)[0]
    return kind != _F_UNLCK
