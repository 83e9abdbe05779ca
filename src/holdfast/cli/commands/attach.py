"""`holdfast attach`: connect our terminal, or our stdin and stdout, to a live run."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ...projections.exit_code import exit_code
from ...values.durations import parse_size
from ...values.errors import RequestError
from ..following.attached_input import parse_key
from ..following.attachment import Attachment
from ..following.followed_run import FollowedRun
from ..lookup.records import read_record
from ..lookup.selection import find, only_run
from ..parsing.command import Command, open_state, write_all
from ..parsing.options import Option
from ..printing import messages
from ..terminal.signal_pipe import SignalPipe

if TYPE_CHECKING:
    from ..parsing.options import CommandLine


def act(given: CommandLine) -> int:
    text = only_run(given, "attach")
    key = parse_key(given.last("--detach-key") or "ctrl-]")
    replay_bytes = parse_size(given.last("--replay") or "16K", field="--replay")
    state = open_state(given)
    run_id = find(state, text)
    if state.is_elsewhere(run_id):
        remedy = "holdfast logs -f follows it, and POST /v1/runs/ID/input of the daemon sends input"
        raise RequestError("attach does not reach a run on another host", run_id=run_id, remedy=remedy)
    signals = SignalPipe()
    with read_record(state, run_id) as record, FollowedRun(state, run_id) as followed:
        attachment = Attachment(followed, record.fd, signals, key)
        attachment.skip(replay_bytes)
        attachment.until_over()
        if attachment.left_by is None:
            return exit_code(followed.outcome)
    if os.isatty(2):
        write_all(2, b"\n")  # the command may have left the cursor in the middle of a line
    messages.say(f"detached by {attachment.left_by}; the run goes on: run {run_id}")
    return 0


COMMAND = Command(
    "attach [OPTIONS] ID",
    "Connect to a live run: show its output, and send our keys to its terminal, or our stdin to its pipe.",
    (
        Option("--detach-key", "KEY", "this key detaches from the run: ctrl-] or another, or none (default ctrl-])"),
        Option("--replay", "SIZE", "first show this much of its earlier output (default 16K)"),
    ),
    act,
    "A run with a terminal (started with --pty) gets every key, Ctrl-C too, and the size of our window; the detach\n"
    "key leaves it. A run with a pipe (--detach --stdin pipe) gets our stdin; the end of our stdin closes the pipe.\n"
    "Without a terminal, Ctrl-C detaches. Detaching does not end the run: use cancel for that.\n"
    "Exit codes: 0 after detaching; when the run ends, those of `holdfast run`.\n",
)
