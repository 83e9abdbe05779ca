"""Runs with a directory, for tests: real ones under a real guard, and journals made by hand."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

from holdfast.guard import packets
from holdfast.guard.leftovers import clean_up
from holdfast.guard.processes import guard_of
from holdfast.journal.beginning import beginning
from holdfast.journal.codec import encode, encode_fact, journal_preamble
from holdfast.journal.facts import OUTPUT
from holdfast.journal.reader import JournalReader
from holdfast.outcome import decide
from holdfast.runs.durable import launch_durable
from holdfast.state import run_directory
from holdfast.state.record import RunRecord
from holdfast.values.identity import boot_id
from holdfast.values.spec import make_spec

from .processes import kill_both, stop_both
from .readiness import is_ready, names_in

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType
    from typing import Self

    from holdfast.state.directory import StateDirectory

BOUND_S = 60.0
USAGE = {"user_us": 1, "system_us": 2, "max_rss_kib": 3}
_LOCKS = """
import fcntl, os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
fcntl.lockf(fd, fcntl.LOCK_EX, 1, int(sys.argv[2]), 0)
print("ready", flush=True)
sys.stdin.read()
"""


class DurableRun:
    """A real run in a state directory, started by this process. On leaving, its guard is gone, and reaped."""

    def __init__(self, state: StateDirectory, argv: Sequence[str], **options: Any) -> None:
        options.setdefault("lifetime", "detached")
        self.state = state
        self.spec = make_spec(argv, **options)
        self.run_id = self.spec.run_id
        self.handle = launch_durable(state, self.spec)
        self._guard_pid = 0

    def let_go(self) -> None:
        """Close everything as a dying owner does: only the guard is left."""
        self.handle.control.close()

    def record(self) -> RunRecord:
        """The record as it is now; the caller closes it."""
        return RunRecord(self.state, self.run_id).read()

    def record_path(self) -> str:
        """The run's directory."""
        return self.state.run_path(self.run_id)

    def until_ready(self) -> dict[str, int]:
        """Wait for the command's ready line."""
        reader, seen = JournalReader(self.handle.journal), b""
        end = time.monotonic() + BOUND_S
        while not is_ready(seen):
            self.handle.control.send(packets.read(0, reader.position))  # armed, then read, then waited: see there
            seen += b"".join(chunk.data for chunk in reader.read())
            if not is_ready(seen):
                self._poll(end)
                assert self.handle.control.recv(packets.PACKET_MAX), f"ended before it was ready: {seen!r}"
        return names_in(seen)

    def until_ended(self) -> None:
        """Wait until the guard has written its end and is gone."""
        end = time.monotonic() + BOUND_S
        if self.handle.pidfd >= 0:
            self._poll(end, self.handle.pidfd)

    def kill_guard(self) -> None:
        """SIGKILL the sentinel and the guard at once, and wait until it has happened."""
        kill_both(self.handle.sentinel_pid, self.guard_pid)

    def stop_guard(self) -> None:
        """SIGSTOP the sentinel and the guard; returns when both stand still."""
        stop_both(self.handle.sentinel_pid, self.guard_pid)

    @property
    def guard_pid(self) -> int:
        """The guard's PID, also when it is gone. Waits until the sentinel has forked it."""
        end = time.monotonic() + BOUND_S
        while not self._guard_pid and time.monotonic() < end:
            self._guard_pid = guard_of(self.handle.sentinel_pid)
        return self._guard_pid

    def _poll(self, end: float, fd: int | None = None) -> None:
        poll = select.poll()
        poll.register(self.handle.control.fileno() if fd is None else fd, select.POLLIN)
        if not poll.poll(max(0.0, end - time.monotonic()) * 1000):
            raise AssertionError(f"nothing happened within {BOUND_S} s")

    def _clean_up(self) -> None:
        """End the processes that a killed guard leaves; its record stays as it is."""
        reader = JournalReader(self.handle.journal)
        reader.scan()
        started = decide(reader.facts).started
        if not reader.ended and started is not None:
            clean_up(self.run_id, started.detail["cgroup"], has_run=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        handle = self.handle
        kill_both(handle.sentinel_pid, guard_of(handle.sentinel_pid))
        os.waitid(os.P_PIDFD, handle.pidfd, os.WEXITED)
        self._clean_up()
        handle.control.close()
        for fd in (handle.journal, handle.pidfd, handle.input, handle.heartbeat):
            if fd is not None:
                os.close(fd)


def run_to_end(state: StateDirectory, argv: Sequence[str] = ("/bin/true",), **options: Any) -> str:
    """A real run from its start to its end; returns its id. It is still marked live: nobody has looked yet."""
    with DurableRun(state, argv, **options) as run:
        run.until_ended()
        return run.run_id


class HeldLock:
    """Another process that holds the lock of a guard (byte 0) or a launcher (byte 1) on a journal."""

    def __init__(self, path: str, byte: int = 0) -> None:
        self.argv = [sys.executable, "-c", _LOCKS, os.path.join(path, run_directory.JOURNAL), str(byte)]

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(self.argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"ready\n"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.communicate()


def facts_of_success(at_ns: int) -> list[tuple[str, dict[str, Any]]]:
    """The facts in the journal of /bin/true after its beginning."""
    del at_ns
    counts = {"stdout_bytes": 5, "stderr_bytes": 0, "late_bytes": 0, "dropped_bytes": 0}
    return [
        ("started", {"pid": 4_000_001, "guard_pid": 4_000_000, "start_ticks": 1, "containment": "subreaper"}),
        ("exited", {"wait_status": 0, **USAGE}),
        ("tree", {"how": "gone", "count": 0}),
        ("drained", {"how": "eof", **counts}),
        ("end", USAGE),
    ]


def journal_bytes(
    run_id: str,
    facts: Sequence[tuple[str, dict[str, Any]]] | None = None,
    *,
    begun_ns: int | None = None,
    boot: str | None = None,
    spec: bytes = b'{"argv": ["/bin/true"]}',
) -> bytes:
    """A journal made by hand; without given facts, of a success with five bytes of output."""
    at_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    wall_ns = time.time_ns() if begun_ns is None else begun_ns
    data = journal_preamble(run_id, boot or boot_id() or "unknown", wall_ns, at_ns, spec)
    for number, (kind, detail) in enumerate(facts_of_success(at_ns) if facts is None else facts):
        data += encode_fact(kind, detail, at_ns=at_ns + number * 1_000_000)
        if kind == "started":
            data += encode(OUTPUT, b"hello", at_ns=at_ns, stream=1)
    return data


def put_run(state: StateDirectory, run_id: str, journal: bytes | None = None, *, live: bool = True) -> str:
    """A run directory made by hand; returns its path."""
    path = state.run_path(run_id)
    os.mkdir(path, 0o700)
    with open(os.path.join(path, run_directory.JOURNAL), "wb") as file:
        file.write(journal_bytes(run_id) if journal is None else journal)
    if live:
        state.mark_live(run_id)
    return path


def prepared(state: StateDirectory, run_id: str) -> None:
    """A run directory as a launcher leaves it that dies before it has started the guard."""
    spec = make_spec(["?"], run_id=run_id, lifetime="detached")
    run_directory.prepare(state, spec.run_id, beginning(spec)).close()
