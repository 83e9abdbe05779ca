"""Who owns a state directory for long: a lock that ends with its holder, and a note about who that is.

The lock. `STATE/owner` is locked by the open file of its holder, so the kernel lets go of it when the holder ends,
however that happens. What is written inside (process, start time, boot, purpose) is for people: whether an owner is
alive is never decided by a PID, which may be somebody else's by now. The four states:

    missing   there is no owner, and the last one said good-bye
    alive     somebody holds the lock
    stale     nobody holds it, and the note says who did: that owner was killed, or the host went down
    invalid   nobody holds it, and the note is none of ours: another program's file, or another format

Taking it. A new note is written and locked under a name of its own, then it takes its place: with `link` where there
was none, with `rename` over a stale one that is held locked meanwhile. So a note is never seen half-written or without
its lock. Whoever locked a file that is not in its place any more (its inode tells) was too late and looks again.

A process forked by the holder without exec has the same open file: as long as such a copy lives, so does the lock.
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

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from .directory import StateDirectory

MISSING, ALIVE, STALE, INVALID = "missing", "alive", "stale", "invalid"
NAME = "owner"
_FORMAT = 1
_BYTE = 0
_NOTE_MAX = 4096
_ATTEMPTS = 100  # each means that somebody else took it or let it go in the same moment


class OwnerAliveError(StateError):
    """Somebody else owns the state directory; `owner` says who, as far as it is written down."""

    owner: Owner | None = None


class Owner(NamedTuple):
    """What an owner wrote about itself. For people: the process may be gone, or its number somebody else's."""

    pid: int
    start_ticks: int
    boot_id: str | None
    what: str
    since_ns: int


class OwnerStatus(NamedTuple):
    """The state of the lock, the note if it can be read, and what is wrong with it if it cannot."""

    state: str
    owner: Owner | None = None
    why: str | None = None


def look(state: StateDirectory) -> OwnerStatus:
    """Which of the four states it is in, without disturbing anybody. StateError when that cannot be seen."""
    try:
        fd = os.open(_path(state), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
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
    """Become the owner; `what` says to people what for. The place of a stale one is taken over.

    OwnerAliveError: there is one. StateError: the file there is none of ours, or the directory cannot be written.
    """
    own = f"{_path(state)}.{os.urandom(6).hex()}.new"
    try:
        fd = _prepare(own, what)
        try:
            for _ in range(_ATTEMPTS):
                if _take_place(state, own):
                    return OwnerLock(_path(state), fd)
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
    """Take away what an owner left that is gone; False when there is nothing, or an owner, or a file not of ours."""
    try:
        fd = os.open(_path(state), os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        if _look(fd).state != STALE or not lock(fd, _BYTE) or not _is_in_place(state, fd):
            return False
        _unlink(_path(state))
        return True
    except OSError:
        return False
    finally:
        os.close(fd)


class OwnerLock:
    """The lock, held. Released at the end of a `with`, by `release`, or by the end of this process."""

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self._fd = fd

    def release(self) -> None:
        """Let go of it; the next one to look finds it missing. Doing so twice is fine."""
        if self._fd < 0:
            return
        fd, self._fd = self._fd, -1
        try:
            if _is_same(self.path, fd):  # otherwise somebody removed it, and what is there now is not ours
                _unlink(self.path)
        finally:
            os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def _path(state: StateDirectory) -> str:
    return os.path.join(state.path, NAME)


def _look(fd: int) -> OwnerStatus:
    held = is_locked(fd, _BYTE)
    try:
        owner = _parse(os.pread(fd, _NOTE_MAX, 0))
    except ValueError as error:
        return OwnerStatus(ALIVE if held else INVALID, None, str(error))
    return OwnerStatus(ALIVE if held else STALE, owner)


def _parse(data: bytes) -> Owner:
    """ValueError, as the end of a sentence, when it is no note of ours."""
    try:
        note = json.loads(data)
    except (ValueError, RecursionError):
        raise ValueError("is not a note of an owner") from None
    if not isinstance(note, dict) or note.get("format") != _FORMAT:
        raise ValueError("has a format this Holdfast does not know")
    numbers = [note.get(name) for name in ("pid", "start_ticks", "since_ns")]
    boot, what = note.get("boot_id"), note.get("what")
    if not all(type(number) is int for number in numbers) or not isinstance(what, str):
        raise ValueError("lacks what a note of an owner says")
    return Owner(numbers[0], numbers[1], boot if isinstance(boot, str) else None, what, numbers[2])  # type: ignore[arg-type]


def _prepare(path: str, what: str) -> int:
    """A note of our own, whole and locked, under a name that nobody looks at."""
    identity = read_identity(os.getpid())
    note = {
        "format": _FORMAT,
        "pid": os.getpid(),
        "start_ticks": 0 if identity is None else identity.start_ticks,
        "boot_id": boot_id(),
        "what": what[:200],
        "since_ns": time.time_ns(),
    }
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, json.dumps(note).encode() + b"\n")
        lock(fd, _BYTE)
    except BaseException:
        os.close(fd)
        _unlink(path)
        raise
    return fd


def _take_place(state: StateDirectory, own: str) -> bool:
    """Put our own note in its place; False when somebody else changed something there: look again."""
    path = _path(state)
    try:
        os.link(own, path)
        return True
    except FileExistsError:
        pass
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return False
    try:
        seen = _look(fd)
        if seen.state == ALIVE and _is_in_place(state, fd):
            raise _refusal(state, seen)
        if not lock(fd, _BYTE) or not _is_in_place(state, fd):
            return False
        if seen.state == INVALID:
            remedy = "look at it; if nothing uses it, remove it"
            raise StateError(f"{path} {seen.why}, and nobody holds it", remedy=remedy)
        os.rename(own, path)  # while the old one is locked: nobody else can do the same
        return True
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
