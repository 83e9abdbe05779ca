"""The daemon's settings: flags, `HOLDFAST_*` variables and one TOML file, with one precedence and one table."""

from .agents import Agent
from .loading import Effective, Reloaded, SettingSource, load_config, reload
from .model import Config, Setting, settings

__all__ = ["Agent", "Config", "Effective", "Reloaded", "Setting", "SettingSource", "load_config", "reload", "settings"]
