"""Settings as people and programs see them: each value with its source, and what a reload would change.

`holdfast config` shows them without a daemon, and `GET /v1/config` shows those of a daemon.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ..values.errors import ConfigError
from .loading import reload
from .model import settings

if TYPE_CHECKING:
    from .loading import Effective


class PendingChanges(NamedTuple):
    """What a reload would do: settings that change, settings that need a restart, and mistakes that prevent it."""

    changed: tuple[str, ...]
    needs_restart: tuple[str, ...]
    mistakes: tuple[str, ...]


def shown_settings(found: Effective) -> dict[str, dict[str, Any]]:
    """Every setting by its path: `value`, `text` for people, `source` and `where`, `flag`, `variable`, `reloads`."""
    values = found.config._asdict()
    return {
        setting.path: {
            "name": name,
            # A setting without a flag is a secret or holds values of an environment, so only its shown text is printed.
            "value": setting.shown(values[name]) if setting.flag is None else _plain_value(values[name]),
            "text": setting.shown(values[name]),
            "source": found.sources[name].kind,
            "where": found.sources[name].where,
            "flag": setting.flag,
            "variable": setting.variable,
            "reloads": setting.reloads,
        }
        for name, setting in settings().items()
    }


def pending_changes(found: Effective) -> PendingChanges:
    """Read the sources of these settings again, and say by path what differs now. Nothing is put in force."""
    try:
        after = reload(found)
    except ConfigError as error:
        return PendingChanges((), (), error.mistakes or (str(error),))
    table = settings()
    changed, stuck = (tuple(table[name].path for name in names) for names in (after.changed, after.needs_restart))
    return PendingChanges(changed, stuck, ())


def _plain_value(value: Any) -> Any:
    return dict(value) if hasattr(value, "keys") else value
