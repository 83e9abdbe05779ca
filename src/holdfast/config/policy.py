"""The policy of the daemon: `[policy]` says what may be run, for everybody and for each role.

    [policy]
    programs = ["/usr/bin/*", "/opt/agents/**"]     a star stays in one directory, two stars do not
    directories = ["/work"]                         where a command may start, and everything below
    env = ["CI_*", "LANG"]                          names of variables that a client may set
    containers = []                                 names of containers that a command may run in
    users = ["build"]                               users of this host that may post runs over the socket
    webhooks = ["hooks.example.com", "*.corp:8443"] targets of webhooks, for every role
    [policy.limits]                                 the highest values
    timeout = "1h"
    [policy.roles.submit]                           replaces what it names, for callers of this role
    default = "deny"                                what is not listed is refused

A rule that is absent allows everything, unless `default` is `deny`.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple

from ..values.durations import parse_duration, parse_size
from ..values.errors import SpecError
from .kinds import SettingKind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

LISTS = ("programs", "directories", "env", "containers")  # without a list, `default` decides
_ROLES = ("read", "submit", "operate", "admin")
_DEFAULTS = ("allow", "deny")


class PolicyRule(NamedTuple):
    """One rule that is in force: its name in the file, and its value."""

    name: str
    value: Any


class RunPolicy(NamedTuple):
    """The tables of the file, as they are: the rules for everybody, and for each role what replaces them."""

    base: Mapping[str, Any] = {}
    roles: Mapping[str, Mapping[str, Any]] = {}

    @property
    def is_empty(self) -> bool:
        """Whether there is no rule at all."""
        return not self.base and not self.roles

    def rules(self, role: str) -> dict[str, PolicyRule]:
        """The rules for callers of this role, by their words; limits as `limits.timeout`."""
        own, place = self.roles.get(role, {}), f"policy.roles.{role}"
        found = {word: PolicyRule(f"policy.{word}", value) for word, value in self.base.items()}
        found |= {word: PolicyRule(f"{place}.{word}", value) for word, value in own.items()}
        default = found.get("default")
        if default is not None and default.value == "deny":
            found = {word: PolicyRule(default.name, ()) for word in LISTS} | found
        return found

    @property
    def webhooks(self) -> PolicyRule | None:
        """The rule for targets of webhooks; None: every target is allowed."""
        is_denied = self.base.get("default") == "deny"
        value = self.base.get("webhooks", () if is_denied else None)
        name = "policy.webhooks" if "webhooks" in self.base else "policy.default"
        return None if value is None else PolicyRule(name, value)


def read_policy(value: Any, name: str) -> RunPolicy:
    """The policy of the file's table. SpecError names the first key that is wrong."""
    if not isinstance(value, dict):
        raise SpecError(f"{name} is not a table", field=name, remedy=f"write [{name}] in the file")
    roles = value.get("roles", {})
    if not isinstance(roles, dict):
        raise SpecError(f"{name}.roles is not a table", field=f"{name}.roles", remedy="write [policy.roles.submit]")
    base = {key: rule for key, rule in value.items() if key != "roles"}
    for role in roles:
        _check_key(role, _ROLES, f"{name}.roles", "these are the roles: " + ", ".join(_ROLES))
    return RunPolicy(
        _rules(base, name, ("webhooks",)),
        {role: _rules(table, f"{name}.roles.{role}", ()) for role, table in roles.items()},
    )


def _rules(table: Any, place: str, also: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(table, dict):
        raise SpecError(f"{place} is not a table", field=place, remedy=f"write [{place}], and its rules below")
    found: dict[str, Any] = {}
    for key, value in table.items():
        field = f"{place}.{key}"
        _check_key(key, (*LISTS, "users", "limits", "default", *also), place, "docs/access.md lists the rules")
        if key == "limits":
            found |= _limits(value, field)
        elif key == "default":
            if value not in _DEFAULTS:
                raise SpecError(f"{field} is unknown", field=field, remedy=f"use one of {', '.join(_DEFAULTS)}")
            found[key] = value
        else:
            found[key] = _texts(value, field, absolute=key in ("programs", "directories"))
    return found


def _texts(value: Any, field: str, *, absolute: bool) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(text, str) and text for text in value):
        raise SpecError(f"{field} is not a list of text", field=field, remedy='write a list, such as ["a", "b"]')
    if absolute and (wrong := next((text for text in value if not text.startswith(("/", "**"))), None)) is not None:
        raise SpecError(f"{field} has {wrong[:80]!r}, which is relative", field=field, remedy="write absolute paths")
    return tuple(value)


def _limits(value: Any, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise SpecError(f"{place} is not a table", field=place, remedy=f"write [{place}], and its limits below")
    found = {}
    for key, limit in value.items():
        _check_key(key, tuple(_LIMITS), place, "these are: " + ", ".join(_LIMITS))
        found[f"limits.{key}"] = _LIMITS[key](limit, field=f"{place}.{key}")
    return found


def _whole(value: Any, *, field: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise SpecError(f"{field} is not a whole number", field=field, remedy="write a number")
    return value


def _check_key(key: str, known: tuple[str, ...], place: str, otherwise: str) -> None:
    if key not in known:
        near = get_close_matches(key, known, 1)
        field = f"{place}.{key}"
        raise SpecError(f"{field} is unknown", field=field, remedy=f"did you mean {near[0]}?" if near else otherwise)


_LIMITS: dict[str, Callable[..., float | int]] = {
    "timeout": parse_duration,
    "cpu_time": parse_duration,
    "memory": parse_size,
    "pids": _whole,
    "max_output": parse_size,
    "priority": _whole,
}
POLICY = SettingKind(
    "TABLE", (dict,), "a table", read_policy, lambda value: "-" if value.is_empty else "(see the file)", many=True
)
