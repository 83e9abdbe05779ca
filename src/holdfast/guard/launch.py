"""Launching a guard for a run: prepare its descriptors, then one `posix_spawn`; or give the run to an idle guard.

Races. A fork of the embedding program between here and the end of the run keeps a copy of the control socket open, so
the guard would not see end of file when we die. Therefore the guard watches `owner_pid` as well. An exception after the
spawn (Ctrl-C, no memory for the handle) asks the guard to end at once and waits until it is gone, because the caller
has nothing to ask with.
"""

from __future__ import annotations

import errno
import os
import select
import sys
from _socket import MSG_DONTWAIT, MSG_NOSIGNAL, SCM_RIGHTS, SHUT_WR, SOL_SOCKET

from ..values.errors import RESOURCE_ERRNOS, ResourceError
from ..values.fast_imports import TYPE_CHECKING, NamedTuple
from . import containment, spec_frames
from .binary import cannot_start, guard_path
from .descriptors import (
    FD_HEARTBEAT,
    FD_JOURNAL,
    FD_STDERR,
    FD_STDIN,
    FD_STDOUT,
    WORKING_DIRECTORY,
    GuardDescriptors,
)
from .packets import NEXT_RUN_ID_MAX, NEXT_SPEC_MAX, next_run, stop

if TYPE_CHECKING:
    from _socket import socket
    from typing import NoReturn

    from ..values.entry import Entry
    from ..values.spec import RunSpec
    from .descriptors import DurableFiles
    from .inherited_state import InheritedState
    from .pool import GuardPool, PooledGuard

# What an idle guard gets for its next run.
_NEXT_DESCRIPTORS = (FD_JOURNAL, FD_STDIN, FD_HEARTBEAT, FD_STDOUT, FD_STDERR, WORKING_DIRECTORY)
_ENDS_WITHIN_MS = 30_000
_ROOM_FOR_AN_ID = " " * NEXT_RUN_ID_MAX  # where a guard that is used again shows which run it keeps

# The guard waits for these signals, so they must not be ignored. It resets the dispositions of the command itself.
_GUARD_SIGNALS = (1, 2, 15, 17)  # SIGHUP, SIGINT, SIGTERM, SIGCHLD
_HELD_SIGNALS = (1, 2, 15)  # blocked from its first instruction on: they are requests to a guard and never kill it


class GuardHandle(NamedTuple):
    """A started guard, as its owner sees it. The owner closes all descriptors."""

    control: socket
    journal: int
    pidfd: int  # of the sentinel
    sentinel_pid: int
    input: int | None
    heartbeat: int | None
    trusted: int  # we wrote the journal up to this offset ourselves
    beginning: bytes  # the bytes up to `trusted`, for a journal in memory; empty for a file
    first_run: str  # the first run of this guard, which gave its cgroup the name
    entry: int | None = None  # readable when the command is executed, or is not: see `Entry`
    inherited_state: InheritedState | None = None  # of this process, before it started a guard that can be used again


def launch(
    spec: RunSpec,
    *,
    wake_output: bool = False,
    window_bytes: int = 0,
    window_size: tuple[int, int] | None = None,
    files: DurableFiles | None = None,
    pool: GuardPool | None = None,
    entry: Entry | None = None,
) -> GuardHandle:
    """Start a guard for this spec and return without waiting for anything it does.

    Without the `files` of a run directory the journal is in memory. SpecError: stdin's file cannot be opened,
    or a descriptor that the spec names is closed. GuardError: there is no guard to start. ResourceError: no
    descriptors, processes or memory. In each case nothing is left: no descriptor, no process.

    With a `pool`, an idle guard of the pool gets the run if possible. Otherwise a new guard is started that can be used
    again. A run with an `entry` needs a new guard.
    """
    launching = _Launching(spec, files, pool, entry)
    try:
        return launching.run(wake_output, window_bytes, window_size)
    except OSError as error:
        launching.abandon()
        _raise_typed(error, spec)
    except BaseException:
        launching.abandon()
        raise
    finally:
        launching.descriptors.close_theirs()


class _Launching:
    """One launch, and what it has started so far."""

    __slots__ = ("control", "descriptors", "entry", "files", "pool", "sentinel_pid", "spec")

    def __init__(self, spec: RunSpec, files: DurableFiles | None, pool: GuardPool | None, entry: Entry | None) -> None:
        self.spec = spec
        self.entry = entry
        self.files = files
        self.pool = pool
        self.descriptors = GuardDescriptors()
        self.control: socket | None = None
        self.sentinel_pid = 0

    def run(self, wake_output: bool, window_bytes: int, window_size: tuple[int, int] | None) -> GuardHandle:
        spec, descriptors = self.spec, self.descriptors
        journal = descriptors.open_journal(spec, self.files)
        heartbeat, heartbeat_path = None, None
        if "heartbeat" in spec.idle_counts:
            heartbeat, heartbeat_path = descriptors.open_heartbeat(self.files)

        def encode() -> bytes:
            return spec_frames.encode_spec(
                spec,
                containment.probe(),
                wake_output=wake_output,
                window_bytes=window_bytes,
                heartbeat=heartbeat_path,
                listens=self.files is not None,
                again=self.pool is not None,
                in_budget=self.files is not None and self.files.session >= 0,
                with_entry=self.entry is not None,
            )

        if self.pool is None:
            containment.forget_if_moved()
        frames = encode()
        descriptors.open_starter(spec)
        input_fd = descriptors.open_stdin(spec, window_size)
        descriptors.give_output(spec)
        entry = None if self.entry is None else descriptors.open_entry(self.entry)
        idle = None if self.pool is None else self.pool.take()
        if idle is not None and self.pool is not None and self._hand_to(idle, frames, self.pool):
            descriptors.close_theirs()
            return GuardHandle(
                idle.control,
                journal.fd,
                idle.pidfd,
                idle.sentinel_pid,
                input_fd,
                heartbeat,
                *journal[1:],
                idle.first_run,
            )
        # Before the spawn: after it, this process may have changed.
        inherited_state = None if self.pool is None else self.pool.read_inherited_state()
        if self.pool is not None and self.pool.is_of_another(inherited_state) and containment.forget_if_moved():
            frames = encode()
        descriptors.put_spec(frames)
        self.control = control = descriptors.open_control()
        self._spawn()
        descriptors.close_theirs()  # before `_pidfd` needs a descriptor: perhaps no other is free
        return GuardHandle(
            control,
            journal.fd,
            _pidfd(self.sentinel_pid),
            self.sentinel_pid,
            input_fd,
            heartbeat,
            *journal[1:],
            spec.run_id,
            entry,
            inherited_state,
        )

    def _spawn(self) -> None:
        keeps_more = self.pool is not None or self.spec.stragglers == "session"
        words = [_ROOM_FOR_AN_ID] if keeps_more else []
        self.sentinel_pid = os.posix_spawn(
            guard_path(),
            ["holdfast-guard", self.spec.run_id, *words],
            {},  # the command's environment travels in the spec; the guard needs none
            file_actions=self.descriptors.actions,
            setsid=True,
            setsigmask=_HELD_SIGNALS,
            setsigdef=_GUARD_SIGNALS,
        )

    def _hand_to(self, guard: PooledGuard, frames: bytes, pool: GuardPool) -> bool:
        """Give the run to an idle guard; False when the guard cannot take it, has started nothing and is gone."""
        given, coming, bits = self.descriptors.given, bytearray(), 0
        # Whatever interrupts us from here on, `abandon` ends the guard: by then it may have started the run.
        self.control, self.sentinel_pid = guard.control, guard.sentinel_pid
        self.descriptors.ours.append(guard.pidfd)
        try:
            if len(frames) > NEXT_SPEC_MAX:
                raise OSError(errno.EMSGSIZE, os.strerror(errno.EMSGSIZE))
            self.descriptors.open_directory(self.spec)
            for bit, number in enumerate(_NEXT_DESCRIPTORS):
                if number in given:
                    bits |= 1 << bit
                    coming += given[number].to_bytes(4, sys.byteorder)
            rights = (SOL_SOCKET, SCM_RIGHTS, coming)
            if pool.is_current:
                guard.control.sendmsg([next_run(frames, bits)], [rights], MSG_DONTWAIT | MSG_NOSIGNAL)
                return True
        except OSError:
            pass  # the guard is gone after all, the spec is too long for a packet, or our directory is closed to us
        self.control, self.sentinel_pid = None, 0
        self.descriptors.ours.pop()
        guard.end()
        return False

    def abandon(self) -> None:
        """Undo the launch: close everything, and end the guard if there is one."""
        self.descriptors.close_ours()
        self.descriptors.close_theirs()
        if self.control is not None:
            self._end_guard(self.control)

    def _end_guard(self, control: socket) -> None:
        """End a guard that nobody will look after. If none was started, there is nothing to wait for."""
        try:
            # If the spawn itself was interrupted, we do not know the guard's PID. The guard still finds this request
            # when it first looks.
            control.send(stop(0, "user", "interrupted while it was started", now=True), MSG_DONTWAIT | MSG_NOSIGNAL)
            control.shutdown(SHUT_WR)  # so that the guard does not wait for another run
            gone = select.poll()
            gone.register(control.fileno(), 0)  # hang-up only: what the guard says does not matter
            if not gone.poll(_ENDS_WITHIN_MS) and self.sentinel_pid:
                self._kill()
        except OSError:
            pass  # the guard is gone, or was not started
        finally:
            control.close()
        if self.sentinel_pid:
            try:
                os.waitpid(self.sentinel_pid, 0)
            except ChildProcessError:
                pass  # a waitpid(-1) of the embedding program was faster

    def _kill(self) -> None:
        """Kill a guard that does not react. The sentinel is our child and not reaped, so its number is its own."""
        from .processes import kill_both  # here, because it is seldom needed

        pidfd = os.pidfd_open(self.sentinel_pid)
        kill_both(pidfd, self.sentinel_pid, 0, self.spec.run_id)
        os.close(pidfd)


def _pidfd(pid: int) -> int:
    # The sentinel is our child and nobody has waited for it, so the PID is still its own. If a waitpid(-1) of the
    # embedding program was faster, there is nothing to reap and nothing to hold: -1.
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return -1


def _raise_typed(error: OSError, spec: RunSpec) -> NoReturn:
    if error.errno in RESOURCE_ERRNOS:
        raise ResourceError.from_os_error(error, doing="start a guard", run_id=spec.run_id) from None
    raise cannot_start(error, spec.run_id) from None
