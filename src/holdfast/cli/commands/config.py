"""`holdfast config`: show the daemon's settings in force, and the source of each."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ...client import calls
from ...config.shown import shown_settings
from ...projections.exit_code import OWN_FAILURE
from ...state.directory import DAEMON_SOCKET, default_path
from ...values.errors import ConfigError, DaemonUnreachableError
from ...wording.plain import plain
from ..lookup.daemon_request import ask
from ..parsing.command import JSON, Command, die_with_reader, no_words, open_state, put, show_json
from ..parsing.daemon_options import effective, setting_options
from ..parsing.options import Option
from ..printing import messages

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..parsing.options import CommandLine

_NO_DAEMON = Option("--no-daemon", None, "show what a new daemon would have, also when a daemon is running")
_LOCAL = {_NO_DAEMON.flag, *(option.flag for option in setting_options())}
_NOTHING_PENDING: dict[str, list[str]] = {"changed": [], "needs_restart": [], "mistakes": []}


def act(given: CommandLine) -> int:
    no_words(given, "config")
    try:
        found = _of_daemon(given) or _of_new_daemon(given)
    except ConfigError as error:
        return _tell(error.mistakes or (str(error),))
    die_with_reader()
    if given.has("--json"):
        show_json(found)
    else:
        put(_text(found))
    return _tell_pending(found["pending"])


def _of_daemon(given: CommandLine) -> dict[str, Any] | None:
    """The settings of the running daemon; None: there is none, or the command line asks about another one."""
    path = os.path.join(given.last("--state-dir") or default_path(), DAEMON_SOCKET)
    if _LOCAL & set(given.values) or not os.path.lexists(path):
        return None
    try:
        found: dict[str, Any] = ask(open_state(given), calls.simple("config"))
    except DaemonUnreachableError as error:
        messages.say(f"{error.message}; these are the settings of a new daemon")
        return None
    return {"daemon": {"pid": found.pop("pid"), "started_at": found.pop("started_at")}, **found}


def _of_new_daemon(given: CommandLine) -> dict[str, Any]:
    found = effective(given)
    return {"daemon": None, "file": found.file, "settings": shown_settings(found), "pending": _NOTHING_PENDING}


def _text(found: dict[str, Any]) -> str:
    rows = [(path, plain(row["text"]), plain(_source(row))) for path, row in found["settings"].items()]
    wide = [max(len(row[column]) for row in rows) for column in (0, 1)]
    lines = [f"{path:<{wide[0]}}  {value:<{wide[1]}}  {source}".rstrip() for path, value, source in rows]
    daemon = found["daemon"]
    asked = "none" if daemon is None else f"process {daemon['pid']}, since {daemon['started_at']}"
    return f"daemon: {asked}\nfile: {plain(found['file'] or 'none')}\n" + "\n".join(lines) + "\n"


def _source(row: dict[str, Any]) -> str:
    return " ".join(filter(None, (row["source"], row["where"])))


def _tell_pending(pending: dict[str, list[str]]) -> int:
    """Say what has changed since the daemon read its settings. Returns the exit code."""
    if names := pending["changed"]:
        messages.say(f"changed since the daemon read its settings: {', '.join(names)}; SIGHUP puts them in force")
    if names := pending["needs_restart"]:
        messages.say(f"changed since the daemon started: {', '.join(names)}; a restart puts them in force")
    return _tell(pending["mistakes"])


def _tell(mistakes: Iterable[str]) -> int:
    code = 0
    for mistake in mistakes:
        messages.say(mistake)
        code = OWN_FAILURE
    return code


COMMAND = Command(
    "config [OPTIONS]",
    "Show every setting of the daemon: its value, and where the value comes from.",
    (JSON, _NO_DAEMON, *setting_options()),
    act,
    "`config` asks the running daemon, and one line says which settings have changed in the file since. Without a\n"
    "daemon, or with one of these options, it shows the settings of a new daemon.\n"
    "A flag wins over a HOLDFAST_* variable, a variable over the file, the file over the default. `holdfast serve`\n"
    "takes the same options; here they show what they would do. Exit code 125 when there are mistakes.\n",
)
