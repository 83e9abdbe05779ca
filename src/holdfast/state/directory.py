"""The state directory: its layout, its marks for live runs, and the errors of a directory that cannot be used.

    STATE/format             the layout's version, one number
    STATE/runs/RUN_ID/       one run: `journal`, and `guard.sock` as long as its guard lives
    STATE/live/RUN_ID        the mark of a run about which the index may be wrong: the run has not ended, or is being
                             removed. A mark is a second name (hard link) of `format`
    STATE/elsewhere/RUN_ID   the note of a run that is on another host (elsewhere.py)
    STATE/sessions/NAME      a closed session; `NAME.budget`: what a session may use (session_budget.py)
    STATE/index.sqlite       history, made from the journals
    STATE/reserve            room for `prune` and lists on a full disk (disk_reserve.py)
    STATE/holdfast.sock      where a daemon listens; `owner` (owner_lock.py) says who that is

A run is in `live` before it is in `runs`, and leaves `live` only after the index has its end. So a reader finds all
unfinished runs in `live`, which stays small, and never reads the whole history.
"""

from __future__ import annotations

import errno
import os
import stat

from ..values.environment import STATE_DIR
from ..values.errors import StateError, StateVersionError, resource_remedy
from ..values.fast_imports import TYPE_CHECKING
from .owned_files import check_directory, create, open_directory, replace_in

if TYPE_CHECKING:
    from collections.abc import Iterator

FORMAT = 1
DAEMON_SOCKET = "holdfast.sock"
DAEMON_STORE = "daemon.sqlite"
_PARTS = ("runs", "live", "sessions")
_REMEDIES = {
    errno.EROFS: "it is on a read-only file system: choose another with --state-dir or HOLDFAST_STATE_DIR",
    errno.EACCES: "you may not write there: choose another with --state-dir or HOLDFAST_STATE_DIR",
    errno.EPERM: "you may not write there: choose another with --state-dir or HOLDFAST_STATE_DIR",
    errno.ENOSPC: "its disk is full: free space, prune old runs (holdfast prune), or choose another directory",
    errno.EDQUOT: "its quota is used up: prune old runs (holdfast prune), or choose another directory",
    errno.ENOTDIR: "a part of this path is a file: choose another with --state-dir or HOLDFAST_STATE_DIR",
}


def default_path() -> str:
    """The path of the state directory when none is given: HOLDFAST_STATE_DIR, else the user's XDG state directory."""
    if named := os.environ.get(STATE_DIR):
        return named
    base = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(base, "holdfast")


def is_unused(path: str) -> bool:
    """Whether no run was ever kept there: the path does not exist, or is an empty directory."""
    try:
        with os.scandir(path) as entries:
            return next(entries, None) is None
    except FileNotFoundError:
        return True
    except OSError:
        return False


class StateDirectory:
    """A state directory that belongs to this user and has a known format."""

    __slots__ = ("format_path", "index_path", "live_path", "path", "runs_path", "sessions_path")

    def __init__(self, path: str) -> None:
        self.path = path
        self.runs_path = os.path.join(path, "runs")
        self.live_path = os.path.join(path, "live")
        self.sessions_path = os.path.join(path, "sessions")
        self.index_path = os.path.join(path, "index.sqlite")
        self.format_path = os.path.join(path, "format")

    @classmethod
    def open(cls, path: str | None = None, *, create: bool = True) -> StateDirectory:
        """Open the state directory at `path`. With `create`, make it when it is missing.

        StateError: it cannot be made or used, or belongs to another user. StateVersionError: another format.
        """
        state = cls(os.path.abspath(path or default_path()))
        try:
            if create:
                os.makedirs(state.path, mode=0o700, exist_ok=True)
            # Before anything is written: a directory of another user may hold links to our files.
            directory = open_directory(state.path)
            try:
                if create:
                    _make_parts(directory)
                state._check(directory)
            finally:
                os.close(directory)
        except OSError as error:
            raise state_error(error, state.path) from None
        return state

    def _check(self, directory: int) -> None:
        for name in _PARTS:
            _check_part(directory, name, os.path.join(self.path, name))
        try:
            text = _read_format(directory)
        except FileNotFoundError:
            raise StateError(
                f"{self.path} is no state directory", remedy="name another one, or start a run to make it"
            ) from None
        if text != str(FORMAT).encode():
            shown = text.decode("ascii", "backslashreplace") or "nothing"
            raise StateVersionError(
                f"the state directory {self.path} has format {shown}, this Holdfast knows {FORMAT}",
                remedy="use the Holdfast that made it, or another directory (--state-dir)",
            )

    def run_path(self, run_id: str) -> str:
        """The path of the run directory for this id, whether or not it exists."""
        return os.path.join(self.runs_path, run_id)

    def has(self, run_id: str) -> bool:
        """Whether a run of exactly this id exists. False for text that is not a plain file name: it is no run id."""
        is_name = run_id == os.path.basename(run_id) and run_id[:1] not in ("", ".") and "\0" not in run_id
        return is_name and os.path.isdir(self.run_path(run_id))

    def elsewhere_path(self, run_id: str) -> str:
        """The path of the note that says on which other host this run is, whether or not it exists."""
        return os.path.join(self.path, "elsewhere", run_id)

    def is_elsewhere(self, run_id: str) -> bool:
        """Whether this run is on another host, or may be, and has no end on record here."""
        return os.path.lexists(self.elsewhere_path(run_id))

    def live_ids(self) -> list[str]:
        """The ids of all marked runs: their end is not in the index. Oldest first."""
        try:
            return sorted(os.listdir(self.live_path))
        except OSError as error:
            raise state_error(error, self.live_path) from None

    def all_ids(self) -> Iterator[str]:
        """The ids of all run directories, unordered. This reads the whole history."""
        with os.scandir(self.runs_path) as entries:
            for entry in entries:
                if not entry.name.startswith("."):
                    yield entry.name

    def hidden_path(self, run_id: str, why: str) -> str:
        """The path of a run directory while it is made (`new`) or removed (`gone`). Readers do not look there."""
        return os.path.join(self.runs_path, f".{why}-{run_id}")

    def mark_live(self, run_id: str) -> None:
        """Mark a run whose end the index does not have yet, or that is about to be removed."""
        mark = os.path.join(self.live_path, run_id)
        try:
            # A hard link instead of a new file: ext4 does not reuse the inode of a removed file for minutes, and to
            # make a file it has to search past all such inodes.
            os.link(self.format_path, mark)
        except FileExistsError:
            pass
        except OSError:  # too many links to one file, or a file system without hard links
            try:
                os.close(create(mark))
            except FileExistsError:
                pass

    def unmark_live(self, run_id: str) -> None:
        """Remove the mark of a run: the index has its end now, or the run does not exist. A missing mark is fine."""
        try:
            os.unlink(os.path.join(self.live_path, run_id))
        except FileNotFoundError:
            pass

    def is_missing(self, run_id: str) -> bool:
        """Whether no run of this id exists or is being made. A run that is being made is marked, but still hidden."""
        # The order matters: a run that is renamed between the first two checks is found by the third.
        places = (self.run_path(run_id), self.hidden_path(run_id, "new"), self.run_path(run_id))
        return not any(os.path.lexists(place) for place in places)

    def unmark_missing(self, run_id: str) -> None:
        """Remove the mark of a missing run. If a new run takes the same id meanwhile, its mark is set again."""
        self.unmark_live(run_id)
        if not self.is_missing(run_id):
            self.mark_live(run_id)


def state_error(error: OSError, path: str, run_id: str | None = None) -> StateError:
    """The StateError, with a remedy, for an OSError in the state directory."""
    elsewhere = "choose another with --state-dir or HOLDFAST_STATE_DIR"
    # Another directory does not help a process that is out of descriptors.
    remedy = _REMEDIES.get(error.errno or 0) or resource_remedy(error.errno) or elsewhere
    if isinstance(error, FileNotFoundError):
        remedy = "start a run to make it, or name another with --state-dir or HOLDFAST_STATE_DIR"
    why = os.strerror(error.errno) if error.errno else str(error)
    return StateError(f"cannot use the state directory {path}: {why}", run_id=run_id, remedy=remedy)


def _make_parts(directory: int) -> None:
    try:
        os.stat("format", dir_fd=directory, follow_symlinks=False)
        return
    except FileNotFoundError:
        pass
    for name in _PARTS:
        try:
            os.mkdir(name, 0o700, dir_fd=directory)
        except FileExistsError:
            pass
    # Last, and atomically: a process that sees the format also sees the directories.
    replace_in(directory, "format", f"{FORMAT}\n".encode())


def _check_part(directory: int, name: str, path: str) -> None:
    """Check a directory inside the state directory. Its owner may have put a link of his own in its place."""
    try:
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if stat.S_ISLNK(found.st_mode) and found.st_uid == os.geteuid():
            found = os.stat(name, dir_fd=directory)
    except FileNotFoundError:
        return  # an operation that needs it names it
    check_directory(found, path)


def _read_format(directory: int) -> bytes:
    fd = os.open("format", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    try:
        return os.read(fd, 32).strip()
    finally:
        os.close(fd)
