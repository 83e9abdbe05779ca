"""When a session last looked at its runs: `STATE/looks/NAME`, a time as in reports."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ..state.directory import state_error
from ..state.owned_files import write_atomically
from ..state.session_names import file_name

if TYPE_CHECKING:
    from ..state.directory import StateDirectory


def last_look(state: StateDirectory, session: str) -> str | None:
    """The time of the last look; None when the session has never looked."""
    try:
        with open(_path(state, session), encoding="ascii") as file:
            return file.read(100).strip() or None
    except (OSError, ValueError):
        return None  # what is told twice does no harm


def keep_look(state: StateDirectory, session: str, at: str) -> None:
    """Remember a look. StateError: it cannot be kept."""
    path = _path(state, session)
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        write_atomically(path, at.encode("ascii"))
    except OSError as error:
        raise state_error(error, path) from None


def _path(state: StateDirectory, session: str) -> str:
    return os.path.join(state.path, "looks", file_name(session))
