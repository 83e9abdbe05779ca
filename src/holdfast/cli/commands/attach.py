"""`holdfast attach`: our terminal, or our stdin and stdout, connected to a live run."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ...projections.exit_code import exit_code
from ...values.durations import parse_size
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
    signals = SignalPipe()
    with read_record(state, run_id) as record, FollowedRun(state, run_id) as followed:
        attachment = Attachment(followed, record.fd, signals, key)
        attachment.skip(replay_bytes)
        attachment.until_over()
        if attachment.left_by is None:
            return exit_code(followed.outcome)
    if os.isatty(2):
        write_all(2, b"\n")  # the cursor is wherever the command left it
    messages.say(f"detached by {attachment.left_by}; the run goes on: run {run_id}")
    return 0


COMMAND = Command(
    "attach [OPTIONS] ID",
    "Connect to a live run: its output to us; our keys to its terminal, or our stdin to its pipe.",
    (
        Option("--detach-key", "KEY", "leave the run alone and return: ctrl-] or another, or none (default ctrl-])"),
        Option("--replay", "SIZE", "so much of what it wrote before is shown first (default 16K)"),
    ),
    act,
    "A run with a terminal (started with --pty): every key goes there, Ctrl-C too; the detach key leaves; it gets the\n"
    "size of our window. A run with a pipe (--detach --stdin pipe): our stdin goes there, its end closes the pipe.\n"
    "Without a terminal, Ctrl-C detaches. Neither ends the run: that is what cancel is for.\n"
    "Exit codes: 0 after detaching; when the run ends, those of `holdfast run`.\n",
)
