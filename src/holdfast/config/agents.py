"""Agents of the daemon: `[agents.NAME]` names a command, how its prompt goes in, how its answer comes out, its limits.

A client chooses an agent by its name and gives a prompt. Everything else about the command comes from here, and never
from a client.
"""

from __future__ import annotations

import os
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple

from ..values.durations import parse_duration
from ..values.errors import SpecError
from ..values.fields import check_line
from ..values.options import HTTP, OPTIONS
from ..values.spec import make_spec
from .kinds import SettingKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..values.spec import RunSpec

PLACEHOLDER = "{prompt}"
ARGUMENT, STDIN, TEMPLATE = PROMPTS = ("argument", "stdin", "template")
TEXT_ANSWER, LAST_LINE, JSON_ANSWER = "text", "last_line", "json:"
_OWN = ("command", "prompt", "answer", "description", "priority", "queue_timeout")
# Options that an agent cannot have: the daemon sets them, and `pty` would mix control characters into the answer.
_NOT_SET = ("stdin", "pty", "labels", "name", "run_id", "parent")
_LIMITS = {option.name: option for option in OPTIONS if HTTP in option.surfaces and option.name not in _NOT_SET}
_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
_LONGEST_NAME = 64


class Agent(NamedTuple):
    """One agent. `options` are fields of its posted runs by their posted names, the fields of the queue included."""

    name: str
    command: tuple[str, ...]
    prompt: str  # argument, stdin or template
    answer: str  # text, last_line or json:PATH
    description: str
    options: Mapping[str, Any]

    def __repr__(self) -> str:
        # The generated repr would show values of the environment, and reprs end up in logs.
        return f"Agent({self.name!r})"


def read_agents(value: dict[str, Any], name: str) -> dict[str, Agent]:
    """The agents of the file's table. SpecError names the first field that is wrong."""
    if not isinstance(value, dict):
        raise SpecError(f"{name} is not a table", field=name, remedy="write [agents.NAME] in the file")
    return {agent: _agent(agent, table, f"{name}.{agent}") for agent, table in value.items()}


def _agent(name: str, table: Any, field: str) -> Agent:
    if not (1 <= len(name) <= _LONGEST_NAME and _NAME_CHARACTERS.issuperset(name)):
        remedy = f"use 1 to {_LONGEST_NAME} letters, digits, _ and -"
        raise SpecError(f"agents has the name {name[:80]!r}", field=field, remedy=remedy)
    if not isinstance(table, dict):
        raise SpecError(f"{field} is not a table", field=field, remedy=f"write [{field}], and its settings below")
    for key in table:
        if key not in _OWN and key not in _LIMITS:
            near = get_close_matches(key, (*_OWN, *_LIMITS), 1)
            remedy = f"did you mean {near[0]}?" if near else "docs/agents.md lists what an agent can have"
            raise SpecError(f"{field}.{key} is unknown", field=f"{field}.{key}", remedy=remedy)
    command = _command(table, field)
    return Agent(
        name,
        command,
        _prompt(table, field, command),
        _answer(table.get("answer", TEXT_ANSWER), f"{field}.answer"),
        _line(table.get("description", f"{name} as a service"), f"{field}.description"),
        {**_limits(table, field, command), **_queueing(table, field)},
    )


def _command(table: dict[str, Any], field: str) -> tuple[str, ...]:
    command = table.get("command")
    if not isinstance(command, list) or not command or not all(isinstance(word, str) for word in command):
        remedy = 'write the program and its arguments, such as command = ["claude", "-p"]'
        raise SpecError(f"{field}.command is not a list of text", field=f"{field}.command", remedy=remedy)
    return tuple(command)


def _prompt(table: dict[str, Any], field: str, command: tuple[str, ...]) -> str:
    has_place = any(PLACEHOLDER in word for word in command[1:])
    found = table.get("prompt", TEMPLATE if has_place else ARGUMENT)
    if found not in PROMPTS:
        remedy = f"use one of {', '.join(PROMPTS)}"
        raise SpecError(f"{field}.prompt {str(found)[:40]!r} is unknown", field=f"{field}.prompt", remedy=remedy)
    if (found == TEMPLATE) != has_place:
        remedy = f'write {PLACEHOLDER} in an argument of the command and prompt = "{TEMPLATE}", or neither'
        raise SpecError(f"{field}.prompt does not fit the command", field=f"{field}.prompt", remedy=remedy)
    return str(found)


def _answer(value: Any, field: str) -> str:
    known = value in (TEXT_ANSWER, LAST_LINE)
    if not known and not (isinstance(value, str) and value.startswith(JSON_ANSWER) and len(value) > len(JSON_ANSWER)):
        remedy = f"use {TEXT_ANSWER}, {LAST_LINE} or {JSON_ANSWER}PATH, such as {JSON_ANSWER}result"
        raise SpecError(f"{field} {str(value)[:40]!r} is unknown", field=field, remedy=remedy)
    return _line(value, field)


def _line(value: Any, field: str) -> str:
    return check_line(value, field, 1000)


def _limits(table: dict[str, Any], field: str, command: tuple[str, ...]) -> dict[str, Any]:
    """The limits by their posted names, checked like the options of every run. SpecError names the wrong field."""
    given = {name: value for name, value in table.items() if name in _LIMITS}
    try:
        spec = make_spec(command, **given)
    except SpecError as error:
        at = "command" if error.field in (None, "argv") else error.field
        raise SpecError(f"{field}.{at}: {error.message}", field=f"{field}.{at}", remedy=error.remedy) from None
    if spec.cwd is not None and not os.path.isabs(spec.cwd):
        remedy = "give an absolute path: the daemon's own directory says nothing"
        raise SpecError(f"{field}.cwd is relative", field=f"{field}.cwd", remedy=remedy)
    return {_LIMITS[name].json_name: _posted(spec, name) for name in given}


def _posted(spec: RunSpec, name: str) -> Any:
    option = _LIMITS[name]
    value = getattr(spec, option.json_name)
    return value if option.to_json is None else option.to_json(value)


def _queueing(table: dict[str, Any], field: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if "queue_timeout" in table:
        found["queue_timeout_s"] = parse_duration(table["queue_timeout"], field=f"{field}.queue_timeout")
    if "priority" in table:
        priority = table["priority"]
        if not isinstance(priority, int) or isinstance(priority, bool) or not -1000 <= priority <= 1000:
            remedy = "write a whole number from -1000 to 1000"
            raise SpecError(f"{field}.priority is not a priority", field=f"{field}.priority", remedy=remedy)
        found["priority"] = priority
    return found


AGENTS = SettingKind(
    "TABLE", (dict,), "a table of tables", read_agents, lambda value: ", ".join(value) or "-", many=True
)
