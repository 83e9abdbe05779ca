"""A submitted run, shown to its end: its output as it comes, how it ended, and its exit code (`submit --follow`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...projections.exit_code import OWN_FAILURE, exit_code
from ...values.spec import spec_on_record
from ...wording.sentences import ended
from ..lookup.records import read_record
from ..parsing.command import die_with_reader
from ..printing import messages
from .output_printer import LogPrinter, print_output
from .queued_run import wait_begun

if TYPE_CHECKING:
    from ...state.directory import StateDirectory
    from ..parsing.options import CommandLine


def show_to_end(state: StateDirectory, run_id: str, given: CommandLine) -> int:
    """Print the output of a queued or started run until it ends; returns the exit code that `holdfast run` has for it.

    The id goes to stderr, because stdout is the command's. DaemonUnreachableError: the run is still queued, and the
    daemon does not come back.
    """
    messages.say(f"run {run_id}")
    die_with_reader()
    wait_begun(state, run_id)
    missing = print_output(state, run_id, LogPrinter(given, None), follow=True)
    if missing is not None:
        messages.say(missing)
    with read_record(state, run_id) as record:
        outcome, spec = record.outcome, spec_on_record(run_id, record.reader.spec or {})
    if (sentence := ended(outcome, spec)) is not None:
        messages.say(sentence)
    return OWN_FAILURE if missing is not None and outcome.cause == "exit" else exit_code(outcome)
