"""`holdfast submit`: into the queue of a real daemon, and out again with the exit code of the run."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from holdfast.cli.commands.submit import OPTIONS, submit_options
from holdfast.cli.parsing.options import CommandLine, parse
from holdfast.client.posting import posted

from ...support.daemons import Daemon, Gate, daemon
from ..console import holdfast, read_until, start
from ..kept_runs import as_json, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def running(state_directory: Path) -> Iterator[Daemon]:
    with daemon(state_directory, "--max-runs", "1", "--on-shutdown", "cancel") as found:
        yield found


def submitted(*words: str) -> str:
    done = holdfast("submit", *words)
    assert (done.returncode, done.stderr) == (0, b"")
    (run_id,) = done.stdout.decode().split()
    return run_id


def test_prints_the_id(running: Daemon, tmp_path: Path) -> None:
    run_id = submitted(
        "--name", "n", "--label", "k=v", "--session", "s", "--env", "A=b c", "--", "sh", "-c", "echo $A; pwd"
    )
    report = running.wait(run_id)
    assert (report["status"], report["name"], report["session"], report["labels"]) == (
        "succeeded",
        "n",
        "s",
        {"k": "v"},
    )
    assert holdfast("logs", run_id).stdout.decode().splitlines() == ["b c", os.getcwd()], "where the caller is"
    run_id = submitted(f"--cwd={os.path.relpath(tmp_path)}", "pwd")
    running.wait(run_id)
    assert holdfast("logs", run_id).stdout.decode().splitlines() == [str(tmp_path)]


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["sh", "-c", "exit 7"], 7),
        (["/nowhere"], 127),
        (["sh", "-c", "kill -9 $$"], 137),
        (["--timeout", "10ms", "sleep", "600"], 124),
        (["--queue-timeout", "0.01", "--priority", "-5", "true"], 124),
    ],
)
def test_wait_exits_as_run_does(running: Daemon, tmp_path: Path, command: list[str], code: int) -> None:
    gate = Gate(tmp_path / "gate")
    if "--queue-timeout" in command:
        running.until_output(submitted(*gate.waits()))
    done = holdfast("submit", "--wait", *command)
    assert done.returncode == code
    (run_id,) = done.stdout.decode().split()
    assert running.wait(run_id)["state"] == "settled"
    if "--queue-timeout" in command:
        gate.open()


def test_wait_as_json(running: Daemon) -> None:
    done = holdfast("submit", "--wait", "--json", "sh", "-c", "exit 3")
    report = as_json(done)
    assert (done.returncode, report["exit_code"], report["state"]) == (3, 3, "settled")
    report = as_json(holdfast("submit", "--json", "true"))
    assert running.wait(report["run_id"])["status"] == "succeeded"


def test_an_interrupted_wait_leaves_the_run(running: Daemon, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    with start("submit", "--wait", *gate.waits("exit 6")) as waiting:
        assert waiting.stdout is not None
        run_id = read_until(waiting.stdout.fileno(), b"\n").decode().strip()
        running.until_output(run_id)
        waiting.send_signal(signal.SIGINT)
        assert waiting.wait(60) == 130
    assert running.report(run_id)["state"] == "running"
    gate.open()
    assert running.wait(run_id)["exit_code"] == 6


def test_follow_shows_the_output_as_it_comes(running: Daemon, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    with start("submit", "--follow", *gate.waits("echo out; echo err >&2; exit 6")) as following:
        assert following.stdout is not None
        assert following.stderr is not None
        read_until(following.stdout.fileno(), b"ready\n")  # before its end, for which it still waits
        gate.open()
        assert following.wait(60) == 6
        assert following.stdout.read() == b"out\n"
        first, *others = following.stderr.read().decode().splitlines()
        assert others == ["err"]
    run_id = first.removeprefix("holdfast: run ")
    assert running.report(run_id)["exit_code"] == 6
    done = holdfast("submit", "-f", "/nowhere")
    assert (done.returncode, done.stdout) == (127, b"")
    assert "holdfast: cannot run '/nowhere': " in done.stderr.decode()


def test_follow_waits_in_the_queue_and_leaves_the_run(running: Daemon, tmp_path: Path) -> None:
    gate, second = Gate(tmp_path / "gate"), Gate(tmp_path / "second")
    running.until_output(submitted(*gate.waits()))
    with start("submit", "--follow", *second.waits()) as following:
        assert following.stdout is not None
        assert following.stderr is not None
        line = read_until(following.stderr.fileno(), b"\n").decode()
        run_id = line.removeprefix("holdfast: run ").strip()
        assert running.report(run_id)["state"] == "queued"
        gate.open()
        read_until(following.stdout.fileno(), b"ready\n")
        following.send_signal(signal.SIGINT)
        assert following.wait(60) == 130
    assert running.report(run_id)["state"] == "running"
    second.open()
    assert running.wait(run_id)["status"] == "succeeded"


def test_the_environment_of_the_caller(state_directory: Path) -> None:
    echo = ("sh", "-c", "echo ${A-no} ${B-no} ${DROPPED-no} ${OF_DAEMON-no} ${CLAUDECODE-no}")
    mine = {**os.environ, "A": "secret-a", "B": "1", "DROPPED": "x", "CLAUDECODE": "1"}
    with daemon(state_directory, "--on-shutdown", "cancel", env={"OF_DAEMON": "yes"}):
        assert holdfast("submit", "-f", *echo, env=mine).stdout == b"no no no yes no\n", "that of the daemon"
        words = ("--env-inherit", "--env", "B=2", "--env-drop", "DROPPED")
        assert holdfast("submit", "-f", "--id", "mine", *words, *echo, env=mine).stdout == b"secret-a 2 no no no\n"
        journal = (state_directory / "runs" / "mine" / "journal").read_bytes()
        assert b'"A"' in journal, "names are recorded"
        assert journal.count(b"secret-a") == 1, "a value is only in the output, where the command wrote it"
        kept = holdfast("submit", "-f", "--env-inherit", "--env-keep", "CLAUDECODE", *echo, env=mine)
        assert kept.stdout == b"secret-a 1 x no 1\n"
        assert holdfast("run", "--env-inherit", *echo, env=mine).stdout == b"secret-a 1 x no no\n", "as without it"
        line = one_line(holdfast("submit", "--env-inherit", "true", env={**mine, "ODD": os.fsdecode(b"\xff")}))
        assert "the variable ODD is not UTF-8" in line
        assert "--env-drop ODD" in line


def test_idempotency(running: Daemon) -> None:
    run_id = submitted("--idempotency-key", "k", "true")
    assert submitted("--idempotency-key", "k", "true") == run_id
    assert f"(run {run_id})" in one_line(holdfast("submit", "--idempotency-key", "k", "false"))
    running.wait(run_id)


def test_what_a_daemon_refuses_is_told_as_by_run(running: Daemon) -> None:
    holdfast("reap", "--session", "s")
    line = one_line(holdfast("submit", "--session", "s", "true"))
    assert "session" in line
    assert "closed" in line
    assert running.report(submitted("--id", "mine", "true"))["run_id"] == "mine"
    assert "mine" in one_line(holdfast("submit", "--id", "mine", "true"))


def test_without_a_daemon(state_directory: Path) -> None:
    assert "start one (--start, or holdfast serve), or run it without" in one_line(holdfast("submit", "true"))
    assert not state_directory.exists()
    holdfast("run", "true")
    assert "holdfast.sock: No such file or directory: start one" in one_line(holdfast("submit", "true"))


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([], "no command was given: write holdfast submit"),
        (["--detach", "true"], "unknown option '--detach'"),
        (["--lifetime", "owner", "true"], "unknown option '--lifetime'"),
        (["--priority", "high", "true"], "--priority 'high' is not a number"),
        (["--timeout", "soon", "true"], "--timeout 'soon' is not a duration"),
        (["--stdin", "inherit", "true"], "--stdin inherit would hold"),
        (["--follow", "--json", "true"], "--follow and --json were both given"),
        (
            ["--wait", "--ready", "port:1", "--ready-timeout", "1s", "true"],
            "--wait and --ready-timeout were both given",
        ),
        (["--env-inherit", "--in-container", "c", "true"], "would replace the environment of the container"),
        (["--queue-timeout", "x", "true"], "queue_timeout 'x' is not a duration"),
    ],
)
def test_mistakes(words: list[str], line: str) -> None:
    assert line.replace("queue_timeout", "--queue-timeout") in one_line(holdfast("submit", *words))


def test_help() -> None:
    text = holdfast("submit", "--help").stdout.decode()
    assert all(option.flag in text for option in OPTIONS)


def test_help_claims_no_default_of_a_foreground_run() -> None:
    text = holdfast("submit", "--help").stdout.decode()
    assert "stdout and stderr are terminals" not in text, "a queued run has no terminal unless asked for"
    assert "default inherit" not in text, "the daemon refuses it"
    assert "--detach" not in text, "submit has no such option"


def test_options_are_those_of_run() -> None:
    words = """
        --timeout 1m --idle-counts cpu,output --ladder INT:1s --warn-signal HUP --warn-before 5 --memory 1M --pids 3
        --stdin pipe --merge --env-drop A,B --priority 3 --on-verdict http://x/ --concurrency-key k -- a b
    """
    given: CommandLine = parse(OPTIONS, words.split())
    body = posted(given.words, submit_options(given))
    assert body == {
        "argv": ["a", "b"],
        "timeout_s": 60.0,
        "idle_counts": ["output", "cpu"],
        "ladder": "INT:1s,KILL",
        "warn_signal": "SIGHUP",
        "warn_before_s": 5.0,
        "memory_bytes": 1 << 20,
        "pids": 3,
        "stdin": "pipe",
        "merge": True,
        "env_drop": ["A", "B"],
        "cwd": os.getcwd(),
        "priority": 3,
        "on_verdict": {"url": "http://x/"},
        "concurrency_key": "k",
    }
