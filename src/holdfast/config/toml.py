"""A TOML file with the line number of every key.

`tomllib` gives no line numbers. This module finds them by parsing the file once more, statement by statement: it adds
lines until they parse, which works for every way to write a key or a value.
"""

from __future__ import annotations

import os
import re
import stat
from typing import Any

from ..values.errors import ConfigError

_LARGEST = 1 << 20
_AT_LINE = re.compile(r"(.*) \(at line (\d+), column \d+\)$", re.DOTALL)


def _check_owner(found: os.stat_result, path: str) -> None:
    """Refuse a file that another user can change: it names commands, and its writer could run anything as us."""
    if not stat.S_ISREG(found.st_mode):
        return  # such as a pipe that its user names on the command line
    if found.st_uid not in (os.geteuid(), 0):
        remedy = "make a copy that is yours"
        raise ConfigError(f"{path}: it belongs to user {found.st_uid}", file=path, remedy=remedy)
    if found.st_mode & 0o022:
        raise ConfigError(f"{path}: others may write to it", file=path, remedy=f"look at it, then chmod go-w {path}")


class TomlFile:
    """A parsed file. ConfigError: it cannot be read, or is not TOML. No error repeats its text, which may be secret."""

    def __init__(self, path: str) -> None:
        import tomllib

        self.path = path
        self._lines: dict[tuple[str, ...], int] | None = None
        try:
            with open(path, "rb") as file:
                _check_owner(os.fstat(file.fileno()), path)
                data = file.read(_LARGEST + 1)
        except OSError as error:
            remedy = "name another file with --config, or make it readable"
            raise ConfigError(f"{path}: it cannot be read: {error.strerror}", file=path, remedy=remedy) from None
        if len(data) > _LARGEST:
            raise ConfigError(f"{path}: it is larger than a mebibyte", file=path, remedy="is this the right file?")
        try:
            self.text = data.decode()
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise ConfigError(
                f"{path}:{line}: it is not UTF-8", file=path, line=line, remedy="save it as UTF-8"
            ) from None
        try:
            self.values: dict[str, Any] = tomllib.loads(self.text)
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise self._not_toml(error) from None

    def line(self, path: tuple[str, ...]) -> int | None:
        """The line on which this key, or this table, first appears; None when the file does not have it."""
        if self._lines is None:
            self._lines = _lines_of(self.text)
        return self._lines.get(path)

    def _not_toml(self, error: Exception) -> ConfigError:
        found = _AT_LINE.match(str(error))
        what, line = (found[1], int(found[2])) if found else (str(error), self.text.count("\n") + 1)
        what = (what[:1].lower() + what[1:]).removesuffix(" (at end of document)")
        remedy = "correct it; text needs quotes, and every key is given once"
        return ConfigError(f"{self.path}:{line}: {what}", file=self.path, line=line, remedy=remedy)


def _lines_of(text: str) -> dict[tuple[str, ...], int]:
    """The first line of each key. The whole text is TOML, so lines that parse alone are one or more statements."""
    import tomllib

    found: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    statement, begun = "", 1
    for number, row in enumerate(text.split("\n"), 1):
        statement += f"{row}\n"
        try:
            values = tomllib.loads(statement)
        except tomllib.TOMLDecodeError:
            continue
        paths = _paths(values, ())
        is_table = statement.lstrip().startswith("[")
        if is_table:
            table = paths[-1]
        for path in paths:
            found.setdefault(path if is_table else (*table, *path), begun)
        statement, begun = "", number + 1
    return found


def _paths(values: dict[str, Any], above: tuple[str, ...]) -> list[tuple[str, ...]]:
    found = []
    for key, value in values.items():
        found.append((*above, key))
        if isinstance(value, dict):
            found += _paths(value, (*above, key))
    return found
