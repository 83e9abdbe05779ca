"""`holdfast logs`: print the output of a run, while it lives and afterwards; byte for byte, but on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...projections.exit_code import OWN_FAILURE
from ...values.errors import StateError
from ..following.output_printer import STREAMS, LogPrinter, print_output
from ..lookup.selection import find, only_run, queued_id
from ..parsing.command import Command, die_with_reader, open_state
from ..parsing.options import Option, UsageError
from ..parsing.points_in_time import since
from ..printing import messages

if TYPE_CHECKING:
    from ..parsing.options import CommandLine


def act(given: CommandLine) -> int:
    text = only_run(given, "logs")
    if (stream := given.last("--stream")) not in (None, *STREAMS):
        raise UsageError(f"--stream {stream!r} is unknown", remedy="use stdout or stderr")
    since_ns, lines = since(given.last("--since")), _count(given.last("--tail"))
    state = open_state(given)
    follow = given.has("--follow")
    die_with_reader()
    try:
        run_id = find(state, text)
    except StateError as error:
        if (queued := queued_id(error)) is None or not follow:
            raise
        from ..following.queued_run import wait_begun

        wait_begun(state, queued)
        run_id = queued
    missing = print_output(state, run_id, LogPrinter(given, since_ns), lines=lines, follow=follow)
    if missing is None:
        return 0
    messages.say(missing)
    return OWN_FAILURE


def _count(text: str | None) -> int | None:
    if text is None or text == "all":
        return None
    if not (text.isascii() and text.isdigit()):
        raise UsageError(f"--tail {text!r} is not a number", remedy="give how many lines to print, or all")
    return int(text)


COMMAND = Command(
    "logs [OPTIONS] ID",
    "Print the output of a live or ended run: its stdout to stdout, its stderr to stderr.",
    (
        Option("--follow", None, "go on until the run ends", short="f"),
        Option("--tail", "LINES", "begin with the last lines of the output so far", short="n"),
        Option("--stream", "STREAM", "print only stdout, or only stderr; either goes to stdout"),
        Option("--since", "WHEN", "print only output since then: 10m (ago), or 2026-01-31T12:00:00Z"),
        Option("--timestamps", None, "print all output as lines on stdout, each with its time and stream", short="t"),
        Option("--raw", None, "print all escape sequences also on a terminal, which obeys them"),
        Option("--no-late", None, "leave out the output that came after the verdict"),
    ),
    act,
    "In a pipe or a file the output is there byte for byte. On a terminal colours are the only escape sequences.\n"
    "Before late output (written after the verdict) one line on stderr says so, for each stream.\n"
    "With --timestamps a line is printed when it is complete, or when the output ends.\n",
)
