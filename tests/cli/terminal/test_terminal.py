"""`holdfast run` at a real terminal: interactive programs stay usable, and the terminal is left as it was found."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ..console import HOLDFAST, Console, holdfast

if TYPE_CHECKING:
    from ...support.children import Children

pytestmark = pytest.mark.guard

CTRL_C, CTRL_D, CTRL_Z = b"\x03", b"\x04", b"\x1a"
# Raw on its terminal like a full-screen program; prints what it reads.
FULL_SCREEN = """
import os, signal, sys, termios, tty
def say(text): os.write(1, text.encode() + b"\\r\\n")
def size(*_): say("size=%dx%d" % os.get_terminal_size(0)[::-1])
signal.signal(signal.SIGWINCH, size)
before = termios.tcgetattr(0)
tty.setraw(0)
say("ttys=%s" % [os.isatty(fd) for fd in (0, 1, 2)])
say("foreground=%s" % (os.tcgetpgrp(0) == os.getpgrp()))
say("TERM=" + os.environ["TERM"])
size()
say("ready")
while (key := os.read(0, 1)) != b"q":
    say("key=%r" % key)
termios.tcsetattr(0, termios.TCSANOW, before)
os.write(1, b"restored\\r\\n")
sys.exit(7)
"""
# Cooked; it answers every line it reads. Ctrl-Z stops it as it stops any program.
ANSWERS = """
import sys
print("ready", flush=True)
for line in sys.stdin:
    print("got", line.strip(), flush=True)
print("end")
"""


def at_terminal(*arguments: str, **options: object) -> Console:
    return Console(*HOLDFAST, "run", *arguments, **options)  # type: ignore[arg-type]


def test_repl_takes_ctrl_c_and_goes_on(tmp_path: Path) -> None:
    with at_terminal(sys.executable, "-q", environment={"HOME": str(tmp_path)}) as console:  # it keeps a history there
        console.until(b">>> ")
        console.type(b"6 * 7\r")
        console.until(b"42")
        console.until(b">>> ")
        console.type(CTRL_C)
        console.until(b"KeyboardInterrupt")
        console.until(b">>> ")
        console.type(b"raise SystemExit(5)\r")
        assert console.wait() == 5
        assert console.modes_now() == console.modes


def test_full_screen_program_sees_its_terminal() -> None:
    with at_terminal(sys.executable, "-c", FULL_SCREEN, size=(31, 97)) as console:
        screen = console.until(b"ready")
        assert b"ttys=[True, True, True]" in screen
        assert b"foreground=True" in screen
        assert b"TERM=xterm" in screen
        assert b"size=31x97" in screen
        assert console.modes_now() != console.modes  # the negative control of the check at the end
        console.type(CTRL_C + CTRL_Z + b"\r")
        for key in (rb"key=b'\x03'", rb"key=b'\x1a'", rb"key=b'\r'"):
            console.until(key)
        console.resize(50, 120)
        console.until(b"size=50x120")
        console.type(b"q")
        console.until(b"restored")
        assert console.wait() == 7
        assert console.modes_now() == console.modes


def test_without_a_pty_the_program_sees_pipes() -> None:
    script = "import os; print([os.isatty(fd) for fd in (0, 1, 2)])"
    with at_terminal("--no-pty", sys.executable, "-c", script) as console:
        console.until(b"[True, False, False]")
        assert console.wait() == 0


@pytest.mark.parametrize("option", [["--stdin", "null"], ["--merge"]])
def test_redirections_mean_no_pty(option: list[str]) -> None:
    with at_terminal(*option, sys.executable, "-c", "import os; print('tty', os.isatty(1))") as console:
        console.until(b"tty False")
        assert console.wait() == 0


@pytest.fixture
def answers(tmp_path: Path) -> list[str]:
    """A program that answers each line it reads."""
    script = tmp_path / "answers.py"
    script.write_text(ANSWERS)
    return [sys.executable, str(script)]


def shell() -> Console:
    # Wide: a line that is typed comes back in one piece.
    return Console(
        *("bash", "--norc", "--noprofile", "-i"), size=(24, 1000), environment={"PS1": "prompt> ", "HISTFILE": ""}
    )


def test_ctrl_z_and_fg_under_a_real_shell(answers: list[str]) -> None:
    with shell() as console:
        console.until(b"prompt> ")
        modes = console.modes_now()
        console.type(shlex.join([*HOLDFAST, "run", *answers]).encode() + b"\r")
        console.until(b"ready\r\n")
        console.type(b"one\r")
        console.until(b"got one")
        console.type(CTRL_Z)
        console.until(b"Stopped")
        console.until(b"prompt> ")
        assert console.modes_now() == modes
        console.type(b"echo in-the-$((40+2))-shell\r")
        console.until(b"in-the-42-shell")
        console.until(b"prompt> ")
        console.type(b"fg\r")
        console.until(b"answers.py")  # the shell names the job that goes on
        console.type(b"two\r")
        console.until(b"got two")
        console.type(CTRL_D)
        console.until(b"end\r\n")
        console.until(b"prompt> ")
        console.type(b"exit 3\r")
        assert console.wait() == 3


def test_ctrl_z_stops_the_whole_job(answers: list[str]) -> None:
    """A program between the shell and us stops with us, as the terminal would have stopped it."""
    with shell() as console:
        console.until(b"prompt> ")
        command = shlex.join([*HOLDFAST, "run", *answers])
        console.type(shlex.join(["sh", "-c", f"{command}; echo after"]).encode() + b"\r")
        console.until(b"ready\r\n")
        console.type(CTRL_Z)
        console.until(b"Stopped")
        console.until(b"prompt> ")
        console.type(b"fg\r")
        console.until(b"echo after")
        console.type(b"two\r")
        console.until(b"got two")
        console.type(CTRL_D)
        console.until(b"after")
        console.until(b"prompt> ")
        console.type(b"exit\r")
        assert console.wait() == 0


def test_job_started_in_the_background_and_brought_to_the_front(answers: list[str]) -> None:
    with shell() as console:
        console.until(b"prompt> ")
        console.type(shlex.join([*HOLDFAST, "run", *answers]).encode() + b" &\r")
        console.until(b"prompt> ")
        console.until(b"ready")
        console.type(b"echo still-the-$((40+2))-shell\r")  # it neither stopped nor took the keys
        console.until(b"still-the-42-shell")
        console.until(b"prompt> ")
        console.type(b"fg\r")
        console.until(b"answers.py")
        console.type(b"hello\r")
        console.until(b"got hello")
        console.type(CTRL_D)
        console.until(b"end\r\n")
        console.until(b"prompt> ")
        console.type(b"exit\r")
        assert console.wait() == 0


def test_ctrl_z_where_nobody_could_continue_us(answers: list[str]) -> None:
    """Alone in its session our group is orphaned: the kernel does not stop it, so the command must go on."""
    with at_terminal(*answers) as console:
        console.until(b"ready")
        console.type(CTRL_Z)
        console.until(b"^Z")
        console.type(b"hello\r")
        console.until(b"got hello")
        console.type(CTRL_D)
        console.until(b"end")
        assert console.wait() == 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 143), (signal.SIGINT, 130)])
def test_modes_are_restored_when_we_are_told_to_end(number: int, code: int) -> None:
    with at_terminal(sys.executable, "-c", FULL_SCREEN) as console:
        console.until(b"ready")
        assert console.modes_now() != console.modes
        console.process.send_signal(number)
        assert console.wait() == code
        assert console.modes_now() == console.modes
        name = signal.Signals(number).name
        assert f"holdfast: cancelled by {name}; {name}; run ".encode() in console.rest


def test_modes_are_restored_when_we_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_GUARD", "/nonexistent/guard")
    with at_terminal("true") as console:
        assert console.wait() == 125
        assert console.modes_now() == console.modes
        assert b"/nonexistent/guard" in console.rest


def test_closed_window_ends_the_run(answers: list[str], tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    with at_terminal("--report", str(report), *answers) as console:
        console.until(b"ready")
        console.hang_up()
        assert console.process.wait(30) == 143
    told = json.loads(report.read_text())
    assert (told["status"], told["cause"], told["tree"]) == ("cancelled", "user", "gone")


def test_last_words_of_a_terminal_program_arrive() -> None:
    """After the verdict, too: late output restores the terminal."""
    script = (
        "import os, signal, sys\n"
        "def leave(*_): os.write(1, b'last words'); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, leave)\nprint('ready', flush=True)\n"
        "while True: signal.pause()"
    )
    with at_terminal("--timeout", "3s", sys.executable, "-c", script) as console:
        console.until(b"last words")
        assert console.wait() == 124
        assert b"holdfast: timed out: deadline of 3s passed" in console.rest


def test_ctrl_c_without_a_pty_asks_once_and_kills_the_second_time(child: Children) -> None:
    with at_terminal("--no-pty", "--grace", "1m", *child("reports_signals")) as console:
        console.until(b"ready")
        console.type(CTRL_C)
        # Late output is not passed on, so our own line shows that the first one has arrived.
        console.until(b"once more")
        console.type(CTRL_C)
        assert console.wait() == 130
        assert b"cancelled by SIGINT; SIGINT, then SIGKILL after" in console.rest


def test_ctrl_c_once_without_a_pty(child: Children) -> None:
    with at_terminal("--no-pty", *child("exits_on_term")) as console:
        console.until(b"ready")
        console.type(CTRL_C)
        assert console.wait() == 130
        assert b"cancelled by SIGINT; SIGINT; run " in console.rest


def test_ctrl_z_without_a_pty_stops_the_tree(child: Children) -> None:
    with shell() as console:
        console.until(b"prompt> ")
        console.type(shlex.join([*HOLDFAST, "run", "--no-pty", *child("exits_on_term")]).encode() + b"\r")
        screen = console.until(b"\r\n")
        pid = int(console.until(b"\r\n").split(b"pid=")[1])
        assert b"ready" not in screen
        console.type(CTRL_Z)
        console.until(b"Stopped")
        wait_for_state(pid, "T")
        console.until(b"prompt> ")
        console.type(b"fg\r")
        wait_for_state(pid, "S")
        console.type(CTRL_C)
        console.until(b"cancelled by SIGINT")
        console.until(b"prompt> ")
        console.type(b"exit\r")
        assert console.wait() == 130


def wait_for_state(pid: int, state: str) -> None:
    """Wait until /proc shows this state: no event tells of a stop."""
    end = time.monotonic() + 60
    while (now := Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]) != state:
        assert time.monotonic() < end, f"it is {now}, not {state}"
        os.sched_yield()


def test_pty_without_a_terminal_outside_ends_its_input() -> None:
    """The command answers by its exit code: the echo of the input may tear its output."""
    script = "import os, sys; sys.exit(10 * os.isatty(0) + 20 * os.isatty(1) + (sys.stdin.read() == sys.argv[1]))"
    for data in (b"a line\n", b"no newline", b""):
        argv = ("run", "--pty", sys.executable, "-c", script)
        assert holdfast(*argv, data.decode(), input=data, stdin=None).returncode == 31
        assert holdfast(*argv, "another", input=data, stdin=None).returncode == 30, "the control"


def test_pty_passes_more_than_a_terminal_holds() -> None:
    """The terminal's own buffer is 4096 bytes: the rest waits.

    The command answers by its exit code: the echo of the input may tear its output, as on any terminal.
    """
    lines = b"".join(b"line %06d\n" % number for number in range(20_000))
    script = "import sys; sys.stdin.readline(); sys.exit(7 if sum(1 for _ in sys.stdin) == 19_999 else 8)"
    done = holdfast("run", "--pty", sys.executable, "-c", script, input=lines, stdin=None)
    assert done.returncode == 7
