"""A run's directory: make it atomically, tell whether its guard is alive, connect to the guard.

Making a directory. The launcher fills `runs/.new-RUN_ID` and renames it when the journal has its beginning and its
lock. So a directory in `runs` always holds a journal with the run's spec.

Alive or not. The guard locks the journal's first byte for as long as it lives. The launcher locks the second byte, on
the open file that the guard inherits. The guaranteed order is: launcher's lock, rename, guard started, guard's lock,
first fact of the guard. So a journal without a guard's fact is "starting" while the second byte is locked. In every
other case only the first byte counts: it is free exactly when the guard is gone.
"""

from __future__ import annotations

import errno
import os
from _socket import AF_UNIX, SOCK_CLOEXEC, SOCK_SEQPACKET, socket

from ..values.errors import RunExistsError
from ..values.fast_imports import TYPE_CHECKING, NamedTuple
from .byte_lock import is_locked, lock
from .directory import StateDirectory, state_error
from .owned_files import create_in, open_directory

if TYPE_CHECKING:
    from ..values.errors import HoldfastError

JOURNAL = "journal"
SOCKET = "guard.sock"
_BEFORE_THE_START = (JOURNAL, SOCKET, "heartbeat")  # every file that a run directory can hold before its guard starts
_GUARD_BYTE, _LAUNCHER_BYTE = 0, 1


class PreparedDirectory(NamedTuple):
    """A new run directory, with the descriptors that its guard inherits. The launcher closes it."""

    path: str
    journal: int  # writable, and carries the launcher's lock: closed as soon as the guard has inherited it
    listener: socket
    directory: int

    def close(self) -> None:
        """Close all descriptors."""
        os.close(self.journal)
        self.listener.close()
        os.close(self.directory)


def prepare(state: StateDirectory, run_id: str, beginning: bytes) -> PreparedDirectory:
    """Make the directory of a run that is about to start.

    RunExistsError: the id is taken. StateError: the directory cannot be written. After an error nothing is left of the
    run, or the error names what could not be removed.
    """
    path, hidden = state.run_path(run_id), state.hidden_path(run_id, "new")
    opened: list[int] = []
    listener = None
    try:
        directory = _make_directory(hidden)
        opened.append(directory)
        journal = create_in(directory, JOURNAL, os.O_RDWR)
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
        if opened:  # else another process is making this very run, and the directory is its own
            take_back(state, run_id, hidden, taken, unmark=False)  # the mark belongs to the run that has the id
        raise taken from None
    return PreparedDirectory(path, journal, listener, directory)


def prepare_copy(state: StateDirectory, run_id: str, data: bytes) -> None:
    """Make the directory of a run whose guard is on another host, with the beginning of its journal. As `prepare`."""
    prepared = prepare(state, run_id, data)
    try:
        os.unlink(SOCKET, dir_fd=prepared.directory)  # no guard will ever listen there
    except OSError as error:
        raise state_error(error, prepared.path, run_id) from None
    finally:
        prepared.close()


def _make_directory(path: str) -> int:
    runs = open_directory(os.path.dirname(path))
    try:
        os.mkdir(name := os.path.basename(path), 0o700, dir_fd=runs)
        return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=runs)
    finally:
        os.close(runs)


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
    """Remove a run that was prepared and never started. OSError: it cannot be removed."""
    remove(state.run_path(run_id))
    state.unmark_live(run_id)


def remove(path: str) -> int:
    """Remove a run directory and its content; returns the bytes freed, 0 when it is missing. OSError: part is left."""
    freed = 0
    try:
        for name in _names_in(path):
            inner = os.path.join(path, name)
            try:
                freed += os.lstat(inner).st_blocks * 512
                os.unlink(inner)
            except FileNotFoundError:
                continue  # another process removes the same run, and counts the bytes of this file
            except (IsADirectoryError, PermissionError):
                if not os.path.isdir(inner):
                    raise
                freed += remove(inner)  # a directory, which Holdfast did not make
        os.rmdir(path)
    except FileNotFoundError:
        pass
    return freed


def _names_in(path: str) -> tuple[str, ...] | list[str]:
    """List the names of the files in a run directory.

    When no descriptor is free to list it, return all names that it can hold before its guard starts.
    """
    try:
        return os.listdir(path)
    except OSError as error:
        if error.errno not in (errno.EMFILE, errno.ENFILE):
            raise
        # Listing a directory needs a descriptor, removing a file by its name does not. A start that fails for want of
        # descriptors can so be taken back.
        return _BEFORE_THE_START


def disk_bytes(path: str) -> int:
    """The bytes that a run directory takes on disk. Files, or the whole directory, may disappear meanwhile."""
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
    """Open the journal in this run directory. OSError: it is not there."""
    return os.open(os.path.join(path, JOURNAL), (os.O_RDWR if write else os.O_RDONLY) | os.O_CLOEXEC)


def guard_state(journal: int, *, has_facts: bool) -> str:
    """The state of the guard: `alive`, `starting` or `gone`. `has_facts`: a read *before* this call found a fact."""
    if is_locked(journal, _GUARD_BYTE):
        return "alive"
    return "starting" if is_starting(journal, has_facts=has_facts) else "gone"


def is_starting(journal: int, *, has_facts: bool) -> bool:
    """Whether a launcher, or the guard it has just started, has yet to write the first fact."""
    return not has_facts and is_locked(journal, _LAUNCHER_BYTE)


def take_over(journal: int) -> bool:
    """Take the guard's lock until this (writable) descriptor is closed; False while another process has it."""
    return lock(journal, _GUARD_BYTE)


def drop_socket(path: str) -> bool:
    """Remove the socket of an ended run whose guard did not remove it; False while the guard is still exiting.

    A guard writes the end of its run, and then removes its socket. If it is killed in between, the socket stays.
    """
    name = os.path.join(path, SOCKET)
    if not os.path.lexists(name):
        return True
    try:
        journal = open_journal(path)
    except OSError:
        return True  # the run is being removed, with its socket
    try:
        if is_locked(journal, _GUARD_BYTE):
            return False
        os.unlink(name)
    except OSError:
        pass  # another process was faster; or the socket is another user's, and the doctor reports it
    finally:
        os.close(journal)
    return True


def connect(path: str) -> socket:
    """Connect to the run's guard. OSError: no guard listens there."""
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    connection = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC)
    try:
        connection.setblocking(False)  # a stopped guard accepts nothing, and its queue may be full: EAGAIN
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
    """Write all of `data` at this offset. OSError, also when only a part of it had room."""
    if os.pwrite(fd, data, offset) != len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
