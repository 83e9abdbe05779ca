"""Durable runs, which have a directory: starting one, adopting one, and finishing one whose guard was lost."""

from __future__ import annotations

import errno
import os
import time
from _socket import AF_UNIX, MSG_DONTWAIT, MSG_NOSIGNAL, SOCK_CLOEXEC, SOCK_SEQPACKET, socketpair

from ..guard.descriptors import DurableFiles
from ..guard.launch import GuardHandle, launch
from ..guard.packets import hello
from ..guard.processes import continue_writers
from ..journal.beginning import beginning
from ..state import run_directory
from ..values.errors import HoldfastError, RunNotFoundError
from ..values.fast_imports import TYPE_CHECKING
from ..values.identity import is_exiting
from ..values.spec import kept_spec, spec_on_record
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
_ONE_DAY_S = 86_400.0
_CLOSES_WITHIN_S = 1.0  # from the death of a guard to the end of the processes that share its descriptors


def start_durable(
    state: StateDirectory,
    spec: RunSpec,
    *,
    wake_output: bool = False,
    held: bool = False,
    window_size: tuple[int, int] | None = None,
) -> LiveRun:
    """Start a run in a directory of its own. Fails as `launch_durable` does.

    If the caller sets no limit, its output rolls. `held`: the caller reads the output from the first byte on, and
    nothing is taken out of the journal that it has not read. The command waits only for a reader that is behind by the
    whole tail; if the output does not roll, the journal keeps everything, and the command never waits.
    """
    spec = kept_spec(spec)
    handle = launch_durable(state, spec, wake_output=wake_output, held=held, window_size=window_size)
    keep = _keeper_in(state) if spec.stragglers == "session" else None
    return LiveRun(spec, handle, recovery_in(state), wake_output=wake_output, kept=True, keep=keep)


def _keeper_in(state: StateDirectory) -> Callable[[LiveRun], None]:
    def keep(live: LiveRun) -> None:
        from .successor import keep_stragglers  # here, because few commands leave anything behind

        keep_stragglers(state, live)

    return keep


def launch_durable(
    state: StateDirectory,
    spec: RunSpec,
    *,
    wake_output: bool = False,
    held: bool = False,
    window_size: tuple[int, int] | None = None,
) -> GuardHandle:
    """Make the run's directory and start its guard there.

    SessionClosedError: its session takes no more runs. RunExistsError, StateError: the directory cannot be made.
    Otherwise fails as `launch` does. In each case nothing is left.
    """
    prepared = run_directory.prepare(state, spec.run_id, beginning(spec))
    files = DurableFiles(prepared.path, prepared.journal, prepared.listener.fileno(), prepared.directory)
    place = -1
    try:
        # The directory is made before this check. So if the session closes now, we see it, or its closer sees this run.
        if spec.session is not None:
            from ..state.sessions import check_open, has_budget

            check_open(state, spec.session, spec.run_id)
            if has_budget(state, spec.session):
                from ..state.session_budget import take_place

                place = take_place(state, spec)
                files = files._replace(session=place)
        window_bytes = (spec.max_output_bytes or 0) // 2 if held and spec.on_max_output == "roll" else 0
        return launch(spec, wake_output=wake_output, window_bytes=window_bytes, window_size=window_size, files=files)
    except HoldfastError as error:
        # These errors say that no guard was started. After any other exception there may be one. Then the directory
        # stays, and the next reader finds out what became of the run.
        run_directory.take_back(state, spec.run_id, prepared.path, error)
        raise
    finally:
        if place >= 0:
            os.close(place)  # the guard has it
        prepared.close()


def adopt(state: StateDirectory, run_id: str) -> LiveRun:
    """Become an owner of a run that another process started. A run that is over is only read.

    A run on another host is only read, from the copy of its journal, and looks like a run whose guard has no room for
    us. RunNotFoundError: there is no such run. JournalError: its journal cannot be read.
    """
    from ..state.record import RunRecord

    deadline = time.monotonic() + _START_BOUND_S
    while True:
        with RunRecord(state, run_id) as record:
            record.read()
            if record.unfinished:
                recover(state, run_id)
                record.read()
            if record.guard == "elsewhere":
                return _reader_of_copy(state, record)
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

    deadline, unseen_until = time.monotonic() + within_s, time.monotonic() + min(within_s, _CLOSES_WITHIN_S)
    while True:
        recovery.finish(state, run_id)
        try:
            with RunRecord(state, run_id) as record:
                record.read()
                if record.reader.ended or record.guard == "elsewhere" or time.monotonic() > deadline:
                    return record.reader.ended
                goes_on = _goes_on(record, guard_pid)
                if goes_on or (goes_on is None and time.monotonic() > unseen_until):
                    return False
                if record.guard != "gone":  # a writer that somebody has stopped may hold the lock
                    continue_writers(str((record.reader.spec or {}).get("left_by") or run_id))
        except RunNotFoundError:
            return True  # the run was pruned, so it is over
        time.sleep(0.005)  # another reader holds the lock, or the guard is dying: there is no event to wait for


def _reader_of_copy(state: StateDirectory, record: RunRecord) -> LiveRun:
    live = _owner(state, spec_on_record(record.run_id, record.reader.spec or {}), record, _closed_socket())
    live.watchdog.next_at += _ONE_DAY_S  # not ours to watch: its processes and its clock are another host's
    return live


def _owner(state: StateDirectory, spec: RunSpec, record: RunRecord, control: socket) -> LiveRun:
    journal = os.dup(record.fd)
    handle = GuardHandle(control, journal, -1, 0, None, None, 0, b"", spec.left_by or spec.run_id)
    return LiveRun(spec, handle, recovery_in(state), kept=True)


def recovery_in(state: StateDirectory) -> Callable[[LiveRun], tuple[Fact, ...]]:
    """How an owner ends what the lost guard of a run in this state directory has left."""

    def recover_lost(live: LiveRun) -> tuple[Fact, ...]:
        """Finish the record of a run whose guard is lost. RequestError: only our connection was lost."""
        if not recover(state, live.spec.run_id, guard_pid=live.guard_pid):
            if live.watchdog.has_given_up:
                from .ephemeral import end_lost  # here, because guards are seldom lost

                return end_lost(live)  # the guard was killed but does not die: a later reader finishes the record
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


def _goes_on(record: RunRecord, guard_pid: int) -> bool | None:
    """Whether the guard lives, and not only its lock or its socket; None: it listens, but there is no such process."""
    # Either a guard holds the lock, or another reader that is finishing the record. Only guards listen.
    if record.guard == "gone" or not _is_listening(record):
        return False
    # A guard that was killed still listens for a moment after its owners have seen end of file.
    started = record.outcome.started
    exiting = is_exiting(guard_pid or (0 if started is None else int(started.detail["guard_pid"])))
    # None: the guard was reaped, or its PID was never known, and its sentinel or its writer, which have the same
    # descriptors, die a moment later; or the guard is in another PID namespace.
    if exiting is None:
        return None if _is_listening(record) else False
    return not exiting


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
