"""JSON with comments as a tree with places: where in the text each value begins and ends.

Settings files of harnesses have comments and commas after the last member. A parser that gives only values would lose
them, so an edit works on the text, and this tree says where.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, NamedTuple

from .errors import SettingsError

if TYPE_CHECKING:
    from typing import Any

    Path = tuple[str | int, ...]

_TRIVIA = re.compile(r"(?:[ \t\r\n\ufeff]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_ATOM = re.compile(r"-?[0-9][0-9.eE+-]*|true|false|null")
_DEEPEST = 100


class Node(NamedTuple):
    """A value: its place in the text, and its parts. `keys` are those of an object, in the order of `parts`."""

    start: int
    end: int
    value: Any
    parts: tuple[Node, ...] = ()
    keys: tuple[str, ...] = ()
    key_starts: tuple[int, ...] = ()

    def at(self, path: Path) -> Node | None:
        """The value at this path; None when there is none. Of two members with one key the last counts."""
        node: Node | None = self
        for step in path:
            node = None if node is None else node.part(step)
        return node

    def part(self, step: str | int) -> Node | None:
        """A member by its key, or an item by its number; None when there is none."""
        if isinstance(step, int):
            return self.parts[step] if isinstance(self.value, list) and step < len(self.parts) else None
        places = [place for place, key in enumerate(self.keys) if key == step]
        return self.parts[places[-1]] if places else None

    def part_start(self, place: int) -> int:
        """Where a part begins: at its key, if it has one."""
        return self.key_starts[place] if self.key_starts else self.parts[place].start


def parse(text: str) -> Node:
    """The tree of a text. SettingsError: it is not JSON, comments and commas at the end allowed."""
    node = _value(text, skip(text, 0), 0)
    if skip(text, node.end) != len(text):
        raise _wrong(text, skip(text, node.end))
    return node


def skip(text: str, at: int) -> int:
    """Where the next token is: after spaces and comments."""
    found = _TRIVIA.match(text, at)
    return found.end() if found else at


def _value(text: str, at: int, depth: int) -> Node:
    if depth > _DEEPEST:
        raise _wrong(text, at)
    if text[at : at + 1] in ("{", "["):
        return _container(text, at, depth)
    found = _STRING.match(text, at) or _ATOM.match(text, at)
    try:
        return Node(at, found.end(), json.loads(found[0])) if found else _fail(text, at)
    except ValueError:
        raise _wrong(text, at) from None


def _container(text: str, start: int, depth: int) -> Node:
    is_object = text[start] == "{"
    close = "}" if is_object else "]"
    parts: list[Node] = []
    keys: list[str] = []
    key_starts: list[int] = []
    at = skip(text, start + 1)
    while text[at : at + 1] != close:
        if is_object:
            key_starts.append(at)
            key = _STRING.match(text, at) or _fail(text, at)
            keys.append(json.loads(key[0]))
            colon = skip(text, key.end())
            at = skip(text, colon + 1) if text[colon : colon + 1] == ":" else _fail(text, colon)
        parts.append(_value(text, at, depth + 1))
        at = skip(text, parts[-1].end)
        if text[at : at + 1] == ",":
            at = skip(text, at + 1)
        elif text[at : at + 1] != close:
            _fail(text, at)
    values = [part.value for part in parts]
    value = dict(zip(keys, values, strict=True)) if is_object else values
    return Node(start, at + 1, value, tuple(parts), tuple(keys), tuple(key_starts))


def _fail(text: str, at: int) -> Any:
    raise _wrong(text, at)


def _wrong(text: str, at: int) -> SettingsError:
    return SettingsError(f"it is not valid JSON: line {text.count(chr(10), 0, at) + 1} cannot be read")
