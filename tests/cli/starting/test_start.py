"""`holdfast run --detach`, and the directories that keep runs of the command line."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from ..console import HOLDFAST, holdfast, read_until
from ..kept_runs import as_json, one_line

if TYPE_CHECKING:
    from pathlib import Path

    from ..kept_runs import Runs


def test_it_prints_the_id_and_returns_while_the_run_lives(runs: Runs) -> None:
    run_id = runs.sleeper()
    report = runs.report(run_id)
    assert (report["run_id"], report["state"], report["status"]) == (run_id, "running", None)
    assert report["guard"] == "alive"


def test_nothing_of_the_caller_stays_open(runs: Runs) -> None:
    """`id=$(holdfast run --detach ...)` must see the end of file, on every descriptor the caller had."""
    reading, writing = os.pipe()
    extra_reading, extra_writing = os.pipe()
    try:
        starter = subprocess.Popen(
            [*HOLDFAST, "run", "--detach", "--", "sh", "-c", "echo up; exec sleep 600"],
            stdin=subprocess.DEVNULL,
            stdout=writing,
            stderr=writing,
            pass_fds=[extra_writing],
        )
        os.close(writing)
        os.close(extra_writing)
        assert starter.wait() == 0
        seen = b""
        while part := os.read(reading, 4096):  # to the end of file: hangs if a process holds the other end
            seen += part
        runs.ids.append(seen.decode().strip())
        assert os.read(extra_reading, 1) == b""
        runs.until(runs.ids[0], b"up")
        assert runs.report(runs.ids[0])["state"] == "running"
    finally:
        os.close(reading)
        os.close(extra_reading)


def test_its_stdin_is_empty_unless_asked_for(runs: Runs, tmp_path: Path) -> None:
    file = tmp_path / "input"
    file.write_bytes(b"from a file")
    nothing = runs.ended("cat")
    something = runs.ended("cat", options=("--stdin", str(file)))
    assert holdfast("logs", nothing).stdout == b""
    assert holdfast("logs", something).stdout == b"from a file"


def test_a_command_that_cannot_be_run_is_found_out_by_waiting(runs: Runs) -> None:
    run_id = runs.start("/nonexistent/command")
    assert holdfast("wait", "--quiet", run_id).returncode == 127


def test_a_session_lifetime_ends_with_its_session(runs: Runs) -> None:
    run_id = runs.sleeper("--lifetime", "session", "--session", "s")
    assert holdfast("reap", "--session", "s").returncode == 0
    assert runs.report(run_id)["cause"] == "session"


def test_a_taken_id_is_refused_and_the_run_that_has_it_is_left_alone(runs: Runs) -> None:
    run_id = runs.sleeper("--id", "mine")
    line = one_line(holdfast("run", "--detach", "--id", "mine", "true"))
    assert "there is a run of this id already (run mine)" in line
    assert runs.report(run_id)["state"] == "running"
    assert one_line(holdfast("run", "--id", "mine", "true"))  # in the foreground too


def test_a_foreground_run_is_kept(state_directory: Path) -> None:
    assert holdfast("run", "--id", "front", "sh", "-c", "echo out; echo err >&2; exit 3").returncode == 3
    done = holdfast("logs", "front")
    assert (done.stdout, done.stderr) == (b"out\n", b"err\n")
    (listed,) = as_json(holdfast("ps", "--all", "--json"))
    assert (listed["run_id"], listed["status"], listed["exit_code"]) == ("front", "failed", 3)
    assert (state_directory / "runs" / "front").stat().st_mode & 0o777 == 0o700


def test_state_dir_is_for_the_runs_inside_too(tmp_path: Path) -> None:
    place = str(tmp_path / "elsewhere")
    inner = " ".join([*HOLDFAST, "run", "--id", "inner", "true"])
    assert holdfast("run", "--state-dir", place, "--id", "outer", "sh", "-c", inner).returncode == 0
    rows = as_json(holdfast("ps", "--all", "--json", "--state-dir", place))
    assert {row["run_id"]: row["parent"] for row in rows} == {"outer": None, "inner": "outer"}


def test_an_unusable_default_directory_costs_the_record_and_not_the_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.delenv("HOLDFAST_STATE_DIR")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    done = holdfast("run", "sh", "-c", "echo out; exit 3")
    assert (done.returncode, done.stdout) == (3, b"out\n")
    (line,) = done.stderr.decode().splitlines()
    assert line.startswith("holdfast: this run is not kept: cannot use the state directory")
    # A detached run could never be found again, so it is not started.
    assert "cannot use the state directory" in one_line(holdfast("run", "--detach", "true"))


def test_an_unusable_directory_that_was_named_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ran = tmp_path / "ran"
    assert "--state-dir" in one_line(holdfast("run", "--state-dir", str(tmp_path / "file"), "touch", str(ran)))
    monkeypatch.setenv("HOLDFAST_STATE_DIR", str(tmp_path / "file"))
    assert "cannot use the state directory" in one_line(holdfast("run", "touch", str(ran)))
    assert not ran.exists()


def test_a_detached_pty_run_has_a_terminal(runs: Runs) -> None:
    run_id = runs.ended("sh", "-c", "test -t 0 && test -t 1 && stty size", options=("--pty",))
    assert holdfast("logs", run_id).stdout == b"24 80\r\n"


def test_a_foreground_run_that_is_detached_goes_on_without_its_owner(runs: Runs) -> None:
    command = [*HOLDFAST, "run", "--lifetime", "detached", "--id", "goes-on", "sh", "-c", "echo up; exec sleep 600"]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as owner:
        runs.ids.append("goes-on")
        assert owner.stdout is not None
        read_until(owner.stdout.fileno(), b"up")
        owner.kill()
    assert runs.report("goes-on")["state"] == "running"
