"""Registration: make the spec of a run for a process that another program started.

The guard of such a run is not the parent of the process. It watches the process by a pidfd, and ends it by the ladder
(native/foreign.h). The identity is PID and start time: the guard compares both again after it has opened the pidfd. So
a PID that went to another process is noticed: the registered process has ended, and the other one gets no signal.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ..values.errors import SpecError
from ..values.fields import printable
from ..values.identity import is_alive, read_identity
from ..values.process_memory import command_line
from ..values.spec_cache import new_spec

if TYPE_CHECKING:
    from ..values.identity import ProcessIdentity
    from ..values.options import SpecOptions
    from ..values.spec import RunSpec


def registered_spec(pid: int, options: SpecOptions) -> RunSpec:
    """The spec of a run that watches this process. `argv` in it is the command line of the process.

    SpecError: there is no such process, or it must not or cannot be registered, or the options are wrong.
    """
    identity = _identify(pid)
    _check_permission(pid)
    options["foreign"] = (pid, identity.start_ticks)
    return new_spec(_command_line(pid), options)


def _identify(pid: int) -> ProcessIdentity:
    if isinstance(pid, bool) or not isinstance(pid, int) or pid <= 0:
        raise _refused(f"{pid!r} is no process", "give the PID of one process, a number above 0")
    if pid == os.getpid():
        raise _refused(f"process {pid} is this program itself", "register another process")
    if pid in _ancestors():
        raise _refused(f"process {pid} is an ancestor of this program", "its end would be ours: register another one")
    identity = read_identity(pid)
    if identity is None or is_alive(identity) is False:
        raise _refused(f"there is no live process {pid}", "look at its PID again; it may have ended")
    return identity


def _check_permission(pid: int) -> None:
    try:
        os.kill(pid, 0)
    except PermissionError:
        remedy = "register it as that user, or as root"
        raise _refused(f"process {pid} belongs to another user, and we may not signal it", remedy) from None
    except ProcessLookupError:
        raise _refused(f"there is no live process {pid}", "it has just ended") from None


def _ancestors() -> list[int]:
    found, pid = [], os.getppid()
    while pid > 0 and pid not in found:
        found.append(pid)
        try:
            with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
                pid = int(file.read(4096).rpartition(b")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            break
    return found or [1]


def _command_line(pid: int) -> list[str]:
    """The command line for people: what the process shows now, or its name where it shows none."""
    words = command_line(pid).rstrip(b"\0").split(b"\0")
    if words == [b""]:
        try:
            with open(f"/proc/{pid}/comm", "rb", buffering=0) as file:
                words = [file.read(1 << 16).rstrip(b"\n") or b"?"]
        except OSError:
            words = [b"?"]
    return [printable(os.fsdecode(word)) for word in words]


def _refused(message: str, remedy: str) -> SpecError:
    return SpecError(message, field="pid", remedy=remedy)
