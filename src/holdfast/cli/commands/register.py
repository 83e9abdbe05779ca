"""`holdfast register`: watch a process that another program started, and end it with its session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...runs.registration import registered_spec
from ..parsing.command import Command
from ..parsing.options import Option, UsageError, pair
from ..starting.start import detach

if TYPE_CHECKING:
    from ...values.options import SpecOptions
    from ..parsing.options import CommandLine

_AS_GIVEN = {
    "--timeout": "timeout",
    "--grace": "grace",
    "--ladder": "ladder",
    "--kill-wait": "kill_wait",
    "--session": "session",
    "--name": "name",
    "--id": "run_id",
}


def act(given: CommandLine) -> int:
    if len(given.words) != 1 or not given.words[0].isascii() or not given.words[0].isdecimal():
        raise UsageError("register needs the PID of one process", remedy="write holdfast register PID")
    options: SpecOptions = {name: given.last(flag) for flag, name in _AS_GIVEN.items() if given.has(flag)}  # type: ignore[assignment]
    if labels := dict(pair(text, "--label", "NAME=VALUE") for text in given.all("--label")):
        options["labels"] = labels
    options["lifetime"] = "session" if given.has("--session") else "detached"
    return detach(given, registered_spec(int(given.words[0]), options))


COMMAND = Command(
    "register PID [OPTIONS]",
    "Watch a process that another program started: list it, and end it with its session or by `cancel`.",
    (
        Option("--session", "NAME", "the session it belongs to"),
        Option("--name", "NAME", "a name, for the report"),
        Option("--label", "NAME=VALUE", "a label, for the report", many=True),
        Option("--id", "ID", "the run id (default: a new one)"),
        Option("--timeout", "DURATION", "end it this long after the registration"),
        Option("--grace", "DURATION", "the time from SIGTERM to SIGKILL (default 10s)"),
        Option("--ladder", "RUNGS", "the signals that end it, such as INT:2s,TERM:8s,KILL"),
        Option("--kill-wait", "DURATION", "wait this long for processes to die of SIGKILL (default 5s)"),
    ),
    act,
    "Prints the run id. Its output is not seen, and its exit code only where the kernel tells it (Linux 6.15).\n",
)
