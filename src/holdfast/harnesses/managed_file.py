"""The interface of a harness's edits: which files there are, how Holdfast gets into one, and how it gets out again."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from .errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable

BEGIN = "# >>> holdfast >>>"
END = "# <<< holdfast <<<"
MADE_BY = "Made by `holdfast install"


class Commands(NamedTuple):
    """The commands that go into settings. They are absolute, and they name the state directory."""

    holdfast: str
    holdfast_sh: str
    state_dir: str

    def hook(self, event: str, harness: str, *more: str) -> list[str]:
        """The command of a hook."""
        return [self.holdfast, "hook", event, "--harness", harness, "--state-dir", self.state_dir, *more]

    def entry(self, harness: str, where: Where) -> str:
        """The path of a shell entry. Each installation has its own, so that none takes away that of another."""
        tag = sha256(os.fsencode(where.directory)).hexdigest()[:8] if where.is_project else "user"
        return os.path.join(self.state_dir, "harnesses", f"{harness}-{tag}.bash")

    def stdio(self) -> list[str]:
        """The words that stand before the command of a stdio server."""
        return [self.holdfast, "stdio", "--state-dir", self.state_dir, "--"]


class Where(NamedTuple):
    """Whose settings: those of the user, or those of the project in `directory`."""

    is_project: bool
    home: str
    directory: str


class ManagedFile(NamedTuple):
    """One file of a harness. `add` gets its text without Holdfast (None: no file) and returns it with Holdfast.

    `remove` gets a text that may have changed since, and returns it without our parts; None when nothing else is in it.
    Both raise SettingsError for a shape that they do not know. `add` returns None when the file needs no change.
    """

    path: str
    add: Callable[[str | None], str | None]
    remove: Callable[[str], str | None]


def own_file(path: str, content: str) -> ManagedFile:
    """A file that is ours alone. A file of another origin in its place is left alone."""

    def add(text: str | None) -> str:
        if text is not None:
            raise SettingsError("this file is not ours", remedy="move it away, and run the command again")
        return content

    return ManagedFile(path, add, lambda text: None if MADE_BY in text.partition("\n")[0] else text)


def own_commands(state_dir: str) -> Commands:
    """The commands of this installation. SettingsError: one of them is missing."""
    return Commands(_program("holdfast"), _program("holdfast-sh"), os.path.abspath(state_dir))


def is_holdfast(word: object, name: str = "holdfast") -> bool:
    """Whether a word of a command is one of our programs, wherever it is installed."""
    return isinstance(word, str) and os.path.basename(word) == name


def is_own_hook(command: object) -> bool:
    """Whether a line for a shell is one of our hooks."""
    if not isinstance(command, str):
        return False
    try:
        words = shlex.split(command)
    except ValueError:
        return False
    return len(words) > 1 and is_holdfast(words[0]) and words[1] == "hook"


def unwrapped(words: list[str]) -> list[str] | None:
    """The command of a stdio server without ours before it; None when ours is not there."""
    if len(words) < 2 or not is_holdfast(words[0]) or words[1] != "stdio" or "--" not in words:
        return None
    return words[words.index("--") + 1 :]


def _program(name: str) -> str:
    beside = os.path.join(os.path.dirname(sys.executable), name)
    found = beside if os.access(beside, os.X_OK) else shutil.which(name)
    if found is None:
        raise SettingsError(f"there is no program {name} here", remedy="install Holdfast again (pip install holdfast)")
    return os.path.abspath(found)
