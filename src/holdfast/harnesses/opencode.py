"""OpenCode: a plugin for the shell tool's environment and the end of a session, and its local MCP servers.

Seen with 1.18.33. The plugin does not touch the command, so OpenCode asks its user about the command as it is. It sets
BASH_ENV for the bash of a tool command, which then reads the shell entry. A shell other than bash does not read it.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from .json_hooks import settings_object, unwrap_servers, wrap_servers
from .managed_file import MADE_BY, ManagedFile, own_file
from .shell_entry import by_bash_env

if TYPE_CHECKING:
    from .managed_file import Commands, Where

_SERVERS = ("mcp",)
_CONFIGS = ("opencode.json", "opencode.jsonc")
_PLUGIN = """\
// {made_by} opencode`; `holdfast uninstall opencode` removes it.
// Bash hands each tool command to Holdfast. The command itself, and what OpenCode asks about it, stay as they are.
import {{ spawn }} from "node:child_process"
import {{ existsSync }} from "node:fs"

const ENTRY = {entry}
const SESSION_END = {hook}

export const Holdfast = async () => ({{
  "shell.env": async (input, output) => {{
    if (!input.sessionID || !existsSync(ENTRY)) return
    output.env.BASH_ENV = ENTRY
    output.env.HOLDFAST_SESSION = "opencode-" + input.sessionID
  }},
  event: async ({{ event }}) => {{
    if (event.type !== "session.deleted") return
    const [program, ...words] = SESSION_END
    const hook = spawn(program, words, {{ stdio: ["pipe", "ignore", "ignore"] }})
    hook.on("error", () => {{}})
    hook.stdin.on("error", () => {{}})
    hook.stdin.end(JSON.stringify({{ session_id: event.properties.info.id }}))
  }},
}})
"""


def directory(home: str) -> str:
    """The directory of the user's settings."""
    return os.path.join(os.environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config"), "opencode")


def files(where: Where, commands: Commands) -> list[ManagedFile]:
    """The shell entry, the plugin, and each configuration file that is there."""
    own = os.path.join(where.directory, ".opencode") if where.is_project else directory(where.home)
    entry = commands.entry("opencode", where)
    hook = json.dumps(commands.hook("session-end", "opencode"))
    plugin = _PLUGIN.format(made_by=MADE_BY, entry=json.dumps(entry), hook=hook)
    places = [where.directory, own] if where.is_project else [own]
    configs = [path for place in places for name in _CONFIGS if os.path.exists(path := os.path.join(place, name))]
    return [
        own_file(entry, by_bash_env(commands, "opencode", "HOLDFAST_SESSION")),
        own_file(os.path.join(own, "plugins", "holdfast.js"), plugin),
        *(ManagedFile(path, lambda text: _add(text, commands), _remove) for path in configs),
    ]


def _add(text: str | None, commands: Commands) -> str:
    text, _ = settings_object(text)
    return wrap_servers(text, _SERVERS, commands)


def _remove(text: str) -> str:
    return unwrap_servers(text, _SERVERS)
