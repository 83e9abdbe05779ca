"""Claude Code: its shell prefix, and hooks for the start and the end of a session.

Seen with 2.1.326. The prefix stands before every tool command, every stdio MCP server and every hook of the shell form;
so servers need no wrapper of their own. Claude Code takes the prefix as one path. Our hooks have the form with `args`,
which Claude Code starts without a shell, and so without the prefix. Permissions are checked before the prefix is added.
All three have the session in their environment; `values/harnesses.py` says what tells a tool command from the others.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ..values.environment import STATE_DIR
from .errors import SettingsError
from .json_edit import drop, put
from .json_hooks import add_hook, remove_hooks, settings_object
from .json_tree import parse
from .managed_file import ManagedFile, is_holdfast

if TYPE_CHECKING:
    from .managed_file import Commands, Where

PREFIX = "CLAUDE_CODE_SHELL_PREFIX"
_EVENTS = (("SessionStart", "session-start", 10), ("SessionEnd", "session-end", 15))


def directory(home: str) -> str:
    """The directory of the user's settings."""
    return os.environ.get("CLAUDE_CONFIG_DIR") or os.path.join(home, ".claude")


def files(where: Where, commands: Commands) -> list[ManagedFile]:
    """The one settings file. That of a project is the local one, as our paths are those of this host."""
    if where.is_project:
        path = os.path.join(where.directory, ".claude", "settings.local.json")
    else:
        path = os.path.join(directory(where.home), "settings.json")
    return [ManagedFile(path, lambda text: _add(text, commands), _remove)]


def _add(text: str | None, commands: Commands) -> str:
    text, settings = settings_object(text)
    environment = settings.get("env", {})
    if not isinstance(environment, dict):
        raise SettingsError("env is no object", remedy="is this a newer version? nothing was changed")
    for name, ours in ((PREFIX, commands.holdfast_sh), (STATE_DIR, commands.state_dir)):
        if environment.get(name, ours) != ours:
            raise SettingsError(f"env.{name} is set already, to {environment[name]!r}", remedy="remove it first")
        text = put(text, ("env", name), ours)
    for event, hook, timeout_s in _EVENTS:
        command, *words = commands.hook(hook, "claude")
        entry = {"type": "command", "command": command, "args": words, "timeout": timeout_s}
        text = add_hook(text, event, {"hooks": [entry]})
    return text


def _remove(text: str) -> str:
    settings = parse(text).value
    environment = settings.get("env") if isinstance(settings, dict) else None
    if isinstance(environment, dict) and is_holdfast(environment.get(PREFIX), "holdfast-sh"):
        text = drop(drop(text, ("env", PREFIX)), ("env", STATE_DIR))
    return remove_hooks(text)
