"""Gemini CLI: hooks for the shell tool and for the start and the end of a session, and its stdio MCP servers.

Seen with 0.61.0. Gemini CLI runs its hook before it checks its policy, and it checks what the hook returns. So the hook
leaves the command whole and readable, and puts one more command before it, which reads the shell entry: every rule
about the command still sees it. A rule that allows the command alone does not match the pair, and the user is asked.
"""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

from .json_hooks import add_hook, remove_hooks, settings_object, unwrap_servers, wrap_servers
from .managed_file import ManagedFile, own_file
from .shell_entry import by_source

if TYPE_CHECKING:
    from .managed_file import Commands, Where

SHELL_TOOL = "run_shell_command"
_SERVERS = ("mcpServers",)
_EVENTS = (("BeforeTool", "before-tool"), ("SessionStart", "session-start"), ("SessionEnd", "session-end"))
_TIMEOUT_MS = 15_000


def directory(home: str) -> str:
    """The directory of the user's settings."""
    return os.path.join(os.environ.get("GEMINI_CLI_HOME") or home, ".gemini")


def files(where: Where, commands: Commands) -> list[ManagedFile]:
    """The shell entry, and the settings file."""
    own = os.path.join(where.directory, ".gemini") if where.is_project else directory(where.home)
    entry = commands.entry("gemini", where)
    settings = os.path.join(own, "settings.json")
    return [
        own_file(entry, by_source(commands, "gemini")),
        ManagedFile(settings, lambda text: _add(text, commands, entry), _remove),
    ]


def _add(text: str | None, commands: Commands, entry: str) -> str:
    text, _ = settings_object(text)
    for event, name in _EVENTS:
        is_tool = event == "BeforeTool"
        line = shlex.join(commands.hook(name, "gemini", *(["--entry", entry] if is_tool else [])))
        hook = {"type": "command", "name": "holdfast", "command": line, "timeout": _TIMEOUT_MS}
        text = add_hook(text, event, {**({"matcher": SHELL_TOOL} if is_tool else {}), "hooks": [hook]})
    return wrap_servers(text, _SERVERS, commands)


def _remove(text: str) -> str:
    return unwrap_servers(remove_hooks(text), _SERVERS)
