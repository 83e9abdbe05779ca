"""Patterns of the policy: names with stars, and paths in which a star stays in one directory."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def fits_name(name: str, patterns: Iterable[str]) -> bool:
    """Whether a name fits one of the patterns; a star stands for any characters."""
    return any(_compiled(pattern, ".*").fullmatch(name) for pattern in patterns)


def fits_path(path: str, patterns: Iterable[str]) -> bool:
    """Whether a path fits one of the patterns; a star stays in one directory, two stars do not."""
    return any(_compiled(pattern, "[^/]*").fullmatch(path) for pattern in patterns)


@lru_cache(1024)
def _compiled(pattern: str, star: str) -> re.Pattern[str]:
    parts = re.split(r"(\*+)", pattern)
    words = (star if part == "*" else ".*" if part.startswith("**") else re.escape(part) for part in parts)
    return re.compile("".join(words), re.DOTALL)
