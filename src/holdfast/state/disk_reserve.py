"""The reserve of a state directory: a file that is removed when the disk is full, so that `prune` and lists have room.

SQLite needs room even to read: its log and its shared memory are files. Without a reserve, a full disk would keep the
index shut, and with it `prune`, the command that makes room. The reserve is made again when there is plenty of room.
"""

from __future__ import annotations

import os

from ..values.durations import format_size
from ..values.errors import StateError
from ..values.fast_imports import TYPE_CHECKING
from .owned_files import create

if TYPE_CHECKING:
    from ..values.disk_floor import DiskFloor

NAME = "reserve"
RESERVE_BYTES = 512 << 10
_LOW = "free space, remove old runs (holdfast prune), or set HOLDFAST_DISK_FLOOR to less, or to none"
_PLENTY = 16  # times the size of the reserve must be free before it is made
_FULL_BYTES = 256 << 10  # with less, a file system counts as full: SQLite alone needs a good part of this


def free_bytes(path: str) -> int:
    """The bytes that an ordinary user can still write to the file system of this path. OSError: nobody knows."""
    found = os.statvfs(path)
    return found.f_bavail * found.f_frsize


def is_full(path: str) -> bool:
    """Whether there is too little room to write anything. False when nobody knows."""
    try:
        return free_bytes(path) < _FULL_BYTES
    except OSError:
        return False


def check_floor(state_path: str, floor: DiskFloor | None, run_id: str) -> None:
    """Refuse a run whose record would go to a disk with less free space than its floor: StateError.

    A full disk harms every program on the host. Runs that are alive go on.
    """
    if floor is None:
        return
    try:
        found = os.statvfs(state_path)
    except OSError:
        return  # the start finds out by itself
    least, free = floor.of(found.f_blocks * found.f_frsize), found.f_bavail * found.f_frsize
    if free < least:
        left, wanted = format_size(free >> 10 << 10), format_size(least >> 10 << 10)
        message = f"the disk of {state_path} has {left} left, less than its floor of {wanted}"
        raise StateError(message, run_id=run_id, remedy=_LOW)


def keep(state_path: str) -> None:
    """Make the reserve if it is missing and there is plenty of room; raises nothing: the reserve is a precaution."""
    path = os.path.join(state_path, NAME)
    if os.path.lexists(path):
        return
    try:
        if free_bytes(state_path) < _PLENTY * RESERVE_BYTES:
            return
        fd = create(path)
    except Exception:  # noqa: BLE001 - also a StateError; a caller that cannot go on finds out by itself
        return
    try:
        os.posix_fallocate(fd, 0, RESERVE_BYTES)
    except OSError:
        os.unlink(path)
    finally:
        os.close(fd)


def release_if_full(state_path: str) -> bool:
    """Remove the reserve if the disk is full; True: there is room now."""
    if not is_full(state_path):
        return False
    try:
        os.unlink(os.path.join(state_path, NAME))
    except OSError:
        return False
    return True
