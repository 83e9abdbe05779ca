"""Edits of a JSON text: set a member, append an item, take one out. Everything else stays as it is, byte for byte."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from .errors import SettingsError
from .json_tree import parse, skip

if TYPE_CHECKING:
    from typing import Any

    from .json_tree import Node, Path


def put(text: str, path: Path, value: Any) -> str:
    """Set the member at this path, and make the objects on the way. SettingsError: something else is in the way."""
    root = parse(text)
    if (old := root.at(path)) is not None:
        return text[: old.start] + _shown(text, value, len(path)) + text[old.end :]
    parent, missing = _parent(root, path)
    for key in reversed(path[len(missing) + 1 :]):
        value = {key: value}
    member = f"{json.dumps(path[len(missing)])}: {_shown(text, value, len(missing) + 1)}"
    return _insert(text, parent, member, len(missing) + 1)


def append(text: str, path: Path, item: Any) -> str:
    """Append an item to the array at this path; make the array when it is missing."""
    array = parse(text).at(path)
    if array is None:
        return put(text, path, [item])
    if not isinstance(array.value, list):
        raise SettingsError(f"{dotted(path)} is no list")
    return _insert(text, array, _shown(text, item, len(path) + 1), len(path) + 1)


def drop(text: str, path: Path) -> str:
    """Take out the member or item at this path, and then each object and array that this leaves empty."""
    text = _drop_one(text, path)
    while len(path) > 1:
        path = path[:-1]
        parent = parse(text).at(path)
        if parent is None or parent.parts:
            break
        text = _drop_one(text, path)
    return text


def dotted(path: Path) -> str:
    """A path as people write it: `hooks.SessionStart`."""
    return ".".join(str(step) for step in path)


def _parent(root: Node, path: Path) -> tuple[Node, Path]:
    """The innermost object on the path, and the path to it."""
    depth = 0
    node = root
    while (inner := node.part(path[depth])) is not None and depth < len(path) - 1:
        node, depth = inner, depth + 1
    if not isinstance(node.value, dict):
        raise SettingsError(f"{dotted(path[:depth]) or 'the file'} is no object")
    return node, path[:depth]


def _insert(text: str, container: Node, added: str, depth: int) -> str:
    """Put text for a new last part into an object or array."""
    newline = "\r\n" if "\r\n" in text else "\n"
    indent = newline + _unit(text) * depth
    close = container.end - 1
    if not container.parts:
        inside = text[container.start + 1 : close].rstrip()
        outer = newline + _unit(text) * (depth - 1)
        return f"{text[: container.start + 1]}{inside}{indent}{added}{outer}{text[close:]}"
    last = container.parts[-1].end
    comma = skip(text, last)
    has_comma = text[comma : comma + 1] == ","
    after = comma + 1 if has_comma else last
    # A comment on the same line belongs to the part before it.
    end = _line_comment_end(text, after, close)
    if "\n" not in text[container.start : container.end]:
        indent = " "
    comma_before, comma_after = (text[last:after], ",") if has_comma else (",", "")
    return f"{text[:last]}{comma_before}{text[after:end]}{indent}{added}{comma_after}{text[end:]}"


def _line_comment_end(text: str, at: int, close: int) -> int:
    line_end = text.find("\n", at, close)
    rest = text[at : close if line_end < 0 else line_end]
    if not rest.strip().startswith(("//", "/*")) or skip(text, at) < at + len(rest.rstrip()):
        return at
    return at + len(rest.rstrip())


def _drop_one(text: str, path: Path) -> str:
    container = parse(text).at(path[:-1])
    node = None if container is None else container.part(path[-1])
    if container is None or node is None:
        return text
    place = container.parts.index(node)
    end = node.end
    left = len(text[: container.part_start(place)].rstrip())
    comma = skip(text, end)
    if text[comma : comma + 1] == ",":
        end = comma + 1
    elif place > 0:  # the last one takes the comma before it along
        before = skip(text, container.parts[place - 1].end)
        return text[:before] + text[before + 1 : left] + text[end:]
    rest = text[end:]
    is_alone = len(container.parts) == 1 and text[left - 1] in "{[" and rest.lstrip()[0] in "}]"
    return text[:left] + (rest.lstrip() if is_alone else rest)


def _shown(text: str, value: Any, depth: int) -> str:
    unit = _unit(text)
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = json.dumps(value, indent=unit, ensure_ascii=False).split("\n")
    return (newline + unit * depth).join(lines)


def _unit(text: str) -> str:
    """The indentation of one step: that of the first member; two spaces when the file has none."""
    root = parse(text)
    if root.parts:
        start = root.part_start(0)
        line = text[text.rfind("\n", 0, start) + 1 : start]
        if line and not line.strip() and text.rfind("\n", 0, start) > root.start:
            return line
    return "  "
