"""Starting a guard: everything it needs is prepared, then one `posix_spawn`, then nothing of it is left on our side.

Descriptors. The guard expects fixed numbers (0, 3 to 9). `posix_spawn` file actions run in order in the child, so a
`dup2` onto a number that is itself the source of a later one would destroy it, and a `dup2` of a descriptor onto its
own number does nothing at all, leaving close-on-exec set. Both cannot happen when no source is below FIRST_FREE: every
descriptor that is handed over is moved up there first (`_raise`, one fcntl; in a busy program it is there already).
All of ours are close-on-exec, so what the actions do not name, the guard does not get; what the embedding program made
inheritable by hand, the guard closes before it starts the command.

Races. A fork of the embedding program between here and the end of the run keeps a copy of the control socket open, so
the guard would not see end of file when we die: it watches `owner_pid` besides. An exception after the spawn (Ctrl-C,
no memory for the handle) asks the guard for the end at once and waits until it is gone, because the caller has nothing
to ask with.
"""

from __future__ import annotations

import errno
import os
import select
import sys

# The socket module builds enums for every constant there is: 8 ms. Its C half has all that is needed here.
from _socket import (
    AF_UNIX,
    MSG_DONTWAIT,
    MSG_NOSIGNAL,
    SCM_RIGHTS,
    SHUT_WR,
    SOCK_CLOEXEC,
    SOCK_SEQPACKET,
    SOL_SOCKET,
    socketpair,
)
from fcntl import F_DUPFD_CLOEXEC, fcntl

from ..journal.beginning import beginning
from ..values.errors import RESOURCE_ERRNOS, ResourceError, SpecError
from ..values.fast_imports import TYPE_CHECKING, NamedTuple
from . import containment, spec_frames
from .binary import cannot_start, guard_path
from .packets import NEXT_SPEC_MAX, go, next_run, stop

if TYPE_CHECKING:
    from _socket import socket
    from typing import Any, NoReturn

    from ..values.spec import RunSpec
    from .inherited_state import Look
    from .pool import GuardPool, PooledGuard

FD_STDIN, FD_JOURNAL, FD_CONTROL, FD_SPEC, FD_INPUT, FD_LISTEN, FD_DIRECTORY, FD_HEARTBEAT = 0, 3, 4, 5, 6, 7, 8, 9
FIRST_FREE = 10
_NEXT_DESCRIPTORS = (FD_JOURNAL, FD_STDIN, FD_HEARTBEAT)  # what a guard that is used again gets, as far as there is any
_ENDS_WITHIN_MS = 30_000
LONGEST_RUN_ID = 20  # of a run that a used guard can show in its command line
_ROOM_FOR_AN_ID = " " * LONGEST_RUN_ID  # where a guard that is used again shows which run it keeps

# What the guard takes or waits for must not be ignored; the command's own dispositions the guard resets itself.
_GUARD_SIGNALS = (1, 2, 15, 17)  # SIGHUP, SIGINT, SIGTERM, SIGCHLD
_HELD_SIGNALS = (1, 2, 15)  # blocked from its first instruction on: to a guard they are requests, never its death


class Durable(NamedTuple):
    """A run directory made for this run: its journal has its beginning already. The descriptors stay the caller's."""

    path: str
    journal: int
    listener: int
    directory: int


class GuardHandle(NamedTuple):
    """A started guard, seen from its owner. Whoever holds it closes all of it."""

    control: socket
    journal: int
    pidfd: int
    pid: int
    input: int | None
    heartbeat: int | None
    trusted: int  # the journal up to here was written by us
    beginning: bytes  # and this is it, for a journal in memory
    first_run: str  # the first one this guard kept: its cgroup has that name
    look: Look | None = None  # of this process when it started a guard that can be used again, if that can be told


def launch(
    spec: RunSpec,
    *,
    wake_output: bool = False,
    window_bytes: int = 0,
    window_size: tuple[int, int] | None = None,
    durable: Durable | None = None,
    pool: GuardPool | None = None,
) -> GuardHandle:
    """Start a guard for this spec and return without waiting for anything it does.

    Without a `durable` directory the journal lives in memory. SpecError: stdin's file cannot be opened. GuardError:
    there is no guard to start. ResourceError: no descriptors, processes or memory. In each case nothing is left: no
    descriptor, no process.

    `pool`: one of its guards gets the run if it can have it, and a new guard goes there when it has ended this one.
    """
    launching = _Launching(spec, durable, again=pool is not None)
    try:
        return launching.run(wake_output, window_bytes, window_size, pool)
    except OSError as error:
        launching.abandon()
        _raise_typed(error, spec)
    except BaseException:
        launching.abandon()
        raise
    finally:
        launching.close_theirs()


class _Launching:
    """One launch: what is open belongs to us (`ours`, kept on success) or was only for the guard (`theirs`)."""

    __slots__ = ("actions", "again", "control", "durable", "given", "ours", "pid", "spec", "theirs")

    def __init__(self, spec: RunSpec, durable: Durable | None, *, again: bool) -> None:
        self.spec = spec
        self.again = again
        self.given: dict[int, int] = {}  # what the guard gets, by the number it has it under
        self.durable = durable
        self.ours: list[int] = []
        self.theirs: list[int] = []
        self.control: socket | None = None
        self.pid = 0
        # The guard may outlive the embedding program and must not hold its output open.
        self.actions: list[tuple[Any, ...]] = [
            (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_RDWR, 0),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ]

    def run(
        self,
        wake_output: bool,
        window_bytes: int,
        window_size: tuple[int, int] | None,
        pool: GuardPool | None,
    ) -> GuardHandle:
        spec = self.spec
        journal_fd, trusted, begun = self.open_journal()
        heartbeat = self.open_heartbeat()
        encoded = spec_frames.encode_spec(
            spec,
            containment.probe(),
            wake_output=wake_output,
            window_bytes=window_bytes,
            heartbeat=None if heartbeat is None else self.heartbeat_path(heartbeat),
            listens=self.durable is not None,
            again=self.again,
        )
        input_fd = self.open_stdin(window_size)
        if pool is not None and (used := pool.take()) is not None:
            if self.hand_to(used, encoded, pool):
                self.close_theirs()
                return GuardHandle(
                    used.control, journal_fd, used.pidfd, used.pid, input_fd, heartbeat, trusted, begun, used.first_run
                )
            os.ftruncate(journal_fd, trusted)  # without what it recorded of a run that it was not to start
        os.write(self.give(_memory_file("holdfast-spec"), FD_SPEC), encoded)
        control = self.open_control()
        look = _look() if self.again else None  # before: behind it, this process may have changed
        pid = self.pid = os.posix_spawn(
            guard_path(),
            ["holdfast-guard", spec.run_id, *([_ROOM_FOR_AN_ID] if self.again else [])],
            {},  # the command's environment travels in the spec; the guard needs none
            file_actions=self.actions,
            setsid=True,
            setsigmask=_HELD_SIGNALS,
            setsigdef=_GUARD_SIGNALS,
        )
        self.close_theirs()  # before the next descriptor is asked for, so that this one is not the one too many
        return GuardHandle(
            control, journal_fd, _pidfd(pid), pid, input_fd, heartbeat, trusted, begun, spec.run_id, look
        )

    def hand_to(self, guard: PooledGuard, spec: bytes, pool: GuardPool) -> bool:
        """Give the run to a guard that has none; False when it cannot have it: then it started nothing, and is gone.

        Whether it may have it, is looked at while it forks: it starts nothing before it is told so.
        """
        given, coming, bits = self.given, bytearray(), 0
        for bit, number in enumerate(_NEXT_DESCRIPTORS):
            if number in given:
                bits |= 1 << bit
                coming += given[number].to_bytes(4, sys.byteorder)
        # Whatever interrupts us from here on, `abandon` ends it: by then it may have started the run.
        self.control, self.pid = guard.control, guard.pid
        self.ours.append(guard.pidfd)
        try:
            if len(spec) > NEXT_SPEC_MAX:
                raise OSError(errno.EMSGSIZE, os.strerror(errno.EMSGSIZE))
            rights = (SOL_SOCKET, SCM_RIGHTS, coming)
            guard.control.sendmsg([next_run(spec, bits)], [rights], MSG_DONTWAIT | MSG_NOSIGNAL)
            if pool.is_current:
                guard.control.send(go(), MSG_DONTWAIT | MSG_NOSIGNAL)
                return True
        except OSError:
            pass  # it is gone after all, or the spec is too long for that
        self.control, self.pid = None, 0
        self.ours.pop()
        guard.end()
        return False

    def open_journal(self) -> tuple[int, int, bytes]:
        """Our own reading side, how long it is already, and what it begins with if it is in memory."""
        durable = self.durable
        if durable is None:
            journal = self.keep(_memory_file("holdfast-journal"))
            begun = beginning(self.spec)
            written = os.pwrite(journal, begun, 0)
            self.hand_over(journal, FD_JOURNAL)
            return journal, written, begun
        self.hand_over(durable.journal, FD_JOURNAL)
        self.hand_over(durable.listener, FD_LISTEN)
        self.hand_over(durable.directory, FD_DIRECTORY)
        # An open file of its own: the other one carries the launcher's lock and must be gone when the guard is.
        journal = self.keep(os.open(os.path.join(durable.path, "journal"), os.O_RDONLY | os.O_CLOEXEC))
        return journal, os.fstat(journal).st_size, b""

    def open_stdin(self, window_size: tuple[int, int] | None) -> int | None:
        """Prepare the command's stdin; returns our own writing end when there is one."""
        stdin = self.spec.stdin
        if self.spec.pty:
            return self.open_terminal(window_size)
        if stdin == "pipe":
            reading, writing = os.pipe2(os.O_CLOEXEC)
            self.keep(writing)
            self.give(reading, FD_STDIN)
            os.set_blocking(writing, False)  # this end only: each end of a pipe has its own flags
            if spec_frames.keeps_input(self.spec):
                self.hand_over(writing, FD_INPUT)
            return writing
        if stdin == "null":
            self.actions.append((os.POSIX_SPAWN_DUP2, 1, FD_STDIN))
        else:
            self.give(_open_source(self.spec), FD_STDIN)
        return None

    def open_terminal(self, window_size: tuple[int, int] | None) -> int:
        master, slave = os.openpty()
        self.keep(master)
        self.give(slave, FD_STDIN)
        # One open file description for both holders of the master: the guard finds it non-blocking, too.
        os.set_blocking(master, False)
        if window_size is not None:
            set_window_size(master, *window_size)
        self.hand_over(master, FD_INPUT)
        return master

    def open_heartbeat(self) -> int | None:
        """The file whose touching keeps the command from being idle: in the run directory, or in memory."""
        if "heartbeat" not in self.spec.idle_counts:
            return None
        if self.durable is None:
            fd = self.keep(_memory_file("holdfast-heartbeat"))
        else:
            fd = self.keep(os.open(self.heartbeat_path(-1), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        self.hand_over(fd, FD_HEARTBEAT)
        return fd

    def heartbeat_path(self, fd: int) -> str:
        """By which name the command finds it; the one in memory has a name only through us."""
        return f"/proc/{os.getpid()}/fd/{fd}" if self.durable is None else os.path.join(self.durable.path, "heartbeat")

    def open_control(self) -> socket:
        ours, theirs = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC)
        self.control = ours
        self.give(theirs.detach(), FD_CONTROL)
        return ours

    def keep(self, fd: int) -> int:
        self.ours.append(fd)
        return fd

    def give(self, fd: int, target: int) -> int:
        """A descriptor that is only for the guard: closed on our side in any case."""
        self.theirs.append(fd)
        if fd < FIRST_FREE:
            fd = _raise(fd)
            self.theirs.append(fd)
        self.actions.append((os.POSIX_SPAWN_DUP2, fd, target))
        self.given[target] = fd
        return fd

    def hand_over(self, fd: int, target: int) -> None:
        """A descriptor that we keep and the guard gets as well."""
        if fd < FIRST_FREE:
            fd = _raise(fd)
            self.theirs.append(fd)
        self.actions.append((os.POSIX_SPAWN_DUP2, fd, target))
        self.given[target] = fd

    def abandon(self) -> None:
        for fd in self.ours:
            os.close(fd)
        if self.control is not None:
            self.end_guard(self.control)

    def end_guard(self, control: socket) -> None:
        """End a guard that nobody will look after. If none was started, there is nothing to wait for."""
        self.close_theirs()
        try:
            # Interrupted in the very call, we do not know its number, but what we send is there when it looks.
            control.send(stop(0, "user", "interrupted while it was started", now=True), MSG_DONTWAIT | MSG_NOSIGNAL)
            control.shutdown(SHUT_WR)  # nor will there be another run, which it would wait for
            gone = select.poll()
            gone.register(control.fileno(), 0)  # only its end: the guard's words are of no interest
            if not gone.poll(_ENDS_WITHIN_MS) and self.pid:
                os.kill(self.pid, 9)  # it does not answer: ours and not reaped, so the number is its own
        except OSError:
            pass  # it is gone, or there was none
        finally:
            control.close()
        if self.pid:
            try:
                os.waitpid(self.pid, 0)
            except ChildProcessError:
                pass  # somebody else's waitpid(-1)

    def close_theirs(self) -> None:
        while self.theirs:
            os.close(self.theirs.pop())


def set_window_size(terminal: int, rows: int, columns: int) -> None:
    """Tell a terminal how large it is; its foreground processes get SIGWINCH. OSError when it is gone."""
    import termios
    from fcntl import ioctl

    ioctl(terminal, termios.TIOCSWINSZ, rows.to_bytes(2, "little") + columns.to_bytes(2, "little") + bytes(4))


def _look() -> Look | None:
    from .inherited_state import fingerprint  # here, because one run alone needs none of it

    return fingerprint()


def _pidfd(pid: int) -> int:
    # The guard is a child of ours that nobody has waited for, so the number is still its own. Should a foreign
    # waitpid(-1) have been faster, there is nothing to reap and nothing to hold: -1.
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return -1
    except OSError:
        os.kill(pid, 9)  # ours and not reaped, as said; what it has started dies by its parent-death signal
        os.waitpid(pid, 0)
        raise


def _memory_file(name: str) -> int:
    return os.memfd_create(name, os.MFD_CLOEXEC)


def _copy(fd: int) -> int:
    try:
        return fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FREE)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        # What the kernel says when the limit is not even above the number asked for.
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE)) from None


_raise = _copy


def _open_source(spec: RunSpec) -> int:
    """What the command reads: our own stdin, or a file; a relative path counts from our directory."""
    if spec.stdin == "inherit":
        try:
            return _copy(0)
        except OSError as error:
            if error.errno != errno.EBADF:
                raise
            remedy = "this program has no stdin: use 'null' or a file"
            raise SpecError("stdin is closed", field="stdin", run_id=spec.run_id, remedy=remedy) from None
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
        raise SpecError(message, field="stdin", run_id=spec.run_id, remedy=remedy) from None


def _raise_typed(error: OSError, spec: RunSpec) -> NoReturn:
    if error.errno in RESOURCE_ERRNOS:
        raise ResourceError.from_os_error(error, doing="start a guard", run_id=spec.run_id) from None
    raise cannot_start(error, spec.run_id) from None
