"""Limits of an MCP server: timeouts, start directories, output, runs at once. Set at its start, never by a client.

The directories limit where commands start, not what they can reach: a command can go anywhere its user may. To confine
commands, run the server in a container or a sandbox.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from ..values.durations import format_duration
from ..values.errors import HoldfastError, SpecError

MOST_INPUT_BYTES = 64 << 10  # the size of a pipe: that much input never makes a call wait for the command
MOST_WAIT_S = 600.0
MOST_ANSWER_BYTES = 1 << 20
ANSWER_BYTES = 32 << 10
WAIT_S = 10.0


class LimitError(HoldfastError):
    """A client asked for more than this server allows."""


class ServerLimits(NamedTuple):
    """The limits of one server. `directories` are real paths, without symbolic links."""

    directories: tuple[str, ...]
    max_timeout_s: float = 3600.0
    max_output_bytes: int = 64 << 20
    max_runs: int = 16

    def directory(self, asked: str | None) -> str:
        """The real path of the directory to start in; the first allowed one when none was asked for.

        LimitError: the real path is not below an allowed directory. The checked path itself is returned, so changing a
        link afterwards has no effect.
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
        """The timeout of a run: the longest allowed one when none was asked for. LimitError: `asked_s` is longer."""
        if asked_s is not None and asked_s > self.max_timeout_s:
            longest = format_duration(self.max_timeout_s)
            remedy = f"ask for at most {self.max_timeout_s:g} ({longest}), or split the work"
            raise LimitError(f"a timeout of {asked_s:g} s is longer than this server allows", remedy=remedy)
        return self.max_timeout_s if asked_s is None else asked_s

    def admit(self, live: int) -> None:
        """Check that another run may start. LimitError: there are too many live runs."""
        if live >= self.max_runs:
            remedy = "wait for one or cancel one; `list` shows them"
            raise LimitError(f"{live} runs are live, and this server allows {self.max_runs}", remedy=remedy)


def is_within(path: str, directory: str) -> bool:
    """Whether a real path is this directory or below it."""
    return os.path.commonpath((path, directory)) == directory


def real_directories(asked: list[str]) -> tuple[str, ...]:
    """The allowed directories of the command line as real paths; the current directory when there are none.

    SpecError: one of them is no directory, so that a typing error does not look like a limit.
    """
    found = []
    for path in asked or ["."]:
        real = os.path.realpath(path)
        if not os.path.isdir(real):
            raise SpecError(f"--allow-dir {path!r} is no directory", field="cwd", remedy="name one that is there")
        found.append(real)
    return tuple(found)
