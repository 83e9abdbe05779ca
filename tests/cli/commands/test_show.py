"""`holdfast show`, and the answers of all commands about one run if it does not exist, or if its record is broken."""

from __future__ import annotations

import errno
import json
import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from ...support.unprivileged import NOBODY
from ..console import HOLDFAST, holdfast
from ..kept_runs import as_json, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ..kept_runs import Runs

ABOUT_ONE_RUN = (["show"], ["why"], ["logs"], ["logs", "-f"], ["attach"])
ABOUT_RUNS = (*ABOUT_ONE_RUN, ["wait"], ["cancel"])


def test_report(runs: Runs) -> None:
    run_id = runs.ended("sh", "-c", "echo out; exit 3", options=("--name", "n", "--label", "a=b", "--session", "s"))
    report = runs.report(run_id)
    assert (report["status"], report["cause"], report["exit_code"]) == ("failed", "exit", 3)
    assert (report["name"], report["labels"], report["session"], report["tree"]) == ("n", {"a": "b"}, "s", "gone")
    text = holdfast("show", run_id).stdout.decode()
    fields = dict(line.split(None, 1) for line in text.splitlines())
    assert fields["run"] == run_id
    assert fields["state"] == "settled: failed, cause exit"
    assert fields["reason"] == "exited with code 3"
    assert fields["labels"] == "a=b"
    assert fields["output"] == "4B stdout, 0B stderr"


def test_the_spec_that_was_in_force(runs: Runs, tmp_path: Path) -> None:
    limits = ("--timeout", "90s", "--max-timeout", "2h", "--grace", "3s", "--memory", "2G", "--cpu-time", "1m")
    run_id = runs.ended("true", options=(*limits, "--cwd", str(tmp_path), "--env", "TOKEN=hunter2"))
    shown = holdfast("show", run_id, "--json").stdout.decode()
    assert "hunter2" not in shown
    spec = json.loads(shown)["spec"]
    assert (spec["timeout_s"], spec["max_timeout_s"], spec["grace_s"]) == (90, 7200, 3)
    assert (spec["memory_bytes"], spec["cpu_time_s"], spec["idle_timeout_s"]) == (2 << 30, 60, None)
    assert (spec["cwd"], spec["lifetime"], spec["priority"]) == (str(tmp_path), "detached", None)
    lines = holdfast("show", run_id).stdout.decode().splitlines()
    assert f"cwd          {tmp_path}" in lines
    assert "timeout      1m30s, with extensions at most 2h" in [line.replace("2h00m", "2h") for line in lines]
    assert any(line.startswith("budgets      2.0G of memory, 1m") for line in lines), lines


def test_a_run_without_a_directory_of_its_own_has_that_of_its_caller(runs: Runs) -> None:
    assert runs.report(runs.ended("true"))["spec"]["cwd"] == os.getcwd()
    assert runs.report(runs.ended("true", options=("--cwd", "..")))["spec"]["cwd"] == os.path.dirname(os.getcwd())


def test_a_live_run(runs: Runs) -> None:
    text = holdfast("show", runs.sleeper()).stdout.decode()
    assert "running: no verdict yet; its guard is alive" in text


@pytest.mark.parametrize("words", ABOUT_RUNS)
def test_an_unknown_run(words: list[str], runs: Runs) -> None:
    runs.ended("true")
    for unknown in ("nobody", "../runs", "", "."):
        line = one_line(holdfast(*words, unknown))
        assert f"there is no run {unknown!r}: holdfast ps --all lists those in {runs.state}" in line


@pytest.mark.parametrize("words", ABOUT_RUNS)
def test_the_beginning_of_an_id_is_enough_when_it_is_the_only_one(words: list[str], runs: Runs) -> None:
    runs.ended("true", options=("--id", "one-of-two"))
    runs.ended("true", options=("--id", "one-that-is-not"))
    line = one_line(holdfast(*words, "one-"))
    assert "'one-' is a part of the ids of 2 runs: one-of-two, one-that-is-not: give the end of one" in line
    assert holdfast(*words, "one-o").returncode == 0


@pytest.mark.parametrize("words", ABOUT_ONE_RUN)
def test_no_run_or_too_many(words: list[str], runs: Runs) -> None:
    runs.ended("true")
    assert "no run was given: write holdfast" in one_line(holdfast(*words))
    assert "is about one run, 2 were given" in one_line(holdfast(*words, "a", "b"))


@pytest.mark.parametrize("words", ABOUT_RUNS)
def test_no_state_directory_yet(words: list[str], state_directory: Path) -> None:
    line = one_line(holdfast(*words, "x"))
    assert f"cannot use the state directory {state_directory}: No such file or directory: start a run" in line
    assert not state_directory.exists()


@pytest.mark.parametrize("words", ABOUT_RUNS)
def test_a_half_made_run_directory(words: list[str], runs: Runs) -> None:
    good = runs.ended("true")
    (runs.state / "runs" / "half").mkdir()
    line = one_line(holdfast(*words, "half"))
    assert "holds no journal (run half): look at it, then remove it" in line
    assert holdfast("show", good).returncode == 0


def test_a_damaged_journal(runs: Runs) -> None:
    good, bad = runs.ended("echo", "fine"), runs.ended("sh", "-c", "echo a; exit 5")
    journal = runs.journal(bad)
    data = bytearray(journal.read_bytes())
    data[data.index(b"HLDF", len(data) // 2) + 30] ^= 0xFF
    journal.write_bytes(data)
    for words in (["show"], ["why"], ["logs"]):
        done = holdfast(*words, bad)
        assert done.returncode == 125
        (line,) = done.stderr.decode().splitlines()
        assert f"(run {bad}): " in line
        assert "damaged" in line
    report = runs.report(bad)
    assert report["status"] == "lost"  # no decisive fact was left to read
    assert (journal.parent / "journal.damaged").read_bytes() == data  # the evidence is kept
    assert holdfast("wait", "--quiet", bad).returncode == 125
    assert holdfast("logs", good).stdout == b"fine\n"


@pytest.mark.parametrize("words", ABOUT_RUNS)
def test_a_file_that_is_no_journal(words: list[str], runs: Runs) -> None:
    bad = runs.ended("true")
    runs.journal(bad).write_bytes(b"this is not a journal, and it never was one\n" * 3)
    done = holdfast(*words, bad)
    assert done.returncode == (1 if words == ["cancel"] else 125)  # whether a process of it is left is not known
    if words not in (["cancel"], ["wait"], ["attach"], ["logs", "-f"]):
        assert f"the journal was damaged (run {bad}): what was found is kept in" in done.stderr.decode()


def test_a_journal_cut_anywhere_is_shown_as_far_as_it_goes(runs: Runs) -> None:
    run_id = runs.ended("sh", "-c", "echo out; exit 4")
    journal = runs.journal(run_id)
    whole = journal.read_bytes()
    frames = [at for at in range(len(whole)) if whole.startswith(b"HLDF", at)]
    exited = frames[[fact["fact"] for fact in runs.report(run_id)["evidence"]].index("exited") + 3]
    for end in {0, 7, 16, frames[1], frames[2] + 3, exited, exited + 24, frames[-1], len(whole) - 1}:
        journal.write_bytes(whole[:end])
        report = runs.report(run_id)
        assert report["run_id"] == run_id
        assert (report["state"], report["status"]) in {("settled", "lost"), ("settled", "failed")}


def test_another_format_version_is_left_alone(runs: Runs) -> None:
    run_id = runs.ended("true")
    journal = runs.journal(run_id)
    data = bytearray(journal.read_bytes())
    data[8] = 99
    journal.write_bytes(data)
    line = one_line(holdfast("show", run_id))
    assert f"this journal has format version 99, this Holdfast reads version 1 (run {run_id}): read it with" in line
    assert journal.read_bytes() == data


@pytest.mark.parametrize("words", [["ps"], ["show", "x"], ["cancel", "x"], ["prune", "--keep", "1"], ["run", "true"]])
def test_a_foreign_state_directory(words: list[str], runs: Runs) -> None:
    runs.ended("true")
    (runs.state / "format").write_text("99\n")
    assert f"the state directory {runs.state} has format 99, this Holdfast knows 1" in one_line(holdfast(*words))


@pytest.mark.root
@pytest.mark.parametrize("words", [["ps"], ["show", "x"], ["wait", "x"], ["run", "true"]])
def test_a_state_directory_of_another_user(words: list[str], runs: Runs) -> None:
    runs.ended("true")
    os.chown(runs.state, NOBODY, NOBODY)
    line = one_line(holdfast(*words))
    os.chown(runs.state, 0, 0)
    assert f"belongs to user {NOBODY}: use one of your own: --state-dir or HOLDFAST_STATE_DIR" in line


@pytest.fixture
def small_disk(runs: Runs) -> Iterator[Runs]:
    """A state directory on a disk of its own, with one ended run."""
    runs.state.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=0700", "tmpfs", str(runs.state)], check=True)
    try:
        runs.ended("echo", "kept", options=("--id", "kept"))
        yield runs
    finally:
        subprocess.run(["umount", "-l", str(runs.state)], check=True)


def fill(path: Path) -> None:
    """Write to a file until the disk is full."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT)
    try:
        while True:
            os.write(fd, bytes(4096))
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
    finally:
        os.close(fd)


@pytest.mark.root
def test_a_full_disk(small_disk: Runs) -> None:
    assert as_json(holdfast("ps", "--all", "--json"))
    fill(small_disk.state / "filler")
    line = one_line(holdfast("run", "true"))
    assert "less than its floor" in line
    assert "holdfast prune" in line
    assert holdfast("logs", "kept").stdout == b"kept\n"
    assert holdfast("show", "kept").returncode == 0


@pytest.mark.root
def test_a_read_only_disk(small_disk: Runs) -> None:
    assert as_json(holdfast("ps", "--all", "--json"))
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk.state)], check=True)
    line = one_line(holdfast("run", "true"))
    assert "Read-only file system" in line
    assert "choose another with --state-dir or HOLDFAST_STATE_DIR" in line
    assert holdfast("logs", "kept").stdout == b"kept\n"
    assert holdfast("show", "ke").returncode == 0  # by the beginning of its id too


def test_output_that_cannot_be_written_is_no_success(runs: Runs) -> None:
    run_id = runs.ended("echo", "text")
    for words in (["ps", "--all"], ["show", run_id], ["why", "--json", run_id], ["logs", run_id]):
        with open("/dev/full", "wb") as full:
            done = holdfast(*words, stdout=full, stderr=subprocess.PIPE)
        assert done.returncode == 125
        assert done.stderr == b"holdfast: the output cannot be written: No space left on device\n"


@pytest.mark.parametrize("name", ["ps", "show", "why", "logs", "wait", "cancel", "extend", "signal", "attach", "reap"])
def test_help(name: str) -> None:
    for flag in ("--help", "-h"):
        done = holdfast(name, flag)
        assert (done.returncode, done.stderr) == (0, b"")
        assert f"usage: holdfast {name}".encode() in done.stdout
        assert all(len(line) <= 120 for line in done.stdout.decode().splitlines())


def test_a_reader_that_goes_away_is_no_error(runs: Runs) -> None:
    run_id = runs.ended("seq", "100000")
    command = " ".join([*HOLDFAST, "logs", run_id, "| head -1"])
    done = subprocess.run(["sh", "-c", command], capture_output=True, check=False)
    assert (done.stdout, done.stderr) == (b"1\n", b"")


def test_a_template_and_lines_of_json(runs: Runs) -> None:
    run_id = runs.ended("sh", "-c", "exit 3")
    assert holdfast("show", run_id, "--format", "{run_id} {exit_code}").stdout.decode() == f"{run_id} 3\n"
    (line,) = holdfast("show", run_id, "--format", "jsonl").stdout.decode().splitlines()
    assert json.loads(line) == as_json(holdfast("show", run_id, "--json"))
    assert as_json(holdfast("show", run_id, "--format", "json"))["exit_code"] == 3
