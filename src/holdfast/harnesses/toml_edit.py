"""Edits of a TOML text: a marked block at its end, a key in a table, words before a list. The rest stays as it is.

There is no tree of the text. Each edit handles the usual ways to write a thing; `checked` then compares what a parser
reads from the new text with what it should read, and refuses everything else.
"""

from __future__ import annotations

import json
import re
import tomllib
from typing import TYPE_CHECKING

from .errors import SettingsError
from .managed_file import BEGIN, END

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_HEADER = re.compile(r"^[ \t]*\[", re.MULTILINE)
_TEXT = r'"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\''
_BLOCK = re.compile(rf"\n?{re.escape(BEGIN)}.*?{re.escape(END)}\r?\n", re.DOTALL)


def load(text: str) -> dict[str, Any]:
    """The content of a TOML text. SettingsError: it is not valid."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"it is not valid TOML: {error}") from None


def checked(text: str, wanted: dict[str, Any]) -> str:
    """The text, if a parser reads `wanted` from it. SettingsError: it does not, so its shape is unknown to us."""
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        found = None
    if found != wanted:
        raise SettingsError(
            "its shape is unknown", remedy="nothing was changed; docs/harnesses.md has the lines to add"
        )
    return text


def add_block(text: str, lines: Sequence[str]) -> str:
    """Append a marked block."""
    newline = "\r\n" if "\r\n" in text else "\n"
    gap = "" if not text or text.endswith("\n") else newline
    block = newline.join([BEGIN, *lines, END])
    return f"{text}{gap}{newline if text else ''}{block}{newline}"


def remove_block(text: str) -> str:
    """Take out the marked block, with the empty line before it."""
    return _BLOCK.sub("", text)


def add_key(text: str, table: str, key: str, value: str) -> str | None:
    """Add a key right after the header of a table; None when the text has no such header."""
    header = re.search(rf"^[ \t]*\[[ \t]*{re.escape(table)}[ \t]*\][^\n]*\n", text, re.MULTILINE)
    if header is None:
        return None
    newline = "\r\n" if header[0].endswith("\r\n") else "\n"
    return f"{text[: header.end()]}{key} = {json.dumps(value)}{newline}{text[header.end() :]}"


def add_inline_key(text: str, table: str, name: str, key: str, value: str) -> str | None:
    """Add a key to an inline table `name = { ... }` of a table; None when there is none."""
    found = _line(text, table, rf"{re.escape(name)}[ \t]*=[ \t]*\{{[ \t]*")
    if found is None:
        return None
    end = found[1]
    comma = "" if text[end : end + 1] == "}" else ","
    return f"{text[:end].rstrip()} {key} = {json.dumps(value)}{comma} {text[end:].lstrip(' ')}"


def remove_key(text: str, key: str, ending: str) -> str:
    """Take out a key whose value ends like this pattern, with its line or from its inline table."""
    value = rf'{re.escape(key)} = "(?:[^"\\\n]|\\.)*?{ending}"'
    text = re.sub(rf"^{value}\r?\n", "", text, flags=re.MULTILINE)
    text = re.sub(rf"\{{ {value} \}}", "{}", text)
    return re.sub(rf" {value},", "", text)


def prefix_command(text: str, table: str, words: Sequence[str]) -> str | None:
    """Put words before the `command` and `args` of a table; None when it is not written in the usual way."""
    command = _line(text, table, rf"command[ \t]*=[ \t]*(?={_TEXT})")
    if command is None:
        return None
    old = re.compile(_TEXT).match(text, command[1])
    assert old is not None
    text = f"{text[: old.start()]}{json.dumps(words[0])}{text[old.end() :]}"
    items = ", ".join([*map(json.dumps, words[1:]), old[0]])
    args = _line(text, table, r"args[ \t]*=[ \t]*\[")
    if args is None:
        line_end = text.find("\n", command[1])
        line_end = len(text) if line_end < 0 else line_end
        return f"{text[:line_end]}\nargs = [{items}]{text[line_end:]}"
    comma = "" if text[args[1] :].lstrip().startswith("]") else ", "
    return f"{text[: args[1]]}{items}{comma}{text[args[1] :]}"


def unprefix_command(text: str, table: str, count: int, command: str) -> str | None:
    """Take out the first `count` items of `args`, and set `command`; None when that is written in an unusual way."""
    place = _line(text, table, rf"command[ \t]*=[ \t]*(?={_TEXT})")
    args = _line(text, table, r"args[ \t]*=[ \t]*\[")
    if place is None or args is None:
        return None
    old = re.compile(_TEXT).match(text, place[1])
    items = re.compile(rf"(?:[ \t\r\n]*(?:{_TEXT})[ \t]*(?:,[ \t]*|(?=[ \t\r\n]*\]))){{{count}}}").match(text, args[1])
    if old is None or items is None:
        return None
    edits = sorted([(old.start(), old.end(), json.dumps(command)), (items.start(), items.end(), "")], reverse=True)
    for start, end, new in edits:
        text = text[:start] + new + text[end:]
    # We wrote this line: nobody writes down that there are no arguments.
    return re.sub(r"^args = \[\]\n", "", text, count=1, flags=re.MULTILINE)


def _line(text: str, table: str, pattern: str) -> tuple[int, int] | None:
    """Where a line of this table matches."""
    header = re.search(rf"^[ \t]*\[[ \t]*{re.escape(table)}[ \t]*\][^\n]*$", text, re.MULTILINE)
    if header is None:
        return None
    following = _HEADER.search(text, header.end())
    end = following.start() if following else len(text)
    found = re.compile(rf"^[ \t]*{pattern}", re.MULTILINE).search(text, header.end(), end)
    return None if found is None else (found.start(), found.end())
