"""The bytes that a command printed, as far as they can still be read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .scenes import FLOOD_LINE_BYTES, FLOOD_LINES

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from .scenes import Scene

_FLOOD_LINE = re.compile(rb"(?<!\d)0\d{%d}(?!\d)" % (FLOOD_LINE_BYTES - 2))


def printed(scene: Scene, token: str) -> int:
    """How many bytes the scene's commands print that a trial can recognise."""
    return FLOOD_LINES * FLOOD_LINE_BYTES if scene.flood else sum(map(len, words(scene, token)))


def words(scene: Scene, token: str) -> list[str]:
    """The words that the scene's commands print."""
    return [word.format(token=token) for word in scene.printed]


def recognise(scene: Scene, token: str, data: bytes) -> set[int | str]:
    """The lines, as numbers, or the words of the scene that the data has."""
    if scene.flood:
        return {int(line) for line in _FLOOD_LINE.findall(data)}
    return {word for word in words(scene, token) if word.encode() in data}


def size(recognised: Iterable[int | str]) -> int:
    """The bytes of recognised lines and words."""
    return sum(FLOOD_LINE_BYTES if isinstance(one, int) else len(one) for one in recognised)


def in_files(scene: Scene, token: str, root: Path, but: Iterable[Path]) -> set[int | str]:
    """The lines or words that the files below `root` have."""
    skipped = tuple(but)
    found: set[int | str] = set()
    for path in root.rglob("*"):
        if path.is_file() and not path.is_symlink() and not any(path.is_relative_to(other) for other in skipped):
            found |= recognise(scene, token, path.read_bytes())
    return found
