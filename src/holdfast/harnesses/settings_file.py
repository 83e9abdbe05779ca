"""A settings file of a harness: read it, and replace it so that nobody ever sees half of it.

The new text goes to a temporary file in the same directory, which then takes the place of the old one. Mode and owner
stay. Where the path is a link, the file that it leads to is replaced, and the link stays. Right before the replacement
the file must still hold what was read: another program may have changed it, and its change must not be lost.
"""

from __future__ import annotations

import os
import stat
from typing import NamedTuple

from .errors import SettingsError

_LARGEST = 16 << 20


class FileChange(NamedTuple):
    """A planned change of one file: its content before and after; None means that there is no file."""

    path: str
    before: bytes | None
    after: bytes | None
    note: str = ""  # what the user must know about it


def read(path: str) -> bytes | None:
    """The content of a settings file; None when there is none. SettingsError: it cannot be read."""
    real = _real(path)
    try:
        # Nonblocking: a project may have a FIFO in the place of its settings, and opening that waits for a writer.
        with open(os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise SettingsError(f"{path} is no file", remedy="look at it; nothing was changed")
            content = file.read(_LARGEST + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _cannot(path, "read", error) from None
    if len(content) > _LARGEST:  # the rest would be lost
        raise SettingsError(f"{path} is larger than {_LARGEST} bytes", remedy="look at it; nothing was changed")
    return content


def check_writable(path: str) -> None:
    """Raise SettingsError when the file is read-only, be it for everybody but root."""
    real = _real(path)
    try:
        mode = os.stat(real).st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise _cannot(path, "change", error) from None
    if not mode & stat.S_IWUSR or not os.access(real, os.W_OK):
        raise SettingsError(f"{path} is read-only", remedy="make it writable (chmod u+w), or ask who manages it")


def carry_out(change: FileChange) -> None:
    """Make the change. SettingsError: the file is as it was, or as another program has made it meanwhile."""
    real = _real(change.path)
    try:
        if change.after is None:
            _check_unchanged(change)
            os.unlink(real)
        else:
            os.makedirs(os.path.dirname(real), exist_ok=True)
            _replace(real, change)
        _sync_directory(os.path.dirname(real))
    except FileNotFoundError:
        if change.after is not None:
            raise SettingsError(f"{change.path} cannot be written: its directory is gone") from None
    except OSError as error:
        raise _cannot(change.path, "change", error) from None


def _replace(real: str, change: FileChange) -> None:
    assert change.after is not None
    temporary = f"{real}.{os.urandom(6).hex()}.holdfast"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(change.after)
            file.flush()
            _keep_mode_and_owner(file.fileno(), real)
            os.fsync(file.fileno())
        _check_unchanged(change)
        os.rename(temporary, real)
    except BaseException:
        os.unlink(temporary)
        raise


def _keep_mode_and_owner(fd: int, real: str) -> None:
    try:
        old = os.stat(real)
    except FileNotFoundError:
        return  # a new file: readable by its user only, as these files may hold secrets
    mine = os.fstat(fd)
    if (old.st_uid, old.st_gid) != (mine.st_uid, mine.st_gid):
        os.fchown(fd, old.st_uid, old.st_gid)
    os.fchmod(fd, stat.S_IMODE(old.st_mode))


def _check_unchanged(change: FileChange) -> None:
    if read(change.path) != change.before:
        raise SettingsError(f"{change.path} was changed by another program meanwhile", remedy="run the command again")


def _real(path: str) -> str:
    real = os.path.realpath(path)
    if os.path.islink(path) and not os.path.exists(real):
        raise SettingsError(f"{path} is a link to {real}, which is not there", remedy="mend or remove the link")
    return real


def _sync_directory(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _cannot(path: str, what: str, error: OSError) -> SettingsError:
    return SettingsError(f"{path} cannot be {'read' if what == 'read' else 'changed'}: {error.strerror or error}")
