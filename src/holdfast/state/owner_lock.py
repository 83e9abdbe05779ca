"""The owner lock of a state directory: one long-lived owner, such as a daemon, and a note that names it.

The lock. The owner locks the open file `STATE/owner`, so the kernel releases the lock when the owner ends, however it
ends. The note in the file (process, start time, boot, purpose) is for people. The PID in it never decides whether the
owner is alive, because another process may have that PID by now. The file has five states:

    missing   there is no owner, and the last owner released the lock
    alive     a process holds the lock
    stale     no process holds the lock, and the note names the last owner: it was killed, or the host went down
    damaged   no process holds the lock, and the file holds no note: it is empty, cut short, or something else
    invalid   no process holds the lock that we know, but the file is not ours to replace: a note of a newer format,
              whose owner may lock it in another way, or no regular file

Taking the lock. The new owner writes and locks its note under a temporary name. Then it moves the note into place: with
`link` where there is no file, with `rename` over a stale note, which it keeps locked meanwhile. So no reader sees a
half-written note, or a note without its lock. A process that has locked a file which is no longer in place (the inode
tells) was too late, and looks again. A damaged file must not block every start of a daemon. The new owner replaces it
as it replaces a stale note, and keeps the damaged one beside it as `STATE/owner.damaged`.

A child that the owner forks without exec has the same open file: the lock lives for as long as such a child does.
"""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, NamedTuple

from ..values.errors import StateError
from ..values.identity import boot_id, read_identity
from .byte_lock import is_locked, lock
from .directory import state_error
from .owned_files import create, temporary_name

if TYPE_CHECKING:
    from typing import Self

    from .directory import StateDirectory

MISSING, ALIVE, STALE, DAMAGED, INVALID = "missing", "alive", "stale", "damaged", "invalid"
NAME = "owner"
DAMAGED_NAME = "owner.damaged"
_FORMAT = 1
_BYTE = 0
_NOTE_MAX = 4096
_ATTEMPTS = 100  # each one means that another process took or released the lock at the same moment


class OwnerAliveError(StateError):
    """Another process owns the state directory. `owner` is its note; None when the note cannot be read."""

    owner: Owner | None = None


class Owner(NamedTuple):
    """The note that an owner wrote about itself. For people: the process may be gone, and its PID may be reused."""

    pid: int
    start_ticks: int
    boot_id: str | None
    what: str
    since_ns: int


class OwnerStatus(NamedTuple):
    """The state of the lock, and the note if it can be read. `why` completes "the file ..." when it cannot."""

    state: str
    owner: Owner | None = None
    why: str | None = None


def look(state: StateDirectory) -> OwnerStatus:
    """Read the state of the lock without changing anything. StateError: the file cannot be opened."""
    try:
        fd = os.open(_path(state), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return OwnerStatus(MISSING)
    except OSError as error:
        raise state_error(error, _path(state)) from None
    try:
        return _look(fd)
    except OSError as error:
        return OwnerStatus(INVALID, None, os.strerror(error.errno or 0))
    finally:
        os.close(fd)


def take(state: StateDirectory, what: str) -> OwnerLock:
    """Become the owner of the state directory. `what` tells people the purpose.

    A stale note is replaced; a damaged file is moved aside, and `moved_aside` of the result names it.

    OwnerAliveError: another owner is alive. StateError: the file is not ours, or the directory cannot be written.
    """
    own = temporary_name(_path(state))
    try:
        fd = _prepare(own, what)
        try:
            for _ in range(_ATTEMPTS):
                if (replaced := _take_place(state, own)) is not None:
                    return OwnerLock(_path(state), fd, _aside(state) if replaced == DAMAGED else None)
            raise StateError(
                f"{_path(state)} changes hands again and again", remedy="look who takes it, then try again"
            )
        except BaseException:
            os.close(fd)
            raise
        finally:
            _unlink(own)
    except OSError as error:
        raise state_error(error, state.path) from None


def clear(state: StateDirectory) -> bool:
    """Remove the note of a stale owner, or move a damaged file aside. False in the other three states."""
    try:
        fd = os.open(_path(state), os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        seen = _look(fd)
        if seen.state not in (STALE, DAMAGED) or not lock(fd, _BYTE) or not _is_in_place(state, fd):
            return False
        if seen.state == DAMAGED:
            os.rename(_path(state), _aside(state))
        else:
            _unlink(_path(state))
        return True
    except OSError:
        return False
    finally:
        os.close(fd)


class OwnerLock:
    """The owner lock, held by this process until `release`, the end of a `with`, or the end of the process.

    `moved_aside` is the path of a damaged file that was in its place, or None.
    """

    def __init__(self, path: str, fd: int, moved_aside: str | None = None) -> None:
        self.path = path
        self.moved_aside = moved_aside
        self._fd = fd

    def release(self) -> None:
        """Release the lock and remove the note. A second call does nothing."""
        if self._fd < 0:
            return
        fd, self._fd = self._fd, -1
        try:
            if _is_same(self.path, fd):  # otherwise another process has replaced our note
                _unlink(self.path)
        finally:
            os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def _path(state: StateDirectory) -> str:
    return os.path.join(state.path, NAME)


def _aside(state: StateDirectory) -> str:
    return os.path.join(state.path, DAMAGED_NAME)


def _look(fd: int) -> OwnerStatus:
    held = is_locked(fd, _BYTE)
    try:
        owner = _parse(os.pread(fd, _NOTE_MAX, 0))
    except _UnknownFormatError as error:
        return OwnerStatus(ALIVE if held else INVALID, None, str(error))
    except ValueError as error:
        return OwnerStatus(ALIVE if held else DAMAGED, None, str(error))
    return OwnerStatus(ALIVE if held else STALE, owner)


class _UnknownFormatError(ValueError):
    """The note has a format of another Holdfast."""


def _parse(data: bytes) -> Owner:
    """Parse a note. ValueError: it is not one of ours; the message completes "the file ..."."""
    if not data:
        raise ValueError("is empty")
    try:
        note = json.loads(data)
    except (ValueError, RecursionError):
        raise ValueError("is not a note of an owner") from None
    if not isinstance(note, dict) or "format" not in note:
        raise ValueError("is not a note of an owner")
    if note["format"] != _FORMAT:
        raise _UnknownFormatError("has a format this Holdfast does not know")
    numbers = [note.get(name) for name in ("pid", "start_ticks", "since_ns")]
    boot, what = note.get("boot_id"), note.get("what")
    if not all(type(number) is int for number in numbers) or not isinstance(what, str):
        raise ValueError("lacks what a note of an owner says")
    return Owner(numbers[0], numbers[1], boot if isinstance(boot, str) else None, what, numbers[2])  # type: ignore[arg-type]


def _prepare(path: str, what: str) -> int:
    """Write and lock our own note under a temporary name; returns its descriptor."""
    identity = read_identity(os.getpid())
    note = {
        "format": _FORMAT,
        "pid": os.getpid(),
        "start_ticks": 0 if identity is None else identity.start_ticks,
        "boot_id": boot_id(),
        "what": what[:200],
        "since_ns": time.time_ns(),
    }
    fd = create(path, os.O_RDWR)
    try:
        os.write(fd, json.dumps(note).encode() + b"\n")
        lock(fd, _BYTE)
    except BaseException:
        os.close(fd)
        _unlink(path)
        raise
    return fd


def _take_place(state: StateDirectory, own: str) -> str | None:
    """Move our note into place; returns the state of the file it replaced.

    None: another process changed the file meanwhile; look again.
    """
    path = _path(state)
    try:
        os.link(own, path)
        return MISSING
    except FileExistsError:
        pass
    try:
        fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    try:
        seen = _look(fd)
        if seen.state == ALIVE and _is_in_place(state, fd):
            raise _refusal(state, seen)
        if not lock(fd, _BYTE) or not _is_in_place(state, fd):
            return None
        if seen.state == INVALID:
            remedy = "look at it; if nothing uses it, remove it"
            raise StateError(f"{path} {seen.why}, and no process holds it", remedy=remedy)
        # From here on we hold the lock of the old file, so no other process can do the same.
        if seen.state == DAMAGED:
            _unlink(_aside(state))
            os.link(path, _aside(state))  # `path` is never missing meanwhile: a reader would see no owner
        os.rename(own, path)
        return seen.state
    finally:
        os.close(fd)


def _refusal(state: StateDirectory, seen: OwnerStatus) -> OwnerAliveError:
    owner = seen.owner
    who = "another process" if owner is None else f"process {owner.pid} ({owner.what})"
    remedy = "stop that one first, or use another state directory"
    error = OwnerAliveError(f"{who} owns the state directory {state.path}", remedy=remedy)
    error.owner = owner
    return error


def _is_in_place(state: StateDirectory, fd: int) -> bool:
    return _is_same(_path(state), fd)


def _is_same(path: str, fd: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(fd))
    except FileNotFoundError:
        return False


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
