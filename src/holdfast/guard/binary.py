"""The guard binary in use, and the error for a binary that cannot be started."""

from __future__ import annotations

import os

from ..values.environment import GUARD
from ..values.errors import GuardError

_PACKAGED_GUARD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "holdfast-guard")


def guard_path() -> str:
    """The path of the guard binary: HOLDFAST_GUARD if it is set, else the binary inside the package."""
    return os.environ.get(GUARD) or _PACKAGED_GUARD


def cannot_start(error: OSError, run_id: str) -> GuardError:
    """The error for a guard that could not be started, with what to do about it."""
    from .requirements import find_missing  # here, because a guard seldom fails to start

    if (missing := find_missing()) is not None:
        message = f"the guard cannot be started: {missing.what}"
        return GuardError(message, errno=error.errno, run_id=run_id, remedy=missing.remedy)
    path = guard_path()
    message = f"the guard {path} cannot be started: {error.strerror}"
    remedy = "reinstall holdfast for this machine"
    if not os.path.exists(path):
        remedy = "build it (make guard) or reinstall holdfast"
    elif not os.access(path, os.X_OK):
        remedy = f"make it executable (chmod +x {path}), and look whether its file system is mounted noexec"
    if GUARD in os.environ:
        remedy = f"{GUARD} points there: unset it, or {remedy}"
    return GuardError(message, errno=error.errno, run_id=run_id, remedy=remedy)
