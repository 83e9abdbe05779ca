"""`holdfast signal`: send one signal to a live run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...state.guard_connection import send_signal
from ...values.signals import parse_signal
from ..lookup.selection import find, needs_daemon
from ..parsing.command import Command, open_state
from ..parsing.options import Option, UsageError

if TYPE_CHECKING:
    from ..parsing.options import CommandLine


def act(given: CommandLine) -> int:
    if len(given.words) != 2:
        raise UsageError("signal needs a run and a signal", remedy="write holdfast signal ID USR1")
    number = parse_signal(given.words[1], field="SIGNAL")
    state = open_state(given)
    run_id, tree = find(state, given.words[0]), given.has("--tree")
    if needs_daemon(state, run_id):
        from ...client import calls
        from ..lookup.daemon_request import ask

        ask(state, calls.ask(run_id, "signal", {"signal": number, "tree": tree}))
    else:
        send_signal(state, run_id, number, tree=tree)
    return 0


COMMAND = Command(
    "signal [--tree] ID SIGNAL",
    "Send a signal to the command of a live run. To end a run use cancel: it ends every process of the run.",
    (Option("--tree", None, "send it to every process of the run"),),
    act,
)
