"""`holdfast hook`: what a session's runs did, their end, and a command that comes into Holdfast unchanged."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

from holdfast.harnesses.managed_file import Commands
from holdfast.harnesses.shell_entry import by_source

from ..console import HOLDFAST, holdfast

if TYPE_CHECKING:
    from pathlib import Path

    from ..kept_runs import Runs


def hook(*words: str, **message: Any) -> subprocess.CompletedProcess[bytes]:
    """Call a hook as a harness does."""
    command = [*HOLDFAST, "hook", *words]
    return subprocess.run(command, input=json.dumps(message).encode(), capture_output=True, timeout=30, check=False)


def test_the_start_of_a_session_tells_what_its_runs_did_once(runs: Runs) -> None:
    options = ("--session", "claude-abc")
    failed = runs.ended("sh", "-c", "seq 2000; echo last words; exit 3", options=options)
    runs.ended("echo", "of another session", options=("--session", "claude-xyz"))
    live = runs.sleeper(*options, say="listening")
    runs.ended("true", "begins", "x" * 5000, "ends", options=options)
    done = hook("session-start", "--harness", "claude", session_id="abc", source="resume")
    assert (done.returncode, done.stderr) == (0, b"")
    output = json.loads(done.stdout)["hookSpecificOutput"]
    assert output["hookEventName"] == "SessionStart"
    text = output["additionalContext"]
    assert f"- run {failed}: failed (exited with code 3) after " in text
    assert f"- run {live}: running for " in text
    assert "    last words\n" in text
    assert "the end of its output:" in text
    assert "    1\n" not in text
    assert ": true begins xxx" in text
    assert "xxx ends\n" in text
    assert len(text) < 5000
    assert "of another session" not in text
    assert "holdfast logs RUN" in text
    again = json.loads(hook("session-start", "--harness", "claude", session_id="abc").stdout)
    assert failed not in again["hookSpecificOutput"]["additionalContext"]  # told once
    assert live in again["hookSpecificOutput"]["additionalContext"]


def test_a_new_session_is_told_nothing(state_directory: Path) -> None:
    done = hook("session-start", "--harness", "gemini", session_id="new")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"{}\n", b"")
    assert not (state_directory / "looks").exists()
    assert hook("session-start", session_id="new").stdout == b""


def test_the_end_of_a_session_ends_its_runs_and_leaves_it_open(runs: Runs) -> None:
    mine, other = runs.sleeper("--session", "codex-s"), runs.sleeper("--session", "codex-t")
    done = hook("session-end", "--harness", "codex", session_id="s", reason="exit")
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout) == {"systemMessage": "Session codex-s: 1 of 1 runs are confirmed gone."}
    report = runs.report(mine)
    assert (report["status"], report["cause"], report["tree"]) == ("cancelled", "session", "gone")
    assert runs.report(other)["state"] == "running"
    runs.ended("true", options=("--session", "codex-s"))  # a resumed session goes on
    assert hook("session-end", "--harness", "codex", session_id="s").stdout == b"{}\n"


def test_a_hook_inside_of_a_run_does_not_end_itself(runs: Runs) -> None:
    """Claude Code starts its hooks through the shell prefix, which makes them runs of the session."""
    mine = runs.sleeper("--session", "claude-s")
    script = """printf '{"session_id": "s"}' | "$@"; echo and on"""
    words = [*HOLDFAST, "hook", "session-end", "--harness", "claude"]
    done = holdfast("run", "--session", "claude-s", "--", "sh", "-c", script, "sh", *words)
    assert done.returncode == 0
    assert b"1 of 1 runs are confirmed gone" in done.stdout
    assert done.stdout.endswith(b"and on\n")
    assert runs.report(mine)["cause"] == "session"


def test_a_failure_is_a_warning_and_no_answer() -> None:
    for words in (("session-start", "--harness", "claude"), ("session-end", "--harness", "gemini")):
        done = hook(*words)
        assert (done.returncode, done.stdout) == (1, b"")
        assert b"there is no session: " in done.stderr
    broken = subprocess.run(
        [*HOLDFAST, "hook", "session-start"], input=b"{", capture_output=True, timeout=30, check=False
    )
    assert (broken.returncode, broken.stdout) == (1, b"")
    assert b"stdin holds no JSON object" in broken.stderr
    assert b"write holdfast hook session-start|session-end|before-tool" in holdfast("hook", "stop").stderr


def test_before_a_tool_the_command_stays_whole_and_nothing_is_allowed(tmp_path: Path) -> None:
    entry = tmp_path / "gemini entry.bash"
    entry.write_text(by_source(Commands("/x/holdfast", "/x/holdfast-sh", "/x/state"), "gemini"))
    words = ("before-tool", "--harness", "gemini", "--entry", str(entry))
    tool = {"command": "git push && echo 'done'", "description": "push"}
    done = hook(*words, session_id="s", tool_name="run_shell_command", tool_input=tool)
    answer = json.loads(done.stdout)
    assert set(answer) == {"hookSpecificOutput"}  # no decision
    assert set(answer["hookSpecificOutput"]) == {"hookEventName", "tool_input"}
    changed = answer["hookSpecificOutput"]["tool_input"]
    assert changed == {"command": f". '{entry}' gemini-s; git push && echo 'done'", "description": "push"}
    again = hook(*words, session_id="s", tool_name="run_shell_command", tool_input=changed)
    assert json.loads(again.stdout)["hookSpecificOutput"]["tool_input"] == changed
    for message in (
        {"tool_name": "write_file", "tool_input": {"command": "x"}},
        {"tool_name": "run_shell_command", "tool_input": {"command": 3}},
        {},
    ):
        assert hook(*words, session_id="s", **message).stdout == b"{}\n"
    entry.unlink()
    assert hook(*words, session_id="s", tool_name="run_shell_command", tool_input=tool).stdout == b"{}\n"
