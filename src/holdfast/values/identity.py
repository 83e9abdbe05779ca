"""The identity of a process: PID, start time and boot. A PID alone is never an identity.

The kernel reuses PIDs, and after a reboot even PID and start time can both return; the three together never do. A
comparison has three answers: True, False, and None for "cannot be known" (no /proc, hidden processes, the /proc of
another PID namespace). Code that sends a signal acts on True only.
"""

from __future__ import annotations

import os

from .fast_imports import NamedTuple

_PF_EXITING = 0x4
_boot_id: str | None = None
_known_proc: tuple[int, bool] = (0, False)  # a PID of this program, and whether its numbers are those of /proc


class ProcessIdentity(NamedTuple):
    """One process of one boot; `boot_id` is None on a system without boot ids."""

    pid: int
    start_ticks: int
    boot_id: str | None


class _Stat(NamedTuple):
    state: str
    start_ticks: int


def boot_id() -> str | None:
    """The id of this boot, read once; None where the system has none."""
    global _boot_id
    if _boot_id is None:
        try:
            with open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as file:
                _boot_id = file.read().strip() or None
        except OSError:
            return None
    return _boot_id


def proc_is_ours() -> bool:
    """Whether /proc shows the PID namespace of this process. Otherwise its numbers name other processes than ours."""
    global _known_proc
    pid = os.getpid()
    if _known_proc[0] != pid:
        try:
            _known_proc = (pid, os.readlink("/proc/self") == str(pid))
        except OSError:
            return False
    return _known_proc[1]


def read_identity(pid: int) -> ProcessIdentity | None:
    """The identity of the process that has this PID now; None when no such process can be seen."""
    stat = _read_stat(pid)
    return None if stat is None else ProcessIdentity(pid, stat.start_ticks, boot_id())


def is_same(one: ProcessIdentity, other: ProcessIdentity) -> bool | None:
    """Whether two identities name the same process; None when a boot id is missing and the rest is equal."""
    if (one.pid, one.start_ticks) != (other.pid, other.start_ticks):
        return False
    if one.boot_id is None or other.boot_id is None:
        return None
    return one.boot_id == other.boot_id


def is_alive(identity: ProcessIdentity) -> bool | None:
    """Whether exactly this process still runs: True, False, or None when that cannot be known.

    A zombie is dead. A zombie with other threads is alive: its main thread has ended, and the process has not.
    """
    now = boot_id()
    if now is not None and identity.boot_id is not None and now != identity.boot_id:
        return False
    stat = _read_stat(identity.pid)
    if stat is None:
        return False if _is_absent(identity.pid) else None
    if stat.start_ticks != identity.start_ticks:
        return False
    if stat.state in "Xx" or (stat.state == "Z" and not _has_other_threads(identity.pid)):
        return False
    return True if now is not None and identity.boot_id is not None else None


def is_exiting(pid: int) -> bool | None:
    """Whether the process with this PID is exiting, or dead and not reaped; None when no such process can be seen.

    The kernel closes the files of a process one by one. So a peer can see the end of a connection while the process
    still holds its locks and other sockets.
    """
    if not proc_is_ours():
        return None
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            fields = file.read(4096).rpartition(b")")[2].split()
        return bool(int(fields[6]) & _PF_EXITING)
    except (OSError, ValueError, IndexError):
        return None


def is_stopped(pid: int) -> bool | None:
    """Whether this process is stopped (SIGSTOP, a debugger); None when no such process can be seen."""
    stat = _read_stat(pid)
    return None if stat is None else stat.state in "Tt"


def is_safe_target(pid: int) -> bool:
    """Whether this PID may get a signal at all: never 0 or negative numbers (groups), init, or this process."""
    return isinstance(pid, int) and not isinstance(pid, bool) and pid > 1 and pid != os.getpid()


def parse_stat(line: bytes) -> tuple[str, int]:
    """State and start time (field 22) of a `/proc/PID/stat` line; ValueError for any other text."""
    # The program chooses its name, in parentheses: it may hold spaces and parentheses. The fields after it do not.
    _, parenthesis, rest = line.rpartition(b")")
    fields = rest.split()
    if not parenthesis or len(fields) < 20:
        raise ValueError("not a line of /proc/PID/stat")
    return fields[0].decode("ascii"), int(fields[19])


def _read_stat(pid: int) -> _Stat | None:
    if pid <= 0 or not proc_is_ours():
        return None
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            return _Stat(*parse_stat(file.read(4096)))
    except (OSError, ValueError):
        return None


def _is_absent(pid: int) -> bool:
    # A missing entry in /proc proves nothing: hidepid hides processes of other users, and /proc may not be mounted.
    if pid <= 0:
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        return False
    return False


def _has_other_threads(pid: int) -> bool:
    try:
        return len(os.listdir(f"/proc/{pid}/task")) > 1
    except OSError:
        return False
