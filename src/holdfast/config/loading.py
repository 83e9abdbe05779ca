"""The settings in force and the source of each: a flag, else a variable, else the file, else the default.

One file is read: the named one, else `STATE/config.toml`, else `$XDG_CONFIG_HOME/holdfast/config.toml`. All mistakes
are collected, so that a person can correct them in one go.
"""

from __future__ import annotations

import os
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple

from ..values.errors import ConfigError, SpecError
from .model import Config, settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from .model import Setting
    from .toml import TomlFile

CONFIG_VARIABLE = "HOLDFAST_CONFIG"
FILE_NAME = "config.toml"


class SettingSource(NamedTuple):
    """The source of a value: its `kind` (`flag`, `variable`, `file` or `default`), and its name or place."""

    kind: str
    where: str | None = None

    def __str__(self) -> str:
        return self.kind if self.where is None else f"{self.kind} {self.where}"


class Inputs(NamedTuple):
    """The inputs of the settings, kept for a reload. `flags` has the values of a command line by flag."""

    flags: Mapping[str, Sequence[str]]
    environ: Mapping[str, str]
    path: str | None
    state_dir: str


class Effective(NamedTuple):
    """The settings in force, the source of each by name, and the file that was read, if any."""

    config: Config
    sources: Mapping[str, SettingSource]
    file: str | None
    inputs: Inputs


class Reloaded(NamedTuple):
    """The result of a reload: `new` is in force; `needs_restart` names changed settings that need a restart."""

    new: Effective
    changed: tuple[str, ...]
    needs_restart: tuple[str, ...]


def load_config(
    flags: Mapping[str, Sequence[str]] | None = None,
    environ: Mapping[str, str] | None = None,
    path: str | None = None,
    *,
    state_dir: str,
) -> Effective:
    """Read the settings in force. ConfigError names file, line and setting, and has all mistakes.

    `flags` is `CommandLine.values`. `path` names a file that must exist; without it, the usual places are searched.
    """
    inputs = Inputs(flags or {}, os.environ if environ is None else environ, path, state_dir)
    file = _file(inputs)
    mistakes: list[ConfigError] = []
    found: dict[str, tuple[Any, SettingSource]] = {}
    given = {} if file is None else _from_file(file, mistakes)
    for setting in settings().values():
        try:
            found[setting.name] = _value(setting, inputs, file, given)
        except ConfigError as error:
            mistakes.append(error)
    if mistakes:
        raise _all_of(mistakes)
    config = Config(**{name: value for name, (value, _) in found.items()})
    sources = {name: source for name, (_, source) in found.items()}
    return Effective(config, sources, None if file is None else file.path, inputs)


def reload(effective: Effective) -> Reloaded:
    """Read the inputs again; settings that need a restart keep their values. ConfigError: all old values stay."""
    fresh = load_config(*effective.inputs[:3], state_dir=effective.inputs.state_dir)
    table, old = settings(), effective.config._asdict()
    differ = [name for name, value in fresh.config._asdict().items() if value != old[name]]
    stuck = tuple(name for name in differ if not table[name].reloads)
    config = fresh.config._replace(**{name: old[name] for name in stuck})
    sources = {**fresh.sources, **{name: effective.sources[name] for name in stuck}}
    changed = tuple(name for name in differ if name not in stuck)
    return Reloaded(fresh._replace(config=config, sources=sources), changed, stuck)


def _file(inputs: Inputs) -> TomlFile | None:
    named = inputs.path or inputs.environ.get(CONFIG_VARIABLE)
    path = named or next(filter(os.path.exists, _places(inputs)), None)
    if path is None:
        return None
    from .toml import TomlFile

    return TomlFile(os.path.abspath(path))


def _places(inputs: Inputs) -> tuple[str, str]:
    home = inputs.environ.get("HOME") or os.path.expanduser("~")
    user = inputs.environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    return os.path.join(inputs.state_dir, FILE_NAME), os.path.join(user, "holdfast", FILE_NAME)


def _from_file(file: TomlFile, mistakes: list[ConfigError]) -> dict[str, Any]:
    """The values of the file by their path; an unknown path is a mistake."""
    known = {setting.path for setting in settings().values()}
    tables = {path.partition(".")[0] for path in known}
    given: dict[str, Any] = {}
    for path, value in _leaves(file.values, known, ()):
        name = ".".join(path)
        if name in known:
            given[name] = value
        elif name in tables:
            mistakes.append(_mistake(file, path, f"{name} is not a table", f"write [{name}], and its settings below"))
        else:
            near = get_close_matches(name, known, 1) or get_close_matches(path[-1], tables, 1)
            near = near or [known_name for known_name in sorted(known) if known_name.endswith(f".{path[-1]}")]
            remedy = f"did you mean {near[0]}?" if near else "holdfast config lists what can be set"
            mistakes.append(_mistake(file, path, f"{name} is unknown", remedy))
    return given


def _leaves(values: dict[str, Any], known: set[str], above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, value in values.items():
        path = (*above, key)
        is_table = isinstance(value, dict) and ".".join(path) not in known
        # An unknown table is one mistake, and not one for each of its keys.
        if is_table and any(name.startswith(".".join(path) + ".") for name in known):
            yield from _leaves(value, known, path)
        else:
            yield path, value


def _value(
    setting: Setting, inputs: Inputs, file: TomlFile | None, given: Mapping[str, Any]
) -> tuple[Any, SettingSource]:
    if setting.flag is not None and setting.flag in inputs.flags:
        words = inputs.flags[setting.flag]
        text = "yes" if setting.kind.metavar is None else ",".join(words) if setting.kind.many else words[-1]
        return _read(setting, text, setting.flag), SettingSource("flag", setting.flag)
    if setting.variable is not None and inputs.environ.get(setting.variable):
        return _read(setting, inputs.environ[setting.variable], setting.variable), SettingSource(
            "variable", setting.variable
        )
    if file is not None and setting.path in given:
        return _from_toml(setting, file, given[setting.path])
    return setting.default, SettingSource("default")


def _from_toml(setting: Setting, file: TomlFile, value: Any) -> tuple[Any, SettingSource]:
    path = tuple(setting.path.split("."))
    if not setting.kind.accepts(value):
        told = _TYPES.get(type(value), type(value).__name__)
        raise _mistake(file, path, f"{setting.path} is {told}", f"it has to be {setting.kind.wanted}")
    try:
        return setting.kind.read(value, setting.path), SettingSource("file", f"{file.path}:{file.line(path)}")
    except SpecError as error:
        below = (error.field or "").removeprefix(setting.path)[1:]  # the wrong key, when the setting is a whole table
        raise _mistake(file, _place(file, path, below), error.message, error.remedy) from None


def _place(file: TomlFile, path: tuple[str, ...], below: str) -> tuple[str, ...]:
    """The path of the wrong key; when the key is missing, the path of the nearest table around it."""
    if not below or file.line((*path, below)) is not None:  # a key with dots in it
        return (*path, below) if below else path
    words = tuple(below.split("."))
    tables = ((*path, *words[:count]) for count in range(len(words), 0, -1))
    return next((table for table in tables if file.line(table) is not None), path)


_TYPES = {
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "text",
    list: "a list",
    dict: "a table",
}


def _read(setting: Setting, text: str, name: str) -> Any:
    try:
        return setting.kind.read(text, name)
    except SpecError as error:
        raise ConfigError(error.message, name=name, remedy=error.remedy) from None


def _mistake(file: TomlFile, path: tuple[str, ...], what: str, remedy: str | None) -> ConfigError:
    line, name = file.line(path), ".".join(path)
    return ConfigError(f"{file.path}:{line}: {what}", file=file.path, line=line, name=name, remedy=remedy)


def _all_of(mistakes: list[ConfigError]) -> ConfigError:
    """The first mistake in the file, with all of them in `mistakes`."""
    ordered = sorted(mistakes, key=lambda error: error.line or 0)
    first = ordered[0]
    first.mistakes = tuple(str(error) for error in ordered)
    if len(ordered) > 1:
        first.remedy = f"{first.remedy}; holdfast config lists all {len(ordered)} mistakes"
    return first
