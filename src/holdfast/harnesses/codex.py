"""Codex: BASH_ENV for its tool commands, hooks for the start and the end of a session, and its stdio MCP servers.

Seen with 0.169.0. A PreToolUse hook of Codex can change a command only if it also answers `allow`, and Codex then
checks its rules on the changed command. So we use no such hook: BASH_ENV leaves the command as it is. Codex asks its
user to review a new hook once (`/hooks`); we do not write that answer into the settings. Until then only the session
hooks are missing. The user's shell must be bash.
"""

from __future__ import annotations

import copy
import json
import os
import re
import shlex
from typing import TYPE_CHECKING

from . import toml_edit
from .errors import SettingsError
from .managed_file import ManagedFile, is_own_hook, own_file, unwrapped
from .shell_entry import by_bash_env

if TYPE_CHECKING:
    from typing import Any

    from .managed_file import Commands, Where

_POLICY, _SET, _BASH_ENV = "shell_environment_policy", "set", "BASH_ENV"
_OWN_ENTRY = r"/harnesses/codex-[a-z0-9]+\.bash"
_EVENTS = (("SessionStart", "session-start", 10), ("SessionEnd", "session-end", 3))


def directory(home: str) -> str:
    """The directory of the user's settings."""
    return os.environ.get("CODEX_HOME") or os.path.join(home, ".codex")


def files(where: Where, commands: Commands) -> list[ManagedFile]:
    """The shell entry, and config.toml. Codex reads that of a project only when the user trusts the project."""
    own = os.path.join(where.directory, ".codex") if where.is_project else directory(where.home)
    entry = commands.entry("codex", where)
    return [
        own_file(entry, by_bash_env(commands, "codex", "CODEX_SESSION_ID", "codex-")),
        ManagedFile(os.path.join(own, "config.toml"), lambda text: _add(text or "", commands, entry), _remove),
    ]


def _add(text: str, commands: Commands, entry: str) -> str:
    settings = toml_edit.load(text)
    wanted = copy.deepcopy(settings)
    text, block = _set_entry(text, settings, wanted, entry)
    for event, name, timeout_s in _EVENTS:
        line = shlex.join(commands.hook(name, "codex"))
        hook = {"type": "command", "command": line, "timeout": timeout_s}
        groups = wanted.setdefault("hooks", {}).setdefault(event, []) if _has_known_hooks(wanted) else None
        if not isinstance(groups, list):
            raise SettingsError(f"hooks.{event} has an unknown shape", remedy="nothing was changed")
        groups.append({"hooks": [hook]})
        block += [f"[[hooks.{event}]]", f"[[hooks.{event}.hooks]]"]
        block += [f"{key} = {json.dumps(value)}" for key, value in hook.items()]
    for name, server in _servers(settings).items():
        words = [*commands.stdio(), server["command"], *server.get("args", [])]
        if changed := toml_edit.prefix_command(text, _table(name), commands.stdio()):
            text = changed  # otherwise it is written in a way that we do not know, and stays as it is
            wanted["mcp_servers"][name] |= {"command": words[0], "args": words[1:]}
    return toml_edit.checked(toml_edit.add_block(text, block), wanted)


def _set_entry(text: str, settings: dict[str, Any], wanted: dict[str, Any], entry: str) -> tuple[str, list[str]]:
    """Set BASH_ENV: in the table that is there, or in our block."""
    policy = settings.get(_POLICY, {})
    variables = policy.get(_SET, {}) if isinstance(policy, dict) else None
    if not isinstance(variables, dict):
        raise SettingsError(f"{_POLICY}.{_SET} has an unknown shape", remedy="nothing was changed")
    if _BASH_ENV in variables:
        raise SettingsError(f"{_POLICY}.{_SET}.{_BASH_ENV} is set already", remedy="remove it first")
    wanted.setdefault(_POLICY, {}).setdefault(_SET, {})[_BASH_ENV] = entry
    if _SET not in policy:
        return text, [f"[{_POLICY}.{_SET}]", f"{_BASH_ENV} = {json.dumps(entry)}"]
    changed = toml_edit.add_key(text, f"{_POLICY}.{_SET}", _BASH_ENV, entry)
    changed = changed or toml_edit.add_inline_key(text, _POLICY, _SET, _BASH_ENV, entry)
    return changed or text, []  # a form that neither knows is refused by `checked`


def _remove(text: str) -> str:
    wanted = toml_edit.load(text)
    _forget(wanted)
    text = toml_edit.remove_key(toml_edit.remove_block(text), _BASH_ENV, _OWN_ENTRY)
    for name, server in _servers(toml_edit.load(text)).items():
        if inner := unwrapped([server["command"], *server.get("args", [])]):
            count = len(server["args"]) - len(inner) + 1
            text = toml_edit.unprefix_command(text, _table(name), count, inner[0]) or text
            wanted["mcp_servers"][name] |= {"command": inner[0], "args": inner[1:]}
    # A list that is left empty, and no list at all, are the same.
    found = toml_edit.load(text)
    if _plain(found) != _plain(wanted):
        raise SettingsError("our parts cannot be taken out", remedy="it was changed since; remove them by hand")
    return text


def _forget(settings: dict[str, Any]) -> None:
    """Take our parts out of the content."""
    variables = settings.get(_POLICY, {}).get(_SET, {})
    if re.search(f"{_OWN_ENTRY}$", str(variables.get(_BASH_ENV, ""))):
        del variables[_BASH_ENV]
    for groups in settings.get("hooks", {}).values() if _has_known_hooks(settings) else ():
        for group in groups if isinstance(groups, list) else ():
            group["hooks"] = [hook for hook in group.get("hooks", []) if not is_own_hook(hook.get("command"))]


def _plain(value: Any) -> Any:
    """The content without empty tables and lists."""
    if isinstance(value, dict):
        kept = {key: _plain(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if item not in ({}, [])}
    if isinstance(value, list):
        return [item for item in map(_plain, value) if item not in ({}, [])]
    return value


def _has_known_hooks(settings: dict[str, Any]) -> bool:
    return isinstance(settings.get("hooks", {}), dict)


def _table(server: str) -> str:
    is_bare = re.fullmatch(r"[A-Za-z0-9_-]+", server)
    return f"mcp_servers.{server if is_bare else json.dumps(server)}"


def _servers(settings: dict[str, Any]) -> dict[str, dict[str, Any]]:
    servers = settings.get("mcp_servers", {})
    if not isinstance(servers, dict):
        raise SettingsError("mcp_servers is no table", remedy="nothing was changed")
    return {
        name: server
        for name, server in servers.items()
        if isinstance(server, dict) and isinstance(server.get("command"), str)
    }
