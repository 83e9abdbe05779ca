"""What every guard needs of its host: /dev/null and two system calls. Says which one is missing, and what to do.

A chroot or a container may have no /dev/null; an old kernel lacks the calls, and a sandbox (seccomp) may refuse them.
"""

from __future__ import annotations

import os
import stat

from ..values.fast_imports import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

NULL_DEVICE = (1, 3)  # its number on every Linux
_CALL = "use Linux 5.4 or newer, or allow {} in the sandbox around this program (its seccomp profile)"


class MissingRequirement(NamedTuple):
    """Something that the host lacks: as a phrase, and what to do about it."""

    what: str
    remedy: str


def find_missing() -> MissingRequirement | None:
    """The first thing that a guard needs and this host lacks; None when everything is there."""
    if (why := why_no_null_device()) is not None:
        return MissingRequirement(
            why, "make it (mknod -m 666 /dev/null c 1 3), or mount a /dev in this container or chroot"
        )
    for name, is_there in (("pidfd_open", has_pidfd), ("memfd_create", has_memfd)):
        if not is_there():
            return MissingRequirement(f"the system call {name} is missing", _CALL.format(name))
    return None


def why_no_null_device() -> str | None:
    """What is wrong with /dev/null; None when it is the null device and we may use it."""
    try:
        fd = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return "/dev/null is missing"
    except OSError as error:
        return f"/dev/null cannot be opened: {error.strerror}"
    try:
        found = os.fstat(fd)
    finally:
        os.close(fd)
    is_null = stat.S_ISCHR(found.st_mode) and (os.major(found.st_rdev), os.minor(found.st_rdev)) == NULL_DEVICE
    return None if is_null else "/dev/null is not the null device"


def has_pidfd() -> bool:
    """Whether pidfd_open works here."""
    return _works(lambda: os.pidfd_open(os.getpid()))


def has_memfd() -> bool:
    """Whether memfd_create works here."""
    return _works(lambda: os.memfd_create("holdfast-probe", os.MFD_CLOEXEC))


def _works(open_one: Callable[[], int]) -> bool:
    try:
        os.close(open_one())
    except OSError:
        return False
    return True
