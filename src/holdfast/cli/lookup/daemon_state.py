"""The state directory of the daemon that a command needs; the daemon is started on request."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ...client.endpoint import wants_daemon
from ...state.directory import default_path
from ...values.errors import DaemonUnreachableError
from ..parsing.command import open_state
from ..parsing.options import Option

if TYPE_CHECKING:
    from ...state.directory import StateDirectory
    from ..parsing.options import CommandLine

START = Option("--start", None, "start the daemon when there is none (also with HOLDFAST_START=1)")


def daemon_state(given: CommandLine, remedy: str) -> StateDirectory:
    """The state directory of the daemon, which is made only for a daemon that is started.

    DaemonUnreachableError, with this remedy: there is no such directory, so there is no daemon.
    """
    if wants_daemon(True if given.has(START.flag) else None):
        from ...client.daemon_start import ensure_daemon

        ensure_daemon(given.last("--state-dir"))
        return open_state(given)
    path = os.path.abspath(given.last("--state-dir") or default_path())
    if not os.path.lexists(path):
        raise DaemonUnreachableError(f"no daemon answers at {path}: there is no such directory", remedy=remedy)
    return open_state(given)
