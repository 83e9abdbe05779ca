"""The access token of a state directory: STATE/token, made at first use and readable by its user only."""

from __future__ import annotations

import os
import secrets
import stat

from ..values.errors import StateError
from .directory import state_error
from .owned_files import create, temporary_name

TOKEN_FILE = "token"
_TOKEN_BYTES = 32
_SHORTEST_TOKEN = 16


def load_token(state_path: str) -> str:
    """Read the token of this state directory (STATE/token, mode 0600); make it when there is none.

    StateError: the file cannot be made or read, other users may read it, or its content is no token.
    """
    path = os.path.join(state_path, TOKEN_FILE)
    try:
        _make_token(path)
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            found = os.fstat(fd)
            text = os.read(fd, 4096).decode("ascii", "replace").strip()
        finally:
            os.close(fd)
    except OSError as error:
        raise state_error(error, path) from None
    if found.st_uid not in (os.geteuid(), 0) or stat.S_IMODE(found.st_mode) & 0o077:
        raise StateError(f"others may read the token {path}", remedy="remove it; a new one is made at the next start")
    if len(text) < _SHORTEST_TOKEN or not text.isascii() or not text.isprintable() or " " in text:
        raise StateError(f"{path} holds no token", remedy="remove it; a new one is made at the next start")
    return text


def _make_token(path: str) -> None:
    """Make the file atomically. An existing token is never replaced: clients may already have it."""
    if os.path.lexists(path):
        return
    temporary = temporary_name(path)
    fd = create(temporary)
    try:
        os.write(fd, secrets.token_urlsafe(_TOKEN_BYTES).encode() + b"\n")
        os.fsync(fd)
        os.link(temporary, path)
    except FileExistsError:
        pass
    finally:
        os.close(fd)
        os.unlink(temporary)
