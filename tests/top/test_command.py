"""`holdfast top` as a command: once in a real terminal, and where it cannot be used."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from shlex import join, quote
from typing import TYPE_CHECKING

import pytest

from holdfast.state.directory import StateDirectory

from ..cli.console import HOLDFAST, Console, holdfast
from ..cli.kept_runs import Runs

if TYPE_CHECKING:
    from collections.abc import Iterator

BOUND_S = 60.0


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runs]:
    monkeypatch.setenv("HOLDFAST_STATE_DIR", str(tmp_path / "state"))
    started = Runs(tmp_path / "state")
    yield started
    started.end_all()


class Tmux:
    """A terminal of 80 by 24 in a tmux server of its own."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def do(self, *words: str) -> str:
        """One tmux command."""
        command = ["tmux", "-S", str(self._directory / "tmux"), "-f", "/dev/null", *words]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=BOUND_S).stdout

    def screen(self) -> str:
        return self.do("capture-pane", "-p", "-t", "top")

    def until(self, *texts: str, without: str | None = None) -> str:
        """The screen when all of these are on it: tmux sends no event for a drawing."""
        end = time.monotonic() + BOUND_S
        while True:
            screen = self.screen()
            if all(text in screen for text in texts) and (without is None or without not in screen):
                return screen
            assert time.monotonic() < end, f"{texts} are not on\n{screen}"

    def keys(self, *keys: str) -> None:
        self.do("send-keys", "-t", "top", *keys)


@contextmanager
def tmux(directory: Path) -> Iterator[Tmux]:
    terminal = Tmux(directory)
    terminal.do("new-session", "-d", "-s", "top", "-x", "80", "-y", "24", "env PS1='$ ' sh")
    pid = int(terminal.do("display-message", "-p", "#{pid}"))
    try:
        yield terminal
    finally:
        pidfd = os.pidfd_open(pid)
        terminal.do("kill-server")
        os.waitid(os.P_PIDFD, pidfd, os.WEXITED)
        os.close(pidfd)


def test_in_a_real_terminal(runs: Runs, tmp_path: Path) -> None:
    evil = r"printf '\033]2;PWNED\007\033[2J\033[?1049l\033[31mred\033[0m\n'; echo ready; exec sleep 600"
    run_id = runs.start("sh", "-c", evil, options=("--name", "agent"))
    runs.until(run_id, b"ready")
    with tmux(tmp_path) as terminal:
        terminal.until("$")
        title = terminal.do("display-message", "-p", "#{pane_title}")
        modes = [quote(str(tmp_path / name)) for name in ("before", "after")]
        terminal.keys(f"stty -a > {modes[0]}; {join([*HOLDFAST, 'top'])}; echo code=$?; stty -a > {modes[1]}", "Enter")
        screen = terminal.until("1 running", "agent: sh", f"log of {run_id}", "red", "ready", "? Help")
        assert len(screen.rstrip("\n").splitlines()) == 24
        terminal.keys("c")
        terminal.until(f"Cancel run {run_id} (agent)?")
        terminal.keys("y")
        terminal.until("cancelled/user", "0 running")
        terminal.keys("q")
        screen = terminal.until("code=0", without="log of")
        assert terminal.do("display-message", "-p", "#{pane_title}") == title != "PWNED\n"
        assert terminal.do("display-message", "-p", "#{alternate_on}#{mouse_any_flag}#{cursor_flag}") == "001\n"
        terminal.keys("echo typ''ed", "Enter")
        terminal.until("typed")
    before, after = ((tmp_path / name).read_text() for name in ("before", "after"))
    assert before == after
    assert runs.report(run_id)["cause"] == "user"


def test_a_signal_puts_the_terminal_back(runs: Runs) -> None:
    runs.sleeper()
    with Console(*HOLDFAST, "top") as console:
        console.until(b"Help")
        console.process.terminate()
        assert console.wait() == 0
        assert console.modes_now() == console.modes
        assert b"\x1b[?1049l" in console.rest  # and the screen that was there before


def test_it_needs_a_terminal() -> None:
    done = holdfast("top")
    assert (done.returncode, done.stdout) == (125, b"")
    assert done.stderr == b"holdfast: top needs a terminal: use holdfast ps, or holdfast ps --watch\n"


def test_without_textual_it_says_so_in_one_line(tmp_path: Path) -> None:
    """The other commands import nothing of it: the control is that they work here."""
    hidden = (
        "import sys; sys.modules['textual'] = None; from holdfast.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    argv = [sys.executable, "-c", hidden]
    state = StateDirectory.open(str(tmp_path / "state")).path
    with Console(*argv, "top", "--state-dir", state) as console:
        assert console.wait() == 125
        assert console.rest.splitlines() == [b"holdfast: this needs textual: pip install 'holdfast[top]'"]
    done = subprocess.run([*argv, "ps", "--state-dir", state], capture_output=True, check=False, timeout=BOUND_S)
    assert done.returncode == 0
