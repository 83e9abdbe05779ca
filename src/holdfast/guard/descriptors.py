"""The descriptors of one launch: what the guard gets under fixed numbers, and what its owner keeps.

Theory of operation. The guard expects fixed numbers (0, 3 to 14). `posix_spawn` runs its file actions in order in the
child. A `dup2` onto a number that is the source of a later `dup2` would destroy that source; a `dup2` of a descriptor
onto its own number does nothing at all and leaves close-on-exec set. Neither can happen when no source is below
FIRST_FREE, so every descriptor that is handed over is moved up there first (`_move_up`, one fcntl; in a program with
many open files it is there already). All of ours are close-on-exec: the guard gets only what the actions name. If the
embedding program made other descriptors inheritable, the guard closes them before it starts the command.
"""

from __future__ import annotations

import errno
import os
import sys

# The socket module builds enums for every constant there is: 8 ms. Its C half has all that is needed here.
from _socket import AF_UNIX, SCM_RIGHTS, SOCK_CLOEXEC, SOCK_SEQPACKET, SOL_SOCKET, socketpair
from fcntl import F_DUPFD_CLOEXEC, fcntl

from ..journal.beginning import beginning
from ..values.errors import RESOURCE_ERRNOS, SpecError
from ..values.fast_imports import TYPE_CHECKING, NamedTuple
from ..values.fields import CAPTURE
from ..values.identity import read_identity
from .spec_frames import encode_entry, keeps_input

if TYPE_CHECKING:
    from _socket import socket
    from typing import Any

    from ..values.entry import Entry
    from ..values.spec import RunSpec

FD_STDIN, FD_JOURNAL, FD_CONTROL, FD_SPEC, FD_INPUT, FD_LISTEN, FD_DIRECTORY, FD_HEARTBEAT = 0, 3, 4, 5, 6, 7, 8, 9
FD_STDOUT, FD_STDERR = 10, 11  # the command's own, if the owner gives them
FD_STARTER, FD_SESSION, FD_ENTRY, FIRST_FREE = 12, 13, 14, 15
WORKING_DIRECTORY = -1  # ours, for a guard that is used again: it has no number of its own there


class DurableFiles(NamedTuple):
    """The open files of a run directory whose journal has its beginning. The descriptors stay the caller's."""

    path: str
    journal: int
    listener: int
    directory: int
    session: int = -1  # the table of what the session uses; -1: the session has no budget


class OpenedJournal(NamedTuple):
    """Our own reading side of a journal that a guard is about to write."""

    fd: int
    trusted: int  # we wrote the journal up to this offset ourselves
    beginning: bytes  # the bytes up to `trusted`, for a journal in memory; empty for a file


class GuardDescriptors:
    """The open descriptors of one launch. After a success we keep `ours`; `theirs` are only for the guard.

    OSError from every method that opens something. SpecError: the file for stdin cannot be opened.
    """

    __slots__ = ("actions", "given", "ours", "theirs")

    def __init__(self) -> None:
        self.ours: list[int] = []
        self.theirs: list[int] = []
        self.given: dict[int, int] = {}  # what the guard gets, by the number under which it gets it
        # The guard may outlive the embedding program and must not hold its output open.
        self.actions: list[tuple[Any, ...]] = [
            (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_RDWR, 0),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ]

    def open_journal(self, spec: RunSpec, files: DurableFiles | None) -> OpenedJournal:
        """Make a journal in memory with its beginning, or open the one in the run directory."""
        if files is None:
            journal = self._keep(_memory_file("holdfast-journal"))
            begun = beginning(spec)
            written = os.pwrite(journal, begun, 0)
            self._share(journal, FD_JOURNAL)
            return OpenedJournal(journal, written, begun)
        self._share(files.journal, FD_JOURNAL)
        self._share(files.listener, FD_LISTEN)
        self._share(files.directory, FD_DIRECTORY)
        if files.session >= 0:
            self._share(files.session, FD_SESSION)
        # Opened again, because the open file of `files.journal` carries the launcher's lock: if we kept a descriptor of
        # it, the lock would outlive the guard.
        journal = self._keep(os.open(os.path.join(files.path, "journal"), os.O_RDONLY | os.O_CLOEXEC))
        return OpenedJournal(journal, os.fstat(journal).st_size, b"")

    def open_stdin(self, spec: RunSpec, window_size: tuple[int, int] | None) -> int | None:
        """Prepare the command's stdin; returns our own writing end, or None when we cannot write to it."""
        if spec.pty:
            return self._open_terminal(window_size)
        if spec.stdin == "pipe":
            reading, writing = os.pipe2(os.O_CLOEXEC)
            self._keep(writing)
            self._give(reading, FD_STDIN)
            os.set_blocking(writing, False)  # this end only: each end of a pipe has its own flags
            if keeps_input(spec):
                self._share(writing, FD_INPUT)
            return writing
        if spec.stdin == "null":
            self.actions.append((os.POSIX_SPAWN_DUP2, 1, FD_STDIN))
        else:
            self._give(_open_source(spec), FD_STDIN)
        return None

    def give_output(self, spec: RunSpec) -> None:
        """Hand over the descriptors of ours that become the command's stdout and stderr. SpecError: one is closed."""
        if spec.stdout != CAPTURE:
            self._give(_duplicate(spec.stdout, 1, "stdout", spec), FD_STDOUT)
        if spec.stderr != CAPTURE:
            self._give(_duplicate(spec.stderr, 2, "stderr", spec), FD_STDERR)

    def _open_terminal(self, window_size: tuple[int, int] | None) -> int:
        master, slave = os.openpty()
        self._keep(master)
        self._give(slave, FD_STDIN)
        # We and the guard share one open file description of the master, so it is non-blocking for the guard, too.
        os.set_blocking(master, False)
        if window_size is not None:
            set_window_size(master, *window_size)
        self._share(master, FD_INPUT)
        return master

    def open_heartbeat(self, files: DurableFiles | None) -> tuple[int, str]:
        """Make the file that the command touches to show that it is not idle; returns it and its path for the command.

        A durable run has the file in its directory. Otherwise it is in memory, and its path leads through this process.
        """
        if files is None:
            fd = self._keep(_memory_file("holdfast-heartbeat"))
            path = f"/proc/{os.getpid()}/fd/{fd}"
        else:
            path = os.path.join(files.path, "heartbeat")
            fd = self._keep(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        self._share(fd, FD_HEARTBEAT)
        return fd, path

    def open_starter(self, spec: RunSpec) -> None:
        """Open the process with which the run ends, if there is one: the descriptor is readable when it is gone."""
        if spec.starter is not None:
            self._give(_open_process(*spec.starter), FD_STARTER)

    def open_entry(self, entry: Entry) -> int:
        """Send the entry of the run to its child; returns our end, which the child answers on."""
        ours, theirs = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC)
        self._give(theirs.detach(), FD_ENTRY)
        rights = b"".join([fd.to_bytes(4, sys.byteorder) for fd in entry.passed])
        ours.sendmsg([encode_entry(entry)], [(SOL_SOCKET, SCM_RIGHTS, rights)] if rights else [])
        return self._keep(ours.detach())

    def open_directory(self, spec: RunSpec) -> None:
        """Open our working directory for a guard that is in another, unless the spec names one that needs no start."""
        if spec.cwd is None or not spec.cwd.startswith("/"):
            self.given[WORKING_DIRECTORY] = fd = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            self.theirs.append(fd)

    def put_spec(self, frames: bytes) -> None:
        """Write the spec where the guard reads it."""
        os.write(self._give(_memory_file("holdfast-spec"), FD_SPEC), frames)

    def open_control(self) -> socket:
        """Make the control socket; returns our end, which the caller closes."""
        ours, theirs = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC)
        try:
            self._give(theirs.detach(), FD_CONTROL)
        except BaseException:
            ours.close()
            raise
        return ours

    def _keep(self, fd: int) -> int:
        self.ours.append(fd)
        return fd

    def _give(self, fd: int, target: int) -> int:
        """Hand over a descriptor that is only for the guard: it is closed on our side in any case."""
        self.theirs.append(fd)
        return self._share(fd, target)

    def _share(self, fd: int, target: int) -> int:
        """Hand over a descriptor that we keep as well."""
        if fd < FIRST_FREE:
            fd = _move_up(fd)
            self.theirs.append(fd)
        self.actions.append((os.POSIX_SPAWN_DUP2, fd, target))
        self.given[target] = fd
        return fd

    def close_ours(self) -> None:
        """Close the descriptors that we would keep, after a failed launch."""
        while self.ours:
            os.close(self.ours.pop())

    def close_theirs(self) -> None:
        """Close the descriptors that were only for the guard. A second call does nothing."""
        while self.theirs:
            os.close(self.theirs.pop())


def set_window_size(terminal: int, rows: int, columns: int) -> None:
    """Tell a terminal how large it is; its foreground processes get SIGWINCH. OSError when it is gone."""
    import termios
    from fcntl import ioctl

    ioctl(terminal, termios.TIOCSWINSZ, rows.to_bytes(2, "little") + columns.to_bytes(2, "little") + bytes(4))


def _memory_file(name: str) -> int:
    return os.memfd_create(name, os.MFD_CLOEXEC)


def _move_up(fd: int) -> int:
    try:
        return fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FREE)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        # The kernel says EINVAL when the limit of descriptors is not even above FIRST_FREE.
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE)) from None


def _duplicate(source: str | int, inherited: int, field: str, spec: RunSpec) -> int:
    """Duplicate a descriptor of ours for the command: `source`, or `inherited`. SpecError: it is closed."""
    try:
        return _move_up(inherited if isinstance(source, str) else source)
    except OSError as error:
        if error.errno != errno.EBADF:
            raise
    if isinstance(source, int):
        what, remedy = f"{field} is the descriptor {source}, which is not open", "pass a descriptor that is open"
    else:
        other = "'null' or a file" if field == "stdin" else "'capture'"
        what, remedy = f"{field} is closed", f"this program has no {field}: use {other}"
    raise SpecError(what, field=field, run_id=spec.run_id, remedy=remedy)


def _open_process(pid: int, start_ticks: int) -> int:
    """A pidfd of this process, or a pipe at its end when the process is gone: both are then readable."""
    try:
        fd = os.pidfd_open(pid) if pid > 0 else -1
    except ProcessLookupError:
        fd = -1
    if fd >= 0:
        # Opened first: so the descriptor means the process whose start time we read.
        identity = read_identity(pid)
        if identity is None or start_ticks in (0, identity.start_ticks):
            return fd
        os.close(fd)
    gone, writing = os.pipe2(os.O_CLOEXEC)
    os.close(writing)
    return gone


def _open_source(spec: RunSpec) -> int:
    """Open what the command reads: a descriptor of ours, or a file; a relative path counts from our directory."""
    if spec.stdin == "inherit" or isinstance(spec.stdin, int):
        return _duplicate(spec.stdin, 0, "stdin", spec)
    try:
        # Non-blocking only to open it: a FIFO that nobody writes to yet must not hold up the caller.
        fd = os.open(spec.stdin, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK)
        os.set_blocking(fd, True)
        return fd
    except OSError as error:
        if error.errno in RESOURCE_ERRNOS:
            raise
        message = f"stdin cannot be read from {spec.stdin!r}: {error.strerror}"
        remedy = "name a file that can be read, or use 'null'"
        raise SpecError(message, field="stdin", errno=error.errno, run_id=spec.run_id, remedy=remedy) from None
