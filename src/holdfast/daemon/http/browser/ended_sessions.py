"""Sessions that ended before their time, in `STATE/ended-sessions`: a log out holds after a restart, too.

A session is a signed cookie, and the daemon keeps no list of them. So it keeps a list of the ones that logged out,
until their time would be over anyway. The list has digests: who reads the file gets no cookie.
"""

from __future__ import annotations

import hashlib
import os

from ....state.owned_files import check_file, write_atomically

FILE = "ended-sessions"
_DIGEST = 64  # characters


class EndedSessions:
    """The list, in memory and in its file. Without a state directory, in memory only."""

    def __init__(self, state_path: str | None = None) -> None:
        """OSError, StateError: the file cannot be read."""
        self._path = None if state_path is None else os.path.join(state_path, FILE)
        self._ends: dict[str, int] = {} if self._path is None else _read(self._path)

    def __contains__(self, session: str) -> bool:
        return bool(self._ends) and _digest(session) in self._ends

    def add(self, session: str, end: int, now: float) -> None:
        """Note that a session is over, which would last until `end` (in seconds since the epoch).

        OSError: it holds until the daemon ends, and the file could not be written.
        """
        self._ends[_digest(session)] = end
        self._ends = {digest: until for digest, until in self._ends.items() if until > now}
        if self._path is not None:
            text = "".join(f"{until} {digest}\n" for digest, until in self._ends.items())
            write_atomically(self._path, text.encode())


def _read(path: str) -> dict[str, int]:
    if not check_file(path):
        return {}
    with open(path, encoding="ascii", errors="replace") as file:
        pairs = (line.split() for line in file)
        return {words[1]: int(words[0]) for words in pairs if len(words) == 2 and _is_row(*words)}


def _is_row(end: str, digest: str) -> bool:
    return end.isdecimal() and len(end) < 16 and len(digest) == _DIGEST


def _digest(session: str) -> str:
    return hashlib.sha256(session.encode("utf-8", "replace")).hexdigest()
