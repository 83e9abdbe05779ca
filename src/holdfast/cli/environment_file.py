"""`--env-file`: NAME=VALUE lines."""

from __future__ import annotations

import os

from .options import UsageError


def read_environment(path: str) -> dict[str, str]:
    """The variables of a file. UsageError names the line that is wrong, never its text.

    Empty lines and lines that begin with # are skipped; `export ` before a name and one pair of quotes around a value
    are taken off; nothing else is interpreted.
    """
    try:
        with open(path, "rb") as file:
            lines = os.fsdecode(file.read()).splitlines()
    except OSError as error:
        raise UsageError(
            f"--env-file {path!r} cannot be read: {error.strerror}", remedy="name a file of NAME=VALUE lines"
        ) from None
    return dict(_variable(path, number, line) for number, line in enumerate(map(str.strip, lines), 1) if _counts(line))


def _counts(line: str) -> bool:
    return bool(line) and not line.startswith("#")


def _variable(path: str, number: int, line: str) -> tuple[str, str]:
    name, equals, value = line.removeprefix("export ").partition("=")
    name, value = name.strip(), value.strip()
    if not equals or not name:
        raise UsageError(f"--env-file {path!r}: line {number} is not NAME=VALUE", remedy="# begins a comment")
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
        value = value[1:-1]
    return name, value
