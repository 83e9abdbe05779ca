"""`holdfast serve`: be the daemon of a state directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...values.errors import HoldfastError
from ..parsing.command import Command, no_words
from ..parsing.daemon_options import effective, setting_options, setting_words
from ..parsing.options import Option

if TYPE_CHECKING:
    from ..parsing.options import CommandLine


def act(given: CommandLine) -> int:
    no_words(given, "serve")
    settings = effective(given)  # first: a mistake in them is said here, and not in a log
    if given.has("--detach"):
        return _detach(given)
    try:
        from ...daemon.serve import serve
    except ModuleNotFoundError as error:
        remedy = "pip install 'holdfast[serve,client]'"
        raise HoldfastError(f"the daemon needs {error.name}, which is not installed", remedy=remedy) from None
    return serve(settings)


def _detach(given: CommandLine) -> int:
    from ...client.daemon_start import ensure_daemon
    from ..printing.messages import say

    settings = setting_words(given, without=("--state-dir", "--detach"))
    if not ensure_daemon(given.last("--state-dir"), settings) and settings:
        say("a daemon listens already: it keeps its own settings")
    return 0


COMMAND = Command(
    "serve [OPTIONS]",
    "Be the daemon of a state directory: queue, run and keep the runs that are posted to STATE/holdfast.sock.",
    (
        Option("--detach", None, "start it in the background if there is none, and return when it listens"),
        *setting_options(),
    ),
    act,
    more="SIGTERM or SIGINT drains: the daemon takes no more runs, and its runs may end within --drain. A second\n"
    "signal cancels them, a third leaves them to their guards. SIGHUP reads the settings again.\n",
)
