"""One run's directory: made whole or not at all, and able to say whether its guard lives.

Making one. Everything is prepared under a name of its own (`runs/.new-RUN_ID`) and renamed when the journal has its
beginning and its lock. So a directory in `runs` always holds a journal that says what was asked for.

Alive or not. The guard holds a lock on the journal's first byte as long as it lives; the launcher holds one on the
second byte, on the open file that the guard inherits. Order that is guaranteed: launcher's lock, rename, guard started,
guard's lock, first fact of the guard. Hence a journal without any fact of a guard is "starting" while the second byte
is locked, and in every other case only the first byte counts: it is free exactly when there is no guard any more.
"""

from __future__ import annotations

import errno
import os
from _socket import AF_UNIX, SOCK_CLOEXEC, SOCK_SEQPACKET, socket

from ..values.errors import RunExistsError
from ..values.fast_imports import TYPE_CHECKING, NamedTuple
from .byte_lock import is_locked, lock
from .directory import StateDirectory, state_error

if TYPE_CHECKING:
    from ..values.errors import HoldfastError
    from ..values.spec import RunSpec

JOURNAL = "journal"
SOCKET = "guard.sock"
_BEFORE_THE_START = (JOURNAL, SOCKET, "heartbeat")  # every file that a run directory can hold before its guard starts
_GUARD_BYTE, _LAUNCHER_BYTE = 0, 1


class PreparedDirectory(NamedTuple):
    """A new run directory with what its guard is to inherit. Whoever holds it closes it."""

    path: str
    journal: int  # the writing side, which carries the launcher's lock: closed as soon as the guard has it
    listener: socket
    directory: int

    def close(self) -> None:
        """Close all of it."""
        os.close(self.journal)
        self.listener.close()
        os.close(self.directory)


def prepare(state: StateDirectory, spec: RunSpec, beginning: bytes) -> PreparedDirectory:
    """Make the directory of a run that is about to start.

    RunExistsError: the id is taken. StateError: the directory cannot be written. In each case nothing is left, or the
    error names what could not be removed.
    """
    run_id = spec.run_id
    path, hidden = state.run_path(run_id), state.hidden_path(run_id, "new")
    opened: list[int] = []
    listener = None
    try:
        os.mkdir(hidden, 0o700)
        directory = os.open(hidden, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        opened.append(directory)
        journal = os.open(os.path.join(hidden, JOURNAL), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        opened.append(journal)
        lock(journal, _LAUNCHER_BYTE)
        write_whole(journal, beginning, 0)
        listener = _listen(directory)
        state.mark_live(run_id)
        _rename_new(hidden, path)
    except OSError as error:
        for fd in opened:
            os.close(fd)
        if listener is not None:
            listener.close()
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
            failure = state_error(error, state.path, run_id)
            take_back(state, run_id, hidden, failure)
            raise failure from None
        taken = RunExistsError(
            "there is a run of this id already", run_id=run_id, remedy="choose another id, or leave it out"
        )
        if opened:  # else somebody else is making this very run, and the directory is theirs
            take_back(state, run_id, hidden, taken, unmark=False)  # the mark is that of the run which has the id
        raise taken from None
    return PreparedDirectory(path, journal, listener, directory)


def take_back(state: StateDirectory, run_id: str, path: str, failure: HoldfastError, *, unmark: bool = True) -> None:
    """Remove what was made for a run that cannot be started because of `failure`; raises nothing of its own.

    If something cannot be removed, `failure` names it: the first error stays the one that the caller raises.
    """
    try:
        remove(path)
        if unmark:
            state.unmark_live(run_id)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        failure.message += f"; what was made for it cannot be removed from {path}: {why}"


def discard(state: StateDirectory, run_id: str) -> None:
    """Remove a run that was prepared and never started. OSError."""
    remove(state.run_path(run_id))
    state.unmark_live(run_id)


def remove(path: str) -> int:
    """Remove a run directory with all that is in it; returns the bytes that were freed. A missing one is fine."""
    freed = 0
    try:
        for name in _names_in(path):
            inner = os.path.join(path, name)
            try:
                freed += os.lstat(inner).st_blocks * 512
                os.unlink(inner)
            except FileNotFoundError:
                continue  # two are at it: each counts what it removed itself
            except (IsADirectoryError, PermissionError):
                if not os.path.isdir(inner):
                    raise
                freed += remove(inner)  # nothing of ours makes one
        os.rmdir(path)
    except FileNotFoundError:
        pass
    return freed


def _names_in(path: str) -> tuple[str, ...] | list[str]:
    """What to remove from a run directory."""
    try:
        return os.listdir(path)
    except OSError as error:
        if error.errno not in (errno.EMFILE, errno.ENFILE):
            raise
        # Listing a directory needs a descriptor, removing a file by its name does not. A start that failed because
        # there are no descriptors has to be taken back without one.
        return _BEFORE_THE_START


def disk_bytes(path: str) -> int:
    """What a run directory takes on disk, as far as it is there: a socket or all of it may go while we look."""
    total = 0
    try:
        for name in os.listdir(path):
            try:
                total += os.lstat(os.path.join(path, name)).st_blocks * 512
            except FileNotFoundError:
                continue
    except FileNotFoundError:
        pass
    return total


def open_journal(path: str, *, write: bool = False) -> int:
    """The journal in this run directory. OSError when it is not there."""
    return os.open(os.path.join(path, JOURNAL), (os.O_RDWR if write else os.O_RDONLY) | os.O_CLOEXEC)


def guard_state(journal: int, *, has_facts: bool) -> str:
    """`alive`, `starting` or `gone`. `has_facts`: whether the journal holds any fact of a guard, read *before* this."""
    if is_locked(journal, _GUARD_BYTE):
        return "alive"
    return "starting" if is_starting(journal, has_facts=has_facts) else "gone"


def is_starting(journal: int, *, has_facts: bool) -> bool:
    """Whether a launcher, or the guard it has just started, is still on its way to the first fact."""
    return not has_facts and is_locked(journal, _LAUNCHER_BYTE)


def take_over(journal: int) -> bool:
    """Take the guard's lock for as long as this (writable) descriptor is open; False while somebody else has it."""
    return lock(journal, _GUARD_BYTE)


def drop_socket(path: str) -> bool:
    """Remove the socket of an ended run whose guard did not come to that; False while the guard is on its way out.

    A guard writes its end and then takes its socket away. One that is killed in between leaves it.
    """
    name = os.path.join(path, SOCKET)
    if not os.path.lexists(name):
        return True
    try:
        journal = open_journal(path)
    except OSError:
        return True  # no run any more: it is being removed, socket and all
    try:
        if is_locked(journal, _GUARD_BYTE):
            return False
        os.unlink(name)
    except OSError:
        pass  # somebody else was faster, or it is not ours to remove: the doctor tells
    finally:
        os.close(journal)
    return True


def connect(path: str) -> socket:
    """A connection to the run's guard. OSError when nobody listens there."""
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    connection = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC)
    try:
        connection.setblocking(False)  # a guard that is stopped accepts nobody, and its queue may be full: EAGAIN
        connection.connect(_socket_name(directory))
        connection.setblocking(True)
    except BaseException:
        connection.close()
        raise
    finally:
        os.close(directory)
    return connection


def _listen(directory: int) -> socket:
    listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC)
    try:
        listener.bind(_socket_name(directory))
        listener.listen(16)
    except BaseException:
        listener.close()
        raise
    return listener


def _socket_name(directory: int) -> str:
    # By descriptor: a socket's address holds 108 bytes, and a state directory may be anywhere.
    return f"/proc/self/fd/{directory}/{SOCKET}"


def _rename_new(hidden: str, path: str) -> None:
    # rename(2) replaces an empty directory but never one with a journal in it: ENOTEMPTY, or EEXIST.
    os.rename(hidden, path)


def write_whole(fd: int, data: bytes, offset: int) -> None:
    """Write all of it there. OSError: also when only a part had room."""
    if os.pwrite(fd, data, offset) != len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
