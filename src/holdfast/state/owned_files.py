"""Files in a directory that no other user can change: check the directory first, then make or open the file.

Every file of a state directory is made relative to a descriptor of its directory. The descriptor is checked before
anything is written: the directory belongs to us, and nobody else may write to it. So another user can neither put a
link in the place of a file, nor replace the directory between the check and the write. A new file is made with O_EXCL,
which also refuses a link of our own; an existing file is opened with O_NOFOLLOW, and must belong to us.
"""

from __future__ import annotations

import os
import stat

from ..values.errors import StateError

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_OTHERS_MAY_WRITE = 0o022
_ELSEWHERE = "use one of your own: --state-dir or HOLDFAST_STATE_DIR"


def open_directory(path: str) -> int:
    """Open a directory of ours; the caller closes the descriptor.

    OSError: it cannot be opened. StateError: it belongs to another user, or others may write to it, or another user
    made the link that stands in its place.
    """
    fd = os.open(path, _DIRECTORY)
    try:
        # The owner of a link decides where it leads: a link of another user could lead to any directory of ours.
        link = os.lstat(path)
        if stat.S_ISLNK(link.st_mode) and link.st_uid not in (os.geteuid(), 0):
            raise StateError(f"the link {path} belongs to user {link.st_uid}", remedy=_ELSEWHERE)
        check_directory(os.fstat(fd), path)
    except BaseException:
        os.close(fd)
        raise
    return fd


def check_directory(found: os.stat_result, path: str) -> None:
    """Raise StateError unless this is a directory that belongs to us, and to which nobody else may write."""
    if found.st_uid != os.geteuid():
        raise StateError(f"the state directory {path} belongs to user {found.st_uid}", remedy=_ELSEWHERE)
    if not stat.S_ISDIR(found.st_mode):
        raise StateError(f"{path} is no directory", remedy=_ELSEWHERE)
    if found.st_mode & _OTHERS_MAY_WRITE:
        raise StateError(f"others may write to the state directory {path}", remedy=f"chmod 700 {path}, and look at it")


def create(path: str, access: int = os.O_WRONLY) -> int:
    """Make a file for our user only; returns its descriptor.

    FileExistsError: something has this name, be it a link. OSError: it cannot be made. StateError: the directory is
    not ours alone.
    """
    directory = open_directory(os.path.dirname(path))
    try:
        return create_in(directory, os.path.basename(path), access)
    finally:
        os.close(directory)


def create_in(directory: int, name: str, access: int = os.O_WRONLY) -> int:
    """Make a file for our user only, in a directory that was checked; returns its descriptor."""
    return os.open(name, access | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=directory)


def open_or_create(path: str, access: int) -> int:
    """Open a file of ours, such as a lock or a log, and make it when it is missing; returns its descriptor.

    OSError: it cannot be opened; ELOOP for a link. StateError: the directory or the file is not ours alone.
    """
    directory = open_directory(os.path.dirname(path))
    try:
        flags = access | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        fd = os.open(os.path.basename(path), flags, 0o600, dir_fd=directory)
    finally:
        os.close(directory)
    try:
        _check_file(os.fstat(fd), path)
    except BaseException:
        os.close(fd)
        raise
    return fd


def check_file(path: str) -> bool:
    """Whether a file of this name exists, without opening it: True for a regular file of ours.

    StateError: another user made it, or it is a link or something else.
    """
    try:
        _check_file(os.lstat(path), path)
    except FileNotFoundError:
        return False
    return True


def _check_file(found: os.stat_result, path: str) -> None:
    if found.st_uid != os.geteuid() or not stat.S_ISREG(found.st_mode):
        raise StateError(f"{path} is no file of ours", remedy="look who made it; if nothing uses it, remove it")


def write_atomically(path: str, data: bytes) -> None:
    """Replace a file: readers see the whole old file or the whole new one. OSError: no temporary file is left."""
    directory = open_directory(os.path.dirname(path))
    try:
        replace_in(directory, os.path.basename(path), data)
    finally:
        os.close(directory)


def replace_in(directory: int, name: str, data: bytes) -> None:
    """Replace a file in a directory that was checked, as `write_atomically` does."""
    temporary = temporary_name(name)
    fd = create_in(directory, temporary)
    try:
        os.write(fd, data)
        os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        os.unlink(temporary, dir_fd=directory)
        raise
    finally:
        os.close(fd)


def temporary_name(name: str) -> str:
    """A name for a file that is renamed to `name` when it is complete. Nobody can guess it."""
    return f"{name}.{os.urandom(6).hex()}.new"
