"""`holdfast config`: show the daemon's settings in force, and the source of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...config import settings
from ...projections.exit_code import OWN_FAILURE
from ...values.errors import ConfigError
from ...wording.plain import plain
from ..parsing.command import JSON, Command, die_with_reader, no_words, put, show_json
from ..parsing.daemon_options import effective, setting_options
from ..printing import messages

if TYPE_CHECKING:
    from ...config import Effective
    from ..parsing.options import CommandLine


def act(given: CommandLine) -> int:
    no_words(given, "config")
    try:
        found = effective(given)
    except ConfigError as error:
        for mistake in error.mistakes or (str(error),):
            messages.say(mistake)
        return OWN_FAILURE
    die_with_reader()
    if given.has("--json"):
        show_json({"file": found.file, "settings": _as_json(found)})
    else:
        put(_text(found))
    return 0


def _as_json(found: Effective) -> dict[str, Any]:
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


def _plain_value(value: Any) -> Any:
    return dict(value) if hasattr(value, "keys") else value


def _text(found: Effective) -> str:
    values = found.config._asdict()
    rows = [
        (setting.path, plain(setting.shown(values[name])), plain(found.sources[name]))
        for name, setting in settings().items()
    ]
    wide = [max(len(row[column]) for row in rows) for column in (0, 1)]
    lines = [f"{path:<{wide[0]}}  {value:<{wide[1]}}  {source}".rstrip() for path, value, source in rows]
    return f"file: {plain(found.file or 'none')}\n" + "\n".join(lines) + "\n"


COMMAND = Command(
    "config [OPTIONS]",
    "Show every setting of the daemon: its value, and where the value comes from.",
    (JSON, *setting_options()),
    act,
    "A flag wins over a HOLDFAST_* variable, a variable over the file, the file over the default. `holdfast serve`\n"
    "takes the same options; here they show what they would do. Exit code 125 when there are mistakes.\n",
)
