"""Start the daemon of a state directory on demand: only when there is none, and once for all clients.

Clients that come at the same time wait for one lock file. The first client starts the daemon and holds the lock until
the daemon listens; the other clients then find the daemon. A daemon that somebody else starts or ends holds the owner
lock, and clients wait for it. The started daemon is not the client's child: it has a session of its own, its log is
`STATE/daemon.log`, and it goes on when the client ends. It has the client's environment, and its runs inherit that.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from _socket import AF_UNIX, SOCK_STREAM, socket
from typing import TYPE_CHECKING

from ..state import owner_lock
from ..state.directory import StateDirectory, state_error
from ..state.file_lock import FileLock
from ..state.owned_files import open_or_create
from ..values.environment import SERVICE, parent_run_id
from ..values.errors import DaemonUnreachableError
from .endpoint import connect

if TYPE_CHECKING:
    from collections.abc import Sequence

LOG = "daemon.log"
_LOCK = "start.lock"
_WITHIN_S = 60.0
_PAUSE_S = 0.02
_LARGEST_LOG = 10 << 20
# The daemon is our grandchild, so that the program that uses this client gets no unknown child.
_FORK = "import subprocess, sys; print(subprocess.Popen(sys.argv[1:], stdout=2, start_new_session=True).pid)"


def ensure_daemon(state_dir: str | None, options: Sequence[str] = ()) -> bool:
    """Return when the daemon of the state directory listens: True when this call started it, False otherwise.

    A daemon that this call starts gets `options`, the options of `holdfast serve`. DaemonUnreachableError: it does not
    start, or we are in a run, whose end would end the daemon.
    """
    state = StateDirectory.open(state_dir)
    if _listens(state):
        return False
    if (run_id := parent_run_id(os.environ)) is not None:
        remedy = "start it outside of runs (holdfast serve --detach)"
        raise DaemonUnreachableError("a daemon that a run starts would end with the run", run_id=run_id, remedy=remedy)
    try:
        with FileLock(os.path.join(state.path, _LOCK), _WITHIN_S).exclusive():
            return _start_once(state, options)
    except OSError as error:
        raise state_error(error, state.path) from None


def _start_once(state: StateDirectory, options: Sequence[str]) -> bool:
    deadline = time.monotonic() + _WITHIN_S
    started = None
    while not _listens(state):
        is_owned = owner_lock.look(state).state == owner_lock.ALIVE
        if started is None and not is_owned:
            started = _StartedDaemon(state, options)
        elif not is_owned and started is not None and started.has_ended:
            raise _failed(state, f"it ended: {started.last_words()}")
        elif time.monotonic() >= deadline:
            raise _failed(state, f"it does not listen after {_WITHIN_S:g} s")
        time.sleep(_PAUSE_S)  # there is no event for a socket that is about to listen
    return started is not None


class _StartedDaemon:
    """A daemon that was just started."""

    def __init__(self, state: StateDirectory, options: Sequence[str]) -> None:
        self._log = os.path.join(state.path, LOG)
        serve = [sys.executable, "-P", "-m", "holdfast.cli.main", "serve", "--state-dir", state.path, *options]
        environment = {name: value for name, value in os.environ.items() if name not in SERVICE}  # of its client
        fd = _open_log(self._log)
        try:
            self._begin = os.lseek(fd, 0, os.SEEK_END)
            forked = subprocess.run(
                [sys.executable, "-I", "-S", "-c", _FORK, *serve],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=fd,
                cwd="/",
                env=environment,
                check=True,
            )
        except subprocess.CalledProcessError as error:
            raise _failed(state, f"exit code {error.returncode}") from None
        finally:
            os.close(fd)
        self._pid = int(forked.stdout)

    @property
    def has_ended(self) -> bool:
        """Whether the daemon is gone."""
        try:
            pidfd = os.pidfd_open(self._pid)
        except ProcessLookupError:
            return True
        try:
            poll = select.poll()
            poll.register(pidfd, select.POLLIN)
            return bool(poll.poll(0))
        finally:
            os.close(pidfd)

    def last_words(self) -> str:
        """The last line that the daemon has written to its log."""
        with open(self._log, "rb") as log:
            log.seek(self._begin)
            lines = log.read().decode("utf-8", "replace").split("\n")
        return next((line for line in reversed(lines) if line.strip()), "it said nothing")


def _open_log(path: str) -> int:
    """Open the log for appending. A log that is too large is renamed first, in place of the log renamed before."""
    try:
        if os.lstat(path).st_size > _LARGEST_LOG:
            os.replace(path, f"{path}.1")
    except FileNotFoundError:
        pass
    return open_or_create(path, os.O_WRONLY | os.O_APPEND)


def _listens(state: StateDirectory) -> bool:
    connection = socket(AF_UNIX, SOCK_STREAM)
    try:
        connect(connection, state.path)
    except OSError:
        return False
    finally:
        connection.close()
    return True


def _failed(state: StateDirectory, why: str) -> DaemonUnreachableError:
    remedy = f"look at {os.path.join(state.path, LOG)}, or start it by hand (holdfast serve)"
    return DaemonUnreachableError(f"the daemon of {state.path} was not started: {why}", remedy=remedy)
