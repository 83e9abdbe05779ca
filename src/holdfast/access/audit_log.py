"""The audit log: who did what from where, one JSON text per line, in files to which Holdfast only appends.

`STATE/audit/DATE.NUMBER.jsonl` (0600) has the records of one day, at most some mebibytes in one file. Every record is
one write to a file that is open for appending, so the daemon and commands can write at the same time. Nothing rewrites
a record. The retention removes whole files, the oldest first, and records that it did. A record is in the hands of the
kernel when the request is answered: it survives the death of the daemon, and not always a power cut.

A record has no secret in it: no token, no query, no body, no argument of a command. Whoever may write to the state
directory can change the files all the same, a run of the daemon included: to keep them from that, ship them elsewhere.
"""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from ..state.owned_files import open_directory, open_or_create
from ..values.errors import StateError
from ..values.timestamps import format_timestamp

if TYPE_CHECKING:
    from collections.abc import Iterator

DIRECTORY = "audit"
SUFFIX = ".jsonl"
_LARGEST_FILE = 4 << 20  # a new file is begun after this many bytes
_LONGEST_TEXT = 200


class AuditRecord(NamedTuple):
    """One thing that a caller did or was refused. None: unknown, or it does not apply."""

    action: str  # the method and the path of a request, or a command
    by: str  # how the caller is known: socket, token, session, nothing; `command`: it needs no daemon; `daemon`
    token: str | None = None  # the name of its token
    user: int | None = None  # the number of its user, from the kernel
    pid: int | None = None  # its process, from the kernel
    address: str | None = None
    status: int | None = None  # of the answer
    problem: str | None = None  # why it was refused
    run_id: str | None = None
    about: str | None = None  # what else it was about, such as the name of a new token
    suppressed: int = 0  # refusals like this one that were counted and not recorded since the last one


class AuditLog:
    """The writer of the audit log of a state directory. A record that cannot be written is counted, not raised."""

    def __init__(self, state_path: str) -> None:
        self.path = os.path.join(state_path, DIRECTORY)
        self._fd = -1
        self._date = ""
        self._lost = 0
        self._trouble: str | None = None

    def record(self, entry: AuditRecord) -> None:
        """Append a record."""
        now_ns = time.time_ns()
        told = {"at": format_timestamp(now_ns), **{name: _cut(value) for name, value in entry._asdict().items()}}
        if not entry.suppressed:
            del told["suppressed"]
        if self._lost:
            told["lost"] = self._lost  # records before this one that could not be written
        try:
            self._append(told["at"][:10], json.dumps(told, separators=(",", ":")).encode() + b"\n")
        except (OSError, StateError) as error:
            self._lost += 1
            self._trouble = error.message if isinstance(error, StateError) else error.strerror or str(error)
            self.close()
        else:
            self._lost, self._trouble = 0, None

    def shortages(self) -> Iterator[str]:
        """What is wrong, as sentences, for the daemon's health."""
        if self._trouble is not None:
            yield f"the audit log cannot be written, and {self._lost} records are lost: {self._trouble}"

    def close(self) -> None:
        """Close the file; the next record opens it again."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self._date = -1, ""

    def _append(self, date: str, line: bytes) -> None:
        found = os.fstat(self._fd) if self._fd >= 0 else None
        if found is None or date != self._date or not found.st_nlink or found.st_size >= _LARGEST_FILE:
            self.close()
            self._fd, self._date = _open(self.path, date), date
        if os.write(self._fd, line) != len(line):  # the disk is full
            raise OSError(0, "the disk is full")

    def prune(self, before_ns: int | None, size: int | None) -> int:
        """Remove files with nothing but records before this time, and the oldest files beyond `size` bytes in all.

        Returns how many were removed. Records that, so that a gap is explained. The newest file stays. OSError.
        """
        files = list_files(self.path)
        first_day = None if before_ns is None else format_timestamp(max(0, before_ns))[:10]
        sizes = {name: os.stat(os.path.join(self.path, name)).st_size for name in files}
        total, removed = sum(sizes.values()), []
        for name in files[:-1]:
            is_old = first_day is not None and name[:10] < first_day
            if is_old or (size is not None and total > size):
                os.unlink(os.path.join(self.path, name))
                total -= sizes[name]
                removed.append(name)
        if removed:
            about = f"removed {len(removed)} files, the last {removed[-1]}"
            self.record(AuditRecord("audit retention", "daemon", about=about))
        return len(removed)


def record_command(state_path: str, action: str, about: str | None = None) -> None:
    """Record what a command did without a daemon. A record that cannot be written is left out."""
    log = AuditLog(state_path)
    log.record(AuditRecord(action, "command", user=os.getuid(), pid=os.getpid(), about=about))
    log.close()


def list_files(path: str) -> list[str]:
    """The names of the files, oldest first; none when there is no audit log yet. OSError."""
    try:
        return sorted(name for name in os.listdir(path) if name.endswith(SUFFIX))
    except FileNotFoundError:
        return []


def _open(path: str, date: str) -> int:
    """Open the newest file of this day that is not too large, or a new one. The first line begins on a line of its own.

    OSError, StateError: it cannot be opened, or is not ours alone.
    """
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        pass
    os.close(open_directory(path))
    of_day = [name for name in list_files(path) if name.startswith(date)]
    number = 0
    if of_day:
        number = int(of_day[-1].removeprefix(f"{date}.").removesuffix(SUFFIX))
        number += os.stat(os.path.join(path, of_day[-1])).st_size >= _LARGEST_FILE
    fd = open_or_create(os.path.join(path, f"{date}.{number:05d}{SUFFIX}"), os.O_RDWR | os.O_APPEND)
    size = os.fstat(fd).st_size
    if size and os.pread(fd, 1, size - 1) != b"\n":  # a full disk or a power cut has torn the last record
        os.write(fd, b"\n")
    return fd


def _cut(value: Any) -> Any:
    return value[:_LONGEST_TEXT] if isinstance(value, str) else value
