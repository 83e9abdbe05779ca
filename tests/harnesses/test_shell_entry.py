"""The shell entries, read by a real bash: the command becomes one run, and sees nothing of that."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from shlex import join, quote
from typing import TYPE_CHECKING

import pytest

from holdfast.harnesses.managed_file import Commands
from holdfast.harnesses.shell_entry import by_bash_env, by_source

from ..support.processes import is_gone, wait_exited

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAMS = Path(sys.executable).parent


@pytest.fixture
def commands(tmp_path: Path) -> Commands:
    (tmp_path / "the state").mkdir(mode=0o700)
    return Commands(str(PROGRAMS / "holdfast"), str(PROGRAMS / "holdfast-sh"), str(tmp_path / "the state"))


def bash(*words: str, home: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    environ = {"PATH": os.environ["PATH"], "HOME": str(home), **environment}
    return subprocess.run(["bash", *words], env=environ, capture_output=True, text=True, timeout=60, check=False)


def runs_of(commands: Commands) -> list[dict[str, object]]:
    words = [commands.holdfast, "ps", "--all", "--json", "--state-dir", commands.state_dir]
    found: list[dict[str, object]] = json.loads(subprocess.run(words, capture_output=True, check=True).stdout)
    return found


@pytest.fixture
def by_variable(commands: Commands, tmp_path: Path) -> str:
    entry = tmp_path / "an entry.bash"
    entry.write_text(by_bash_env(commands, "codex", "CODEX_SESSION_ID", "codex-"))
    return str(entry)


def test_a_tool_command_is_one_run_of_its_session(commands: Commands, by_variable: str, tmp_path: Path) -> None:
    script = """echo "$0 $1"; bash -c 'echo inner' >&2; env | grep -E 'BASH_ENV|SH_OPTIONS'; exit 7"""
    marks = {"BASH_ENV": by_variable, "CODEX_SESSION_ID": "abc", "HOLDFAST_SH_OPTIONS": "--name mine"}
    done = bash("-c", script, "me", "an argument", home=tmp_path, **marks)
    assert (done.returncode, done.stdout, done.stderr) == (7, "me an argument\n", "inner\n")
    (run,) = runs_of(commands)  # the inner bash is part of it
    assert (run["session"], run["name"], run["exit_code"]) == ("codex-abc", "mine", 7)


def test_a_login_shell_stays_one_and_its_profile_makes_no_runs(
    commands: Commands, by_variable: str, tmp_path: Path
) -> None:
    (tmp_path / ".bash_profile").write_text("bash -c true\nfromprofile() { echo a function; }\n")
    done = bash("-lc", "shopt -q login_shell && fromprofile", home=tmp_path, BASH_ENV=by_variable)
    assert (done.returncode, done.stdout, done.stderr) == (0, "a function\n", "")
    (run,) = runs_of(commands)
    assert run["session"] is None


@pytest.mark.parametrize("missing", ["holdfast_sh", "state_dir"])
def test_without_our_program_or_directory_the_command_goes_on(commands: Commands, missing: str, tmp_path: Path) -> None:
    gone = commands._replace(**{missing: "/proc/nonexistent"})
    entry = tmp_path / "entry.bash"
    entry.write_text(by_bash_env(gone, "codex", "CODEX_SESSION_ID", "codex-"))
    assert bash("-c", "echo still", home=tmp_path, BASH_ENV=str(entry)).stdout == "still\n"
    entry.write_text(by_source(gone, "gemini"))
    assert bash("-c", f". {quote(str(entry))} s; echo still", home=tmp_path).stdout == "still\n"


def test_a_command_that_reads_the_entry_is_one_run(commands: Commands, tmp_path: Path) -> None:
    entry = tmp_path / "an entry.bash"
    entry.write_text(by_source(commands, "gemini"))
    line = f". {join([str(entry), 'gemini-abc'])}; "
    # The harness wraps the line once more, as Gemini CLI does.
    script = f"{{ {line}echo one; env | grep -E 'ENTERED|SH_OPTIONS'; false; }}; code=$?; echo two; exit $((code + 4))"
    done = bash("-c", script, home=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (5, "one\ntwo\n", "")
    (run,) = runs_of(commands)
    assert (run["session"], run["exit_code"]) == ("gemini-abc", 5)


def test_a_command_in_a_subshell_ends_with_the_harness(commands: Commands, tmp_path: Path) -> None:
    """A bash between the harness and the run goes on when the harness is killed, and would keep the run alive."""
    entry = tmp_path / "entry.bash"
    entry.write_text(by_source(commands, "gemini"))
    script = f"( . {quote(str(entry))} gemini-s; echo $$; setsid sleep 600 & wait ); exit $?"
    harness = "import subprocess, sys; subprocess.run(['bash', '-c', sys.argv[1]])"
    with subprocess.Popen([sys.executable, "-c", harness, script], stdout=subprocess.PIPE) as started:
        assert started.stdout is not None
        pid = int(started.stdout.readline())
        started.kill()
        assert wait_exited(pid)
    (run,) = runs_of(commands)
    assert (run["status"], run["cause"], run["tree"]) == ("cancelled", "owner", "gone")


# A harness: it reads the pipe of each tool command to its end, prints what it got, and stays.
HARNESS = """
import json, subprocess, sys, time
for words in json.loads(sys.argv[1]):
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print(json.dumps(done.stdout), flush=True)
print("null", flush=True)
time.sleep(600)
"""
SERVE = "setsid -f sh -c 'echo $$ >pid; echo ready >started; exec sleep 600'; read line <started; echo serving"
ASK = 'kill -0 "$(cat pid)" 2>/dev/null && echo page || echo refused'
TOOL = {"CLAUDE_CODE_SESSION_ID": "abc", "AI_AGENT": "claude-code_2-1-326_agent"}


class Dialogue:
    """A harness in which one command leaves a server behind, and the next one asks it."""

    def __init__(self, commands: Commands, work: Path) -> None:
        self.commands = commands
        self._work = work
        self._harness: subprocess.Popen[str] | None = None
        os.mkfifo(work / "started")

    def told(self, way: str, **environment: str) -> list[str]:
        """What the two commands printed."""
        words, variables = self._way(way)
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(self._work),
            "SHELL": "/bin/bash",
            **variables,
            **environment,
        }
        calls = json.dumps([[*words[:-1], words[-1].format(line)] for line in (SERVE, ASK)])
        self._harness = subprocess.Popen(
            [sys.executable, "-c", HARNESS, calls], env=environ, cwd=self._work, stdout=subprocess.PIPE, text=True
        )
        assert self._harness.stdout is not None
        return [json.loads(line) for line in iter(self._harness.stdout.readline, "null\n")]

    def _way(self, way: str) -> tuple[list[str], dict[str, str]]:
        entry = self._work / "entry.bash"
        if way == "prefix":
            return [self.commands.holdfast_sh, "{}"], {"HOLDFAST_STATE_DIR": self.commands.state_dir, **TOOL}
        if way == "source":
            entry.write_text(by_source(self.commands, "gemini"))
            return ["bash", "-c", f"( . {quote(str(entry))} claude-abc; {{}} ); exit $?"], {}
        entry.write_text(by_bash_env(self.commands, "codex", "CODEX_SESSION_ID", "claude-"))
        # The harness itself does not have the variable.
        return ["env", f"BASH_ENV={entry}", "bash", "-lc", "{}"], {"CODEX_SESSION_ID": "abc"}

    def server(self) -> int:
        """The PID of the server."""
        return int((self._work / "pid").read_text())

    def kill(self) -> None:
        """SIGKILL for the harness."""
        if self._harness is not None:
            self._harness.kill()
            self._harness.communicate()
            self._harness = None

    def hold(self, *words: str) -> str:
        """What a command of `holdfast` prints."""
        environ = {**os.environ, "HOLDFAST_STATE_DIR": self.commands.state_dir}
        command = [self.commands.holdfast, *words]
        done = subprocess.run(
            command, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        return done.stdout


@pytest.fixture
def dialogue(commands: Commands, tmp_path: Path) -> Iterator[Dialogue]:
    work = tmp_path / "work"
    work.mkdir()
    made = Dialogue(commands, work)
    yield made
    made.kill()
    made.hold("reap", "--session", "claude-abc", "--grace", "0s")


@pytest.mark.parametrize("way", ["prefix", "variable", "source"])
def test_a_server_goes_on_for_the_next_command_and_ends_with_a_killed_harness(dialogue: Dialogue, way: str) -> None:
    assert dialogue.told(way) == ["serving\n", "page\n"]
    (left,) = json.loads(dialogue.hold("ps", "--json"))
    assert (left["session"], left["pid"]) == ("claude-abc", dialogue.server())
    dialogue.kill()
    assert wait_exited(dialogue.server())
    dialogue.hold("wait", left["run_id"])
    report = json.loads(dialogue.hold("show", "--json", left["run_id"]))
    assert (report["cause"], report["tree"]) == ("owner", "gone")


@pytest.mark.parametrize("way", ["prefix", "variable", "source"])
def test_a_server_ends_with_the_session(dialogue: Dialogue, way: str) -> None:
    assert dialogue.told(way) == ["serving\n", "page\n"]
    assert "1 of 1 runs are confirmed gone" in dialogue.hold("hook", "session-end", "--session", "claude-abc")
    assert is_gone(dialogue.server())


@pytest.mark.parametrize(
    ("way", "environment"),
    [
        ("prefix", {"AI_AGENT": "claude-code_2-1-326_harness"}),  # a hook, or an MCP server
        ("prefix", {"AI_AGENT": "", "HOLDFAST_SESSION": "claude-abc"}),  # a harness that does not say which
        ("prefix", {"CLAUDE_CODE_SESSION_ID": ""}),
        ("prefix", {"HOLDFAST_SH_OPTIONS": "--stragglers kill"}),
        ("prefix", {"HOLDFAST_SH_OPTIONS": "--without-parent"}),
        ("variable", {"HOLDFAST_SH_OPTIONS": "--lifetime session"}),
        ("variable", {"CODEX_SESSION_ID": ""}),
    ],
)
def test_a_server_ends_with_its_command_otherwise(dialogue: Dialogue, way: str, environment: dict[str, str]) -> None:
    assert dialogue.told(way, **environment) == ["serving\n", "refused\n"]
    assert is_gone(dialogue.server())
