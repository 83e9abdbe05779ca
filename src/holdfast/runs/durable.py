"""Durable runs, which have a directory: starting one, adopting one, and finishing one whose guard was lost."""

from __future__ import annotations

import errno
import os
import time
from _socket import AF_UNIX, MSG_DONTWAIT, MSG_NOSIGNAL, SOCK_CLOEXEC, SOCK_SEQPACKET, socketpair

from ..guard.descriptors import DurableFiles
from ..guard.launch import GuardHandle, launch
from ..guard.packets import hello
from ..journal.beginning import beginning
from ..state import run_directory
from ..values.errors import HoldfastError, RunNotFoundError
from ..values.fast_imports import TYPE_CHECKING
from ..values.identity import is_exiting
from ..values.spec import spec_on_record
from .live import LiveRun

# What only reading a run back needs is imported where it is used: `holdfast run` does without it.
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Callable

    from ..journal.facts import Fact
    from ..state.directory import StateDirectory
    from ..state.record import RunRecord
    from ..values.spec import RunSpec

_START_BOUND_S = 10.0


def start_durable(
    state: StateDirectory, spec: RunSpec, *, wake_output: bool = False, window_size: tuple[int, int] | None = None
) -> LiveRun:
    """Start a run in a directory of its own. Fails as `launch_durable` does.

    Its journal is a file that keeps everything, so no window ever holds the command up.
    """
    handle = launch_durable(state, spec, wake_output=wake_output, window_size=window_size)
    return LiveRun(spec, handle, _recovery_in(state), wake_output=wake_output)


def launch_durable(
    state: StateDirectory, spec: RunSpec, *, wake_output: bool = False, window_size: tuple[int, int] | None = None
) -> GuardHandle:
    """Make the run's directory and start its guard there.

    SessionClosedError: its session takes no more runs. RunExistsError, StateError: the directory cannot be made.
    Otherwise fails as `launch` does. In each case nothing is left.
    """
    prepared = run_directory.prepare(state, spec, beginning(spec))
    files = DurableFiles(prepared.path, prepared.journal, prepared.listener.fileno(), prepared.directory)
    try:
        # The directory is made before this check. So if the session closes now, we see it, or its closer sees this run.
        if spec.session is not None:
            from ..state.sessions import check_open

            check_open(state, spec.session, spec.run_id)
        return launch(spec, wake_output=wake_output, window_size=window_size, files=files)
    except HoldfastError as error:
        # These errors say that no guard was started. After any other exception there may be one. Then the directory
        # stays, and the next reader finds out what became of the run.
        run_directory.take_back(state, spec.run_id, prepared.path, error)
        raise
    finally:
        prepared.close()


def adopt(state: StateDirectory, run_id: str) -> LiveRun:
    """Become an owner of a run that another process started. A run that is over is only read.

    RunNotFoundError: there is no such run. JournalError: its journal cannot be read.
    """
    from ..state.record import RunRecord

    deadline = time.monotonic() + _START_BOUND_S
    while True:
        with RunRecord(state, run_id) as record:
            record.read()
            if record.unfinished:
                recover(state, run_id)
                record.read()
            control = _connect(record)
            if control is not None or record.reader.ended or time.monotonic() > deadline:
                spec = spec_on_record(run_id, record.reader.spec or {})
                return _owner(state, spec, record, control or _closed_socket())
        time.sleep(0.005)  # a guard is starting or ending: there is no event to wait for


def recover(state: StateDirectory, run_id: str, *, guard_pid: int = 0, within_s: float = 10.0) -> bool:
    """Finish the record of a run whose guard is gone; False when the guard lives.

    While another reader finishes the record, this waits, at most `within_s`. `guard_pid` is the guard's PID if the
    caller knows it, because it may not be on record yet.
    """
    from ..state import recovery
    from ..state.record import RunRecord

    deadline = time.monotonic() + within_s
    while True:
        recovery.finish(state, run_id)
        try:
            with RunRecord(state, run_id) as record:
                record.read()
                if record.reader.ended or time.monotonic() > deadline:
                    return record.reader.ended
                if _goes_on(record, guard_pid):
                    return False
        except RunNotFoundError:
            return True  # the run was pruned, so it is over
        time.sleep(0.005)  # another reader holds the lock, or the guard is dying: there is no event to wait for


def _owner(state: StateDirectory, spec: RunSpec, record: RunRecord, control: socket) -> LiveRun:
    journal = os.dup(record.fd)
    handle = GuardHandle(control, journal, -1, 0, None, None, 0, b"", spec.run_id)
    return LiveRun(spec, handle, _recovery_in(state))


def _recovery_in(state: StateDirectory) -> Callable[[LiveRun], tuple[Fact, ...]]:
    def recover_lost(live: LiveRun) -> tuple[Fact, ...]:
        """Finish the record of a run whose guard is lost. RequestError: only our connection was lost."""
        if not recover(state, live.spec.run_id, guard_pid=live.guard_pid):
            remedy = "it has all the owners it can take: try again later"
            raise live.refused("goes on, but its guard has no room for us", errno.EUSERS, remedy)
        return ()  # the facts are in the journal

    return recover_lost


def _connect(record: RunRecord) -> socket | None:
    if record.guard == "gone":
        return None
    try:
        connected = run_directory.connect(record.path)
    except (FileNotFoundError, ConnectionRefusedError):
        return None  # the guard ended between the two looks, or does not listen yet
    # The guard does not wake us for facts that it recorded before it accepted us, not even for the verdict. Its answer
    # to this packet wakes us: then we read the journal, and have missed nothing.
    try:
        connected.send(hello(), MSG_DONTWAIT | MSG_NOSIGNAL)
    except OSError:
        pass  # the guard is gone, or takes no more owners: end of file tells us
    return connected


def _goes_on(record: RunRecord, guard_pid: int) -> bool:
    """Whether the guard lives, and not only its lock or its socket."""
    # Either a guard holds the lock, or another reader that is finishing the record. Only guards listen.
    if record.guard == "gone" or not _is_listening(record):
        return False
    # A guard that was killed still listens for a moment after its owners have seen end of file.
    started = record.outcome.started
    exiting = is_exiting(guard_pid or (0 if started is None else int(started.detail["guard_pid"])))
    # None: the guard was reaped after we looked, and then nobody listens any more; or it is in another PID namespace.
    return _is_listening(record) if exiting is None else not exiting


def _is_listening(record: RunRecord) -> bool:
    try:
        run_directory.connect(record.path).close()
    except BlockingIOError:
        return True  # the guard is stopped, and its queue is full
    except (FileNotFoundError, ConnectionRefusedError):
        return False
    return True


def _closed_socket() -> socket:
    """A control socket at end of file, for a run without a guard: its journal has all there is."""
    ours, theirs = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC)
    theirs.close()
    return ours
