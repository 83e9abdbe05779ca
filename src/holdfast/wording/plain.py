"""Values for people: text that cannot do anything to a terminal, times and spans that can be read at a glance."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

# Besides what str.isprintable refuses: characters that turn the direction of what follows, so that it reads as another.
_TURNING = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_UNITS = ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "m"), (60, "m", 1, "s"))


def plain(text: object) -> str:
    """The text with everything escaped that a terminal would obey or not show; printable text stays as it is."""
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
    """A command as one would type it; `?` when it is not on record."""
    from shlex import quote

    return plain(" ".join(quote(str(word)) for word in argv)) if argv else "?"


def span(seconds: float | None) -> str:
    """How long: `250ms`, `1.5s`, `2m05s`, `3h10m`; `-` when it is not known."""
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


def size(count: int | None) -> str:
    """How many bytes: `512B`, `1.5K`, `20M`; `-` when it is not known."""
    if count is None:
        return "-"
    value, unit = float(count), "B"
    for larger in "KMGT":
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{count}B" if unit == "B" else f"{value:.1f}{unit}"


def local_time(wall_ns: int | None) -> str:
    """When, on the clock of whoever reads it; `-` when it is not known."""
    if wall_ns is None:
        return "-"
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(wall_ns // 1_000_000_000))
