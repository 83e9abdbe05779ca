"""The daemon's settings as options of `serve`, `config` and `unit`; their table is in `config/`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ...config import load_config, settings
from ...state.directory import default_path
from .command import STATE_DIR
from .options import Option

if TYPE_CHECKING:
    from ...config import Effective
    from .options import CommandLine

CONFIG = Option("--config", "PATH", "the settings file (default: STATE/config.toml, or ~/.config/holdfast/config.toml)")


def setting_options() -> tuple[Option, ...]:
    """An option for every setting that has a flag, and --config."""
    return CONFIG, *(
        Option(setting.flag, setting.kind.metavar, f"{setting.doc} ({setting.default_text})", setting.kind.many)
        for setting in settings().values()
        if setting.flag is not None
    )


def setting_words(given: CommandLine, *, without: tuple[str, ...] = ()) -> list[str]:
    """The given settings as words for `holdfast serve`; paths are absolute, because it starts somewhere else."""
    words = []
    metavars = {option.flag: option.metavar for option in (STATE_DIR, *setting_options())}
    for flag, values in given.values.items():
        if flag in (*without, "--help"):
            continue
        for value in values:
            text = absolute(metavars.get(flag), value)
            words += [flag, text] if text else [flag]
    return words


def absolute(metavar: str | None, value: str) -> str:
    """The value of an option for a process in another directory: a path becomes absolute."""
    return os.path.abspath(os.path.expanduser(value)) if metavar == CONFIG.metavar and value != "none" else value


def effective(given: CommandLine) -> Effective:
    """The settings in force for this command line. ConfigError when they have mistakes."""
    state_dir = os.path.abspath(given.last("--state-dir") or default_path())
    return load_config(given.values, os.environ, given.last("--config"), state_dir=state_dir)
