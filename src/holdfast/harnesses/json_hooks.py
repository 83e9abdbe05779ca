"""Hooks and MCP servers in a JSON settings file, in the form that Claude Code, Gemini CLI and others share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .errors import SettingsError
from .json_edit import append, dotted, drop, put
from .json_tree import parse
from .managed_file import is_holdfast, is_own_hook, unwrapped

if TYPE_CHECKING:
    from typing import Any

    from .json_tree import Path
    from .managed_file import Commands


def settings_object(text: str | None) -> tuple[str, dict[str, Any]]:
    """The text of a settings file, and its content. A missing or empty file is an empty object."""
    text = text if text is not None and text.strip() else "{}\n"
    value = parse(text).value
    if not isinstance(value, dict):
        raise SettingsError("it holds no object", remedy="look at it; nothing was changed")
    return text, value


def add_hook(text: str, event: str, group: dict[str, Any]) -> str:
    """Append a group of hooks to an event. SettingsError: `hooks` has another shape than we know."""
    hooks = parse(text).value.get("hooks", {})
    if not isinstance(hooks, dict) or not isinstance(hooks.get(event, []), list):
        raise SettingsError(
            f"hooks.{event} has an unknown shape", remedy="is this a newer version? nothing was changed"
        )
    return append(text, ("hooks", event), group)


def remove_hooks(text: str) -> str:
    """Take our hooks out of every event; a group with other hooks keeps those."""
    while (path := _own_hook(parse(text).value)) is not None:
        text = drop(text, path)
        group = parse(text).at(path[:3])
        # `drop` removed the list of hooks if it was left empty. The rest of the group is then of no use.
        if group is not None and "hooks" not in group.value:
            text = drop(text, path[:3])
    return text


def _own_hook(settings: Any) -> Path | None:
    hooks = settings.get("hooks") if isinstance(settings, dict) else None
    for event, groups in hooks.items() if isinstance(hooks, dict) else ():
        for place, group in enumerate(groups if isinstance(groups, list) else ()):
            inner = group.get("hooks") if isinstance(group, dict) else None
            for number, hook in enumerate(inner if isinstance(inner, list) else ()):
                if isinstance(hook, dict) and _is_own(hook):
                    return ("hooks", event, place, "hooks", number)
    return None


def _is_own(hook: dict[str, Any]) -> bool:
    words = hook.get("args")
    if isinstance(words, list):
        return is_holdfast(hook.get("command")) and words[:1] == ["hook"]
    return is_own_hook(hook.get("command"))


def wrap_servers(text: str, path: Path, commands: Commands) -> str:
    """Put `holdfast stdio` before each stdio server of the object at this path. Other entries stay as they are."""
    for name, entry in _servers(text, path).items():
        command, args = entry.get("command"), entry.get("args") or []
        if isinstance(command, str) and isinstance(args, list):
            words = [*commands.stdio(), command, *args]
            text = put(put(text, (*path, name, "command"), words[0]), (*path, name, "args"), words[1:])
        elif isinstance(command, list) and command:
            text = put(text, (*path, name, "command"), [*commands.stdio(), *command])
    return text


def unwrap_servers(text: str, path: Path) -> str:
    """Take `holdfast stdio` out of each server of the object at this path."""
    for name, entry in _servers(text, path).items():
        command = entry.get("command")
        words = [command, *(entry.get("args") or [])] if isinstance(command, str) else command
        if not isinstance(words, list) or not (inner := unwrapped(words)):
            continue
        if isinstance(command, list):
            text = put(text, (*path, name, "command"), inner)
        else:
            text = put(text, (*path, name, "command"), inner[0])
            args = (*path, name, "args")
            text = put(text, args, inner[1:]) if inner[1:] else drop(text, args)
    return text


def _servers(text: str, path: Path) -> dict[str, dict[str, Any]]:
    found = parse(text).at(path)
    if found is None:
        return {}
    if not isinstance(found.value, dict):
        raise SettingsError(f"{dotted(path)} is no object", remedy="is this a newer version? nothing was changed")
    return {name: entry for name, entry in found.value.items() if isinstance(entry, dict)}
