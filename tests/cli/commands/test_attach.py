"""`holdfast attach`: at a real terminal, and through pipes."""

from __future__ import annotations

import signal
import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.cli.following.attached_input import parse_key
from holdfast.cli.following.attachment import Attachment
from holdfast.cli.following.followed_run import FollowedRun
from holdfast.cli.parsing.options import UsageError
from holdfast.state.directory import StateDirectory
from holdfast.state.record import RunRecord

from ..console import HOLDFAST, Console, holdfast, read_until, start
from ..kept_runs import one_line

if TYPE_CHECKING:
    from ..kept_runs import Runs

ECHO = "stty -echo; echo ready; while read -r line; do echo got:$line; test $line = end && exit 7; done"

SHOW_SIZE = """
import os, signal
signal.signal(signal.SIGWINCH, lambda *_: print("{1} {0}".format(*os.get_terminal_size()), flush=True))
print("ready", flush=True)
while True:
    signal.pause()
"""


def test_keys_window_and_detaching(runs: Runs) -> None:
    run_id = runs.start("sh", "-c", f"{ECHO}", options=("--pty",))
    runs.until(run_id, b"ready")
    with Console(*HOLDFAST, "attach", run_id) as console:
        console.until(b"ready\r\n")  # earlier output is shown first
        console.type(b"one\r")
        console.until(b"got:one\r\n")
        console.type(b"\x1d")
        console.until(f"holdfast: detached by the detach key; the run goes on: run {run_id}".encode())
        assert console.wait() == 0
        assert console.modes_now() == console.modes
    assert runs.report(run_id)["state"] == "running"
    with Console(*HOLDFAST, "attach", run_id) as console:  # and again
        console.until(b"got:one\r\n")
        console.type(b"end\r")
        console.until(b"got:end\r\n")
        assert console.wait() == 7
        assert console.modes_now() == console.modes


def test_ctrl_c_is_the_commands_own_key(runs: Runs) -> None:
    run_id = runs.start(
        "sh", "-c", "trap 'echo interrupted' INT; echo ready; while :; do read x; done", options=("--pty",)
    )
    runs.until(run_id, b"ready")
    with Console(*HOLDFAST, "attach", run_id) as console:
        console.until(b"ready")
        console.type(b"\x03")
        console.until(b"interrupted")
        console.type(b"\x1d")
        assert console.wait() == 0
    assert runs.report(run_id)["state"] == "running"


def test_it_gets_the_size_of_our_window(runs: Runs) -> None:
    run_id = runs.start(sys.executable, "-c", SHOW_SIZE, options=("--pty",))
    runs.until(run_id, b"ready")
    with Console(*HOLDFAST, "attach", run_id, size=(30, 101)) as console:
        console.until(b"30 101")
        console.resize(31, 102)
        console.until(b"31 102")
        console.type(b"\x1d")
        assert console.wait() == 0


def test_a_terminal_that_is_closed_leaves_the_run_alone(runs: Runs) -> None:
    run_id = runs.start("sh", "-c", ECHO, options=("--pty",))
    runs.until(run_id, b"ready")
    with Console(*HOLDFAST, "attach", run_id) as console:
        console.until(b"ready")
        console.hang_up()
        assert console.process.wait(30) == 0
    assert runs.report(run_id)["state"] == "running"


def test_a_pipe_is_written_to_and_closed_at_the_end(runs: Runs) -> None:
    run_id = runs.start("cat", options=("--stdin", "pipe"))
    done = subprocess.run(
        [*HOLDFAST, "attach", run_id], input=b"through\n", capture_output=True, check=False, timeout=30
    )
    assert (done.returncode, done.stdout) == (0, b"through\n")
    assert runs.report(run_id)["status"] == "succeeded"


def test_nothing_on_stdin_closes_nothing(runs: Runs) -> None:
    """Programs without input get /dev/null as stdin: its end must not close the command's stdin."""
    run_id = runs.start("sh", "-c", "echo ready; cat; echo closed", options=("--stdin", "pipe"))
    with start("attach", run_id) as attached:
        assert attached.stdout is not None
        assert attached.stderr is not None
        read_until(attached.stdout.fileno(), b"ready\n")
        attached.send_signal(signal.SIGINT)
        assert attached.wait(30) == 0
        assert b"detached by SIGINT; the run goes on" in attached.stderr.read()
    assert runs.report(run_id)["state"] == "running"


def test_a_run_without_input_is_followed(runs: Runs) -> None:
    run_id = runs.start("sh", "-c", "echo out; echo err >&2; exit 4")
    done = holdfast("attach", run_id)
    assert (done.returncode, done.stdout, done.stderr) == (4, b"out\n", b"err\n")


def test_the_guard_is_to_wake_us_before_the_first_wait(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the first line of a run that was silent until then is shown when something else happens."""
    run_id = runs.start("sleep", "600")
    state = StateDirectory.open(str(runs.state))
    armed: list[bool] = []

    def look(attachment: Attachment) -> dict[int, int]:
        armed.append(attachment.followed.live.conversation.is_armed)
        attachment.left_by = "the test"
        return {}

    monkeypatch.setattr(Attachment, "_poll", look)
    with RunRecord(state, run_id) as record, FollowedRun(state, run_id) as followed:
        no_signals: Any = SimpleNamespace(fd=-1)  # the real ones are those of the test process
        Attachment(followed, record.fd, no_signals, b"").until_over()
    assert armed == [True]


def test_replay_is_bounded(runs: Runs) -> None:
    run_id = runs.ended("sh", "-c", "seq 100000")
    assert holdfast("attach", "--replay", "7", run_id).stdout == b"100000\n"
    assert holdfast("attach", "--replay", "0", run_id).stdout == b""


def test_a_guard_that_dies_ends_the_attachment(runs: Runs) -> None:
    run_id = runs.sleeper()
    with start("attach", run_id) as attached:
        assert attached.stdout is not None
        read_until(attached.stdout.fileno(), b"ready\n")
        runs.kill_guard(run_id)
        assert attached.wait(30) == 125
    assert runs.report(run_id)["status"] == "lost"


@pytest.mark.parametrize(("text", "key"), [("ctrl-]", b"\x1d"), ("Ctrl-A", b"\x01"), ("^q", b"\x11"), ("none", b"")])
def test_keys_by_name(text: str, key: bytes) -> None:
    assert parse_key(text) == key


@pytest.mark.parametrize("text", ["", "x", "ctrl-", "ctrl-1", "ctrl-ab", "alt-x"])
def test_what_is_no_key(text: str) -> None:
    with pytest.raises(UsageError):
        parse_key(text)


def test_a_wrong_command_line(runs: Runs) -> None:
    run_id = runs.ended("true")
    assert "--detach-key 'x' is no key" in one_line(holdfast("attach", "--detach-key", "x", run_id))
    assert "--replay" in one_line(holdfast("attach", "--replay", "much", run_id))
