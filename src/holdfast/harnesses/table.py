"""The harnesses into whose settings Holdfast can write: which are here, and which module edits each one."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, NamedTuple

from ..values.harnesses import HARNESSES
from . import claude, codex, gemini, opencode
from .errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .managed_file import Commands, ManagedFile, Where


class Installable(NamedTuple):
    """One harness: its name and program, its settings' directory, and its files."""

    name: str
    title: str
    programs: tuple[str, ...]
    directory: Callable[[str], str]
    files: Callable[[Where, Commands], list[ManagedFile]]
    seen_with: str  # the version whose settings were tried
    remark: str = ""  # what the user has to do or to know after the installation

    def is_here(self, home: str) -> bool:
        """Whether it is on the PATH, or has settings."""
        return any(map(shutil.which, self.programs)) or os.path.isdir(self.directory(home))


_KNOWN = {harness.name: harness for harness in HARNESSES}


def _row(name: str, module: object, seen_with: str, remark: str = "") -> Installable:
    known = _KNOWN[name]
    return Installable(name, known.title, known.programs, module.directory, module.files, seen_with, remark)  # type: ignore[attr-defined]


INSTALLABLE: tuple[Installable, ...] = (
    _row("claude", claude, "2.1.326"),
    _row("codex", codex, "0.169.0", "Codex asks once to review the new hooks: open it and type /hooks."),
    _row("gemini", gemini, "0.61.0"),
    _row("opencode", opencode, "1.18.33"),
)


def choose(names: Sequence[str], home: str) -> list[Installable]:
    """The harnesses of these names; without names, all that are here. SettingsError: unknown, or not here."""
    if not names:
        found = [row for row in INSTALLABLE if row.is_here(home)]
        if not found:
            known = ", ".join(row.title for row in INSTALLABLE)
            raise SettingsError("no agent harness was found here", remedy=f"these are known: {known}")
        return found
    return [_find(name, home) for name in dict.fromkeys(names)]


def _find(name: str, home: str) -> Installable:
    row = next((row for row in INSTALLABLE if row.name == name), None)
    if row is None:
        raise SettingsError(f"{name!r} is no harness that we know", remedy=f"use one of {', '.join(_names())}")
    if not row.is_here(home):
        where = f"no {' or '.join(row.programs)} on the PATH, and no {row.directory(home)}"
        raise SettingsError(f"{row.title} is not installed here", remedy=f"there is {where}")
    return row


def _names() -> list[str]:
    return [row.name for row in INSTALLABLE]
