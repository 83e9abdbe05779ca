"""Access tokens with a name, a role, an optional session and an end date, kept in `STATE/tokens.json`.

The file has only a SHA-256 hash of each token: a token is 256 random bits, so a slow hash would add nothing. The text
of a token is shown once, when it is made. Every process of the user may change the file, under a lock and by replacing
it; the daemon looks at the file for each request that brings such a token. So a new token works, and a revoked one
stops to work, from the next request on. The end date is judged by the wall clock: a clock that is set back revives a
token whose end has passed, and revoking it does not depend on a clock.
"""

from __future__ import annotations

import json
import os
import secrets
import stat
import time
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from ..state.directory import state_error
from ..state.file_lock import FileLock
from ..state.owned_files import create_in, open_directory, temporary_name
from ..values.errors import HoldfastError, SpecError, StateError
from ..values.spec import make_spec
from ..values.timestamps import format_timestamp
from .roles import ROLES, Role

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FILE = "tokens.json"
PREFIX = "hft_"  # how every token begins, so that a scanner for secrets finds it
_VERSION = 1
_RANDOM_BYTES = 32
_LOCK_S = 10.0
_LONGEST_NAME = 64
_MOST = 1000
_LARGEST = 1 << 20
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


class TokenExistsError(HoldfastError):
    """There is a token of this name already."""


class NoTokenError(HoldfastError):
    """There is no token of this name."""


class AccessToken(NamedTuple):
    """A token without its text."""

    name: str
    role: Role
    session: str | None  # the only session whose runs it sees; None: all runs
    created_ns: int
    expires_ns: int | None
    digest: str

    def has_ended(self, now_ns: int) -> bool:
        """Whether the end date has passed."""
        return self.expires_ns is not None and now_ns >= self.expires_ns

    def shown(self) -> dict[str, Any]:
        """The token for people and clients: everything but its hash."""
        return {
            "name": self.name,
            "role": self.role.word,
            "session": self.session,
            "created_at": format_timestamp(self.created_ns),
            "expires_at": None if self.expires_ns is None else format_timestamp(self.expires_ns),
            "expired": self.has_ended(time.time_ns()),
        }


class TokenFile:
    """The tokens of a state directory. StateError from every method: the file cannot be used."""

    def __init__(self, state_path: str) -> None:
        self._directory = state_path
        self._path = os.path.join(state_path, FILE)
        self._lock = FileLock(os.path.join(state_path, "tokens.lock"), _LOCK_S)
        self._seen: tuple[int, int, int] | None = None  # inode, size and time of the file that was read last
        self._by_digest: dict[str, AccessToken] = {}
        self._trouble: str | None = None

    def find(self, secret: str) -> AccessToken | None:
        """The token with this text, even if its end date has passed; None: there is none, or it was revoked."""
        self._look()
        # By its hash: the time of the lookup tells nothing about the text of a token.
        return self._by_digest.get(_digest(secret))

    def held(self, digest: str) -> AccessToken | None:
        """The token with this hash; None: it was revoked, or its end date has passed."""
        self._look()
        token = self._by_digest.get(digest)
        return None if token is None or token.has_ended(time.time_ns()) else token

    def holds(self, digest: str) -> bool:
        """Whether the token with this hash was not revoked, and its end date has not passed."""
        return self.held(digest) is not None

    def _look(self) -> None:
        try:
            self._refresh()
        except StateError as error:
            self._trouble = error.message
            raise
        self._trouble = None

    def shortages(self) -> Iterator[str]:
        """What is wrong, as sentences, for the daemon's health."""
        if self._trouble is not None:
            yield f"tokens are refused: {self._trouble}"

    def all(self) -> list[AccessToken]:
        """Every token, by name."""
        return sorted(self._read())

    def create(
        self, name: str, role: str, *, session: str | None = None, expires_ns: int | None = None
    ) -> tuple[AccessToken, str]:
        """Make a token and return it with its text, which is not kept. SpecError: a value is wrong; TokenExistsError.

        A token of a name that was revoked takes over what the earlier one owned.
        """
        now_ns = time.time_ns()
        _check(name, role, session, expires_ns, now_ns)
        secret = PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)
        token = AccessToken(name, ROLES[role], session, now_ns, expires_ns, _digest(secret))

        def add(tokens: list[AccessToken]) -> list[AccessToken]:
            if any(known.name == name for known in tokens):
                remedy = f"choose another name, or revoke it first: holdfast token revoke {name}"
                raise TokenExistsError(f"there is a token {name!r} already", remedy=remedy)
            if len(tokens) >= _MOST:
                raise StateError(f"there are {_MOST} tokens, and no more may be", remedy="revoke what nobody uses")
            return [*tokens, token]

        self._change(add)
        return token, secret

    def revoke(self, name: str) -> AccessToken:
        """Remove a token and return it. NoTokenError."""
        removed: list[AccessToken] = []

        def drop(tokens: list[AccessToken]) -> list[AccessToken]:
            removed.extend(known for known in tokens if known.name == name)
            if not removed:
                raise NoTokenError(f"there is no token {name[:80]!r}", remedy="see holdfast token list")
            return [known for known in tokens if known.name != name]

        self._change(drop)
        return removed[0]

    def _change(self, change: Callable[[list[AccessToken]], list[AccessToken]]) -> None:
        try:
            with self._lock.exclusive():
                self._write(change(self._read()))
        except OSError as error:
            raise state_error(error, self._path) from None

    def _write(self, tokens: list[AccessToken]) -> None:
        """Replace the file. It is on disk before this returns: a revoked token stays revoked after a power cut."""
        rows = [{**token._asdict(), "role": token.role.word} for token in tokens]
        directory = open_directory(self._directory)
        try:
            temporary = temporary_name(FILE)
            try:
                with open(create_in(directory, temporary), "w") as file:
                    json.dump({"version": _VERSION, "tokens": rows}, file, indent=1)
                    file.flush()
                    os.fsync(file.fileno())
                os.rename(temporary, FILE, src_dir_fd=directory, dst_dir_fd=directory)
            except BaseException:
                os.unlink(temporary, dir_fd=directory)
                raise
            os.fsync(directory)
        finally:
            os.close(directory)

    def _refresh(self) -> None:
        """Read the file again if another one has taken its place."""
        try:
            found = os.stat(self._path, follow_symlinks=False)
            seen = (found.st_ino, found.st_size, found.st_mtime_ns)
        except FileNotFoundError:
            seen = (0, 0, 0)
        except OSError as error:
            raise state_error(error, self._path) from None
        if seen != self._seen:
            # The look comes before the read: a file that is replaced in between is read again at the next request.
            self._by_digest = {token.digest: token for token in self._read()}
            self._seen = seen

    def _read(self) -> list[AccessToken]:
        try:
            fd = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise state_error(error, self._path) from None
        with open(fd, "rb") as file:
            found = os.fstat(fd)
            if found.st_uid not in (os.geteuid(), 0) or stat.S_IMODE(found.st_mode) & 0o077:
                remedy = "remove it, and make new tokens: somebody may have changed it"
                raise StateError(f"others may read or write {self._path}", remedy=remedy)
            return _decoded(file.read(_LARGEST), self._path)


def _decoded(data: bytes, path: str) -> list[AccessToken]:
    try:
        rows = json.loads(data)
        if rows["version"] != _VERSION:
            raise StateError(f"{path} was written by a newer Holdfast", remedy="use that one, or make new tokens")
        return [AccessToken(**{**row, "role": ROLES[row["role"]]}) for row in rows["tokens"]]
    except (ValueError, TypeError, LookupError):
        remedy = "move it away, and make new tokens: nobody comes in with those that were in it"
        raise StateError(f"{path} is damaged", remedy=remedy) from None


def _check(name: str, role: str, session: str | None, expires_ns: int | None, now_ns: int) -> None:
    if not 0 < len(name) <= _LONGEST_NAME or not _LETTERS.issuperset(name):
        remedy = f"use at most {_LONGEST_NAME} letters, digits, `.`, `_` and `-`"
        raise SpecError(f"{name[:80]!r} is not the name of a token", field="name", remedy=remedy)
    if role not in ROLES:
        raise SpecError(f"there is no role {role[:80]!r}", field="role", remedy=f"these are: {', '.join(ROLES)}")
    if session is not None:
        make_spec(("true",), session=session)  # the spec has the rule for session names
        if role == Role.ADMIN.word:
            remedy = "leave the session out, or use the role operate"
            raise SpecError("an admin is not bound to a session", field="session", remedy=remedy)
    if expires_ns is not None and expires_ns <= now_ns:
        raise SpecError("the end date has passed", field="expires_at", remedy="give a time to come")


def _digest(secret: str) -> str:
    return sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()
