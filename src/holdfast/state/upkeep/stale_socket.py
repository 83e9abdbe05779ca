"""Stale sockets: find and remove the socket that a dead guard left in its run's directory."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ...values.errors import HoldfastError
from .. import run_directory
from ..record import RunRecord

if TYPE_CHECKING:
    from ..directory import StateDirectory


def socket_path(state: StateDirectory, run_id: str) -> str:
    """The path of the socket on which the guard of this run listens."""
    return os.path.join(state.run_path(run_id), run_directory.SOCKET)


def is_stale(state: StateDirectory, run_id: str) -> bool:
    """Whether the run has ended, its guard is gone, and the socket is still there. False for an unfinished run."""
    if not os.path.lexists(socket_path(state, run_id)):
        return False
    try:
        with RunRecord(state, run_id) as record:
            record.read()
            # The guard records the end a moment before it removes its socket and exits. So the lock counts, too.
            return record.reader.ended and run_directory.guard_state(record.fd, has_facts=True) == "gone"
    except (HoldfastError, OSError):
        return False


def remove_stale(state: StateDirectory, run_id: str) -> bool:
    """Remove the socket if it is stale; returns whether it was. OSError: it cannot be removed."""
    if not is_stale(state, run_id):
        return False
    os.unlink(socket_path(state, run_id))
    return True
