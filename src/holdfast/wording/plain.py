"""Values as text for people: escaped text, command lines, durations, sizes, local times."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

# Printable characters that change the direction of the text after them, so that it reads as another text.
_TURNING = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_UNITS = ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "m"), (60, "m", 1, "s"))


def plain(text: object) -> str:
    """Escape every character that a terminal would obey or not show; printable text stays as it is."""
    string = str(text)
    if string.isprintable() and _TURNING.isdisjoint(string):
        return string
    return "".join(
        character
        if character.isprintable() and character not in _TURNING
        else character.encode("unicode_escape").decode("ascii")
        for character in string
    )


def command_line(argv: Iterable[object] | None) -> str:
    """A command as a user would type it in a shell; `?` when it is not on record."""
    from shlex import quote

    return plain(" ".join(quote(str(word)) for word in argv)) if argv else "?"


def span(seconds: float | None) -> str:
    """A duration: `250ms`, `1.5s`, `2m05s`, `3h10m`; `-` when it is not known."""
    if seconds is None:
        return "-"
    if seconds < 1:
        return f"{max(0, round(seconds * 1000))}ms"
    if seconds < 60:
        return f"{seconds:.1f}s"
    for unit, name, smaller, smaller_name in _UNITS:
        if seconds >= unit:
            return f"{int(seconds // unit)}{name}{int(seconds % unit // smaller):02d}{smaller_name}"
    return f"{seconds:.0f}s"


def ago(wall_ns: int | None, now_ns: int) -> str:
    """How long ago a time was, in its largest unit: `5s ago`, `3h ago`, `2d ago`; `-` when it is not known."""
    if wall_ns is None:
        return "-"
    seconds = max(0, now_ns - wall_ns) // 1_000_000_000
    for unit, name in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= unit:
            return f"{seconds // unit}{name} ago"
    return f"{seconds}s ago"


def size(count: int | None) -> str:
    """A number of bytes: `512B`, `1.5K`, `20M`; `-` when it is not known."""
    if count is None:
        return "-"
    value, unit = float(count), "B"
    for larger in "KMGT":
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{count}B" if unit == "B" else f"{value:.1f}{unit}"


def local_time(wall_ns: int | None) -> str:
    """A time in the local time zone of the reader, which is named; `-` when it is not known."""
    if wall_ns is None:
        return "-"
    return time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(wall_ns // 1_000_000_000))
