"""The starter: the process that started `holdfast`, and whether it is still there (`--with-parent`).

The kernel tells only who our parent is now. When the starter dies, an adopter becomes our parent: PID 1, or a
subreaper such as `systemd --user`. So the command line imports this module before any other, and a parent that changes
later is a starter that is gone. For a starter that died even before that, there are rules that prove an adoption. If
no rule proves one, our parent counts as the starter: to end the run of a live starter would be worse than to go on
until its adopter ends, too. PID 1 alone proves nothing, because in a container the harness itself may be PID 1.
"""

from __future__ import annotations

import os

_FIRST_PARENT = os.getppid()
_SHELLS = ("sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "fish", "busybox")
_BACKGROUND = 1 << 1 | 1 << 2  # SIGINT and SIGQUIT in SigIgn: a shell without job control sets both for `command &`
GONE = (0, 0)


def can_be_watched() -> bool:
    """Whether the starter is in our PID namespace. The caller of `docker exec` is not."""
    return _FIRST_PARENT != 0


def find_starter() -> tuple[int, int] | None:
    """PID and start time of the process that started us; `GONE`; None when we cannot watch it.

    A start time of 0 is one that we cannot read.
    """
    if not can_be_watched():
        return None
    if _was_adopted(_FIRST_PARENT):
        return GONE
    from .identity import read_identity  # here, because our parent must be read first

    identity = read_identity(_FIRST_PARENT)
    start_ticks = 0 if identity is None else identity.start_ticks
    # It is our parent to this moment, so what we read was about the starter, and not about a later process of its PID.
    return (_FIRST_PARENT, start_ticks) if os.getppid() == _FIRST_PARENT else GONE


def this_process(pid: int) -> tuple[int, int]:
    """PID and start time of this process; `GONE`."""
    from .identity import read_identity

    identity = read_identity(pid)
    return GONE if identity is None else (pid, identity.start_ticks)


def _was_adopted(parent: int) -> bool:
    """Whether this parent cannot be the process that started us."""
    try:
        session = os.getsid(parent)
    except ProcessLookupError:
        return True
    if os.getsid(0) not in (os.getpid(), session):
        return True  # a child is in the session of its parent, or it leads its own
    if _name(parent) == "systemd" and os.environ.get("SYSTEMD_EXEC_PID", str(os.getpid())) != str(os.getpid()):
        return True  # systemd tells each process that it starts its own PID
    return parent == 1 and _name(parent) not in _SHELLS and _is_background_job(parent)


def _is_background_job(parent: int) -> bool:
    """Whether a shell started us with `&`, and this parent does not pass on such signals itself."""
    return _ignored("self") & _BACKGROUND == _BACKGROUND and _ignored(str(parent)) & _BACKGROUND == 0


def _ignored(process: str) -> int:
    try:
        with open(f"/proc/{process}/status", "rb", buffering=0) as file:
            return int(file.read(8192).partition(b"\nSigIgn:")[2].split(b"\n", 1)[0], 16)
    except (OSError, ValueError):
        return 0  # not known


def _name(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm", "rb", buffering=0) as file:
            return os.fsdecode(file.read(64)).strip()
    except OSError:
        return ""
