"""`holdfast top`: show every run live in this terminal, with its log and its evidence."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from ...values.errors import HoldfastError
from ..lookup.selection import has_daemon
from ..parsing.command import Command, no_words, open_state
from ..parsing.options import Option

if TYPE_CHECKING:
    from ...state.directory import StateDirectory
    from ...top.run_source import RunSource
    from ..parsing.options import CommandLine


def act(given: CommandLine) -> int:
    no_words(given, "top")
    if not (os.isatty(0) and os.isatty(2)):  # textual reads from stdin and draws on stderr
        raise HoldfastError("top needs a terminal", remedy="use holdfast ps, or holdfast ps --watch")
    try:
        import asyncio

        import textual  # noqa: F401 - say that it is missing before anything else
    except ModuleNotFoundError:
        raise HoldfastError("this needs textual", remedy="pip install 'holdfast[top]'") from None
    state = open_state(given, create=not given.has("--state-dir"))
    asyncio.run(_run(state, direct=given.has("--no-daemon")))
    return 0


async def _run(state: StateDirectory, *, direct: bool) -> None:
    import asyncio

    from ...top.app import Top

    source = await _source(state, direct=direct)
    try:
        app = Top(source)
        for number in (signal.SIGTERM, signal.SIGHUP):
            # The default action would end us before the terminal is restored.
            asyncio.get_running_loop().add_signal_handler(number, app.exit)
        await app.run_async()
    finally:
        await source.close()


async def _source(state: StateDirectory, *, direct: bool) -> RunSource:
    from ...top.directory_source import DirectorySource

    if not direct and has_daemon(state):
        try:
            from ...top.daemon_source import find_daemon
        except HoldfastError:
            pass  # no HTTP library is installed: read the directory
        else:
            if (daemon := await find_daemon(state)) is not None:
                return daemon
    return DirectorySource(state)


COMMAND = Command(
    "top [OPTIONS]",
    "Show every run in this terminal: a live table with nested runs, and the log or the evidence of one run.",
    (Option("--no-daemon", None, "read the state directory itself, even when there is a daemon"),),
    act,
    "Press ? in it for the keys. No run ends when you leave it. It needs the extra holdfast[top].\n",
)
