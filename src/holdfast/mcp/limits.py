"""What a client may ask for: how long, where, how much at once. Set when the server is started, never by a client.

The directories are about where commands start, not about what they can reach: a command can go anywhere its user may.
Whoever needs a wall puts the server into a container or a sandbox.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from ..values.durations import format_duration
from ..values.errors import HoldfastError, SpecError

MOST_INPUT_BYTES = 64 << 10  # what a pipe takes while nobody reads it, so that a call does not hang on its input
MOST_WAIT_S = 600.0
MOST_ANSWER_BYTES = 1 << 20
ANSWER_BYTES = 32 << 10
WAIT_S = 10.0


class LimitError(HoldfastError):
    """Asked for more than this server allows."""


class ServerLimits(NamedTuple):
    """The limits of one server. `directories` are real paths: no symbolic link is left in them."""

    directories: tuple[str, ...]
    max_timeout_s: float = 3600.0
    max_output_bytes: int = 64 << 20
    max_runs: int = 16

    def directory(self, asked: str | None) -> str:
        """The real path of the directory to start in; the first allowed one when none was asked for.

        LimitError when it is not below an allowed one, wherever its links lead. What is returned is what was checked:
        a link that is moved afterwards changes nothing.
        """
        if asked is None:
            return self.directories[0]
        real = os.path.realpath(os.path.join(self.directories[0], asked))
        if not any(is_within(real, allowed) for allowed in self.directories):
            remedy = f"use one below {' or '.join(self.directories)}"
            raise LimitError(f"commands may not start in {asked!r} ({real})", remedy=remedy)
        if not os.path.isdir(real):
            raise SpecError(f"there is no directory {asked!r}", field="cwd", remedy="make it, or start elsewhere")
        return real

    def timeout(self, asked_s: float | None) -> float:
        """How long a run may take; all that is allowed when nothing was asked for. LimitError when it is too long."""
        if asked_s is not None and asked_s > self.max_timeout_s:
            longest = format_duration(self.max_timeout_s)
            remedy = f"ask for at most {self.max_timeout_s:g} ({longest}), or split the work"
            raise LimitError(f"a timeout of {asked_s:g} s is longer than this server allows", remedy=remedy)
        return self.max_timeout_s if asked_s is None else asked_s

    def admit(self, live: int) -> None:
        """LimitError when that many live runs leave no room for another."""
        if live >= self.max_runs:
            remedy = "wait for one or cancel one; `list` shows them"
            raise LimitError(f"{live} runs are live, and this server allows {self.max_runs}", remedy=remedy)


def is_within(path: str, directory: str) -> bool:
    """Whether a real path is this directory or below it."""
    return os.path.commonpath((path, directory)) == directory


def real_directories(asked: list[str]) -> tuple[str, ...]:
    """The allowed directories, from what the command line says; the current one when it says nothing.

    SpecError when one is not a directory: a typing error must not look like a limit.
    """
    found = []
    for path in asked or ["."]:
        real = os.path.realpath(path)
        if not os.path.isdir(real):
            raise SpecError(f"--allow-dir {path!r} is no directory", field="cwd", remedy="name one that is there")
        found.append(real)
    return tuple(found)
