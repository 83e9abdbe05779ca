"""The ledger of installations: for each changed file its content before, and what Holdfast made of it.

It is in the state directory, `STATE/harnesses/DIGEST/`: `before` is the backup, a copy of the file as it was, and
`record` says which file that is. So `uninstall` can put back exactly what was there, and can tell whether somebody has
changed the file since.

A process that changes files holds the lock, `STATE/harnesses.lock`, from its first look at the ledger to its last
change. So if another process has made its plan out of date, it leaves the entry of that process as it was.
"""

from __future__ import annotations

import json
import os
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from ..state.directory import state_error
from ..state.file_lock import FileLock
from ..state.owned_files import write_atomically
from .errors import SettingsError

if TYPE_CHECKING:
    from ..state.directory import StateDirectory

_LOCK_S = 30.0


class LedgerEntry(NamedTuple):
    """One file: its content before (None: there was no file), and the digest of its content after."""

    path: str
    before: bytes | None
    after_digest: str
    made_directories: tuple[str, ...] = ()

    def made(self, content: bytes | None) -> bool:
        """Whether this is still the content that Holdfast wrote."""
        return content is not None and digest(content) == self.after_digest


class Ledger:
    """The entries of one state directory."""

    def __init__(self, state: StateDirectory) -> None:
        self.path = os.path.join(state.path, "harnesses")
        self.lock = FileLock(os.path.join(state.path, "harnesses.lock"), _LOCK_S)

    def find(self, path: str) -> LedgerEntry | None:
        """The entry of a file; None when Holdfast has not changed it. SettingsError: the entry is damaged."""
        place = self.place(path)
        try:
            with open(os.path.join(place, "record"), encoding="utf-8") as file:
                record = json.load(file)
            before = None
            if record["had_file"]:
                with open(os.path.join(place, "before"), "rb") as backup:
                    before = backup.read()
                if digest(before) != record["before_digest"]:
                    raise ValueError("the backup is not what it was")
            return LedgerEntry(record["path"], before, record["after_digest"], tuple(record["made_directories"]))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            remedy = f"look into {place}, then remove it; our parts can then be taken out without it"
            raise SettingsError(f"the record about {path} cannot be read: {error}", remedy=remedy) from None

    def keep(self, entry: LedgerEntry) -> None:
        """Write an entry. StateError: it cannot be kept."""
        place = self.place(entry.path)
        record = {
            "path": entry.path,
            "had_file": entry.before is not None,
            "before_digest": None if entry.before is None else digest(entry.before),
            "after_digest": entry.after_digest,
            "made_directories": entry.made_directories,
        }
        try:
            os.makedirs(place, mode=0o700, exist_ok=True)
            if entry.before is not None:
                write_atomically(os.path.join(place, "before"), entry.before)
            write_atomically(os.path.join(place, "record"), json.dumps(record, indent=2).encode())
        except OSError as error:
            raise state_error(error, place) from None

    def forget(self, path: str) -> None:
        """Remove the entry of a file, and its backup."""
        place = self.place(path)
        for name in ("record", "before"):
            try:
                os.unlink(os.path.join(place, name))
            except FileNotFoundError:
                pass
        for directory in (place, self.path):
            try:
                os.rmdir(directory)
            except OSError:
                return  # it is not empty, or not there

    def backup(self, path: str) -> str:
        """Where the copy of a file is."""
        return os.path.join(self.place(path), "before")

    def place(self, path: str) -> str:
        """The directory of a file's entry."""
        return os.path.join(self.path, digest(os.fsencode(os.path.abspath(path)))[:16])


def digest(content: bytes) -> str:
    """The digest of a file's content."""
    return sha256(content).hexdigest()
