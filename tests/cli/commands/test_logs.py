"""`holdfast logs`."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

from holdfast.cli.commands.logs import LogLines
from holdfast.journal.reader import Chunk

from ...support.processes import wait_exited
from ..console import holdfast, read_until, start
from ..kept_runs import one_line

if TYPE_CHECKING:
    from pathlib import Path

    from ..kept_runs import Runs

LATE = "trap 'echo late; exit' TERM; echo early; while :; do sleep 0.01; done"


def test_bytes_unchanged_and_streams_apart(runs: Runs, tmp_path: Path) -> None:
    data = bytes(range(256)) * 1000
    (tmp_path / "data").write_bytes(data)
    run_id = runs.ended("sh", "-c", f"cat {tmp_path}/data; echo err >&2")
    done = holdfast("logs", run_id)
    assert (done.returncode, done.stdout, done.stderr) == (0, data, b"err\n")
    only = holdfast("logs", "--stream", "stderr", run_id)
    assert (only.stdout, only.stderr) == (b"err\n", b"")
    assert holdfast("logs", "--stream", "stdout", run_id).stdout == data


def test_late_output_is_left_out_on_request(runs: Runs) -> None:
    run_id = runs.ended("sh", "-c", LATE, options=("--timeout", "200ms"))
    assert holdfast("logs", run_id).stdout == b"early\nlate\n"
    assert holdfast("logs", "--no-late", run_id).stdout == b"early\n"
    assert b" stdout late  late\n" in holdfast("logs", "--timestamps", run_id).stdout


MARK = b"holdfast: %s from here on is late: it came after the verdict (--no-late leaves it out)\n"


@pytest.mark.parametrize("options", [(), ("-f",)])
def test_late_output_is_marked_on_stderr_and_its_bytes_stay(runs: Runs, options: tuple[str, ...]) -> None:
    both = "trap 'printf late; echo late-err >&2; printf more; exit' TERM; printf early; printf e >&2; "
    run_id = runs.ended("sh", "-c", both + "sleep 600 & wait", options=("--timeout", "200ms"))
    done = holdfast("logs", *options, run_id)
    assert done.stdout == b"earlylatemore"
    # The order of the two streams is theirs; each has one line before its first late byte.
    stdout, stderr = MARK % b"stdout", MARK % b"stderr"
    assert done.stderr in (b"e\n" + stdout + stderr + b"late-err\n", b"e\n" + stderr + b"late-err\n" + stdout)
    only = holdfast("logs", *options, "--stream", "stderr", run_id)
    assert (only.stdout, only.stderr) == (b"elate-err\n", stderr)


def test_control_nothing_is_marked_without_late_output(runs: Runs) -> None:
    late = runs.ended("sh", "-c", LATE, options=("--timeout", "200ms"))
    assert holdfast("logs", "--no-late", late).stderr == b""
    assert holdfast("logs", "--timestamps", late).stderr == b""  # its lines say it themselves
    silent = runs.ended("sh", "-c", "echo early; exec sleep 600", options=("--timeout", "200ms"))
    assert holdfast("logs", silent).stderr == b""


def test_the_mark_has_a_line_of_its_own_where_the_streams_meet(runs: Runs) -> None:
    script = "trap 'echo late; exit' TERM; printf early; sleep 600 & wait"
    run_id = runs.ended("sh", "-c", script, options=("--timeout", "200ms"))
    done = holdfast("logs", run_id, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.stdout == b"early\n" + MARK % b"stdout" + b"late\n"


def test_timestamps(runs: Runs) -> None:
    run_id = runs.ended("sh", "-c", "echo out; printf 'no end'; echo err >&2")
    done = holdfast("logs", "--timestamps", run_id)
    assert done.stderr == b""
    lines = done.stdout.decode().splitlines()
    assert sorted(line.split(" ", 1)[1] for line in lines) == ["stderr  err", "stdout  no end", "stdout  out"]
    assert all(line[4] == "-" and line[10] == "T" and line.split(" ")[0].endswith("Z") for line in lines)


def test_since(runs: Runs) -> None:
    run_id = runs.ended("echo", "text")
    assert holdfast("logs", "--since", "1h", run_id).stdout == b"text\n"
    assert holdfast("logs", "--since", "0", run_id).stdout == b""
    assert holdfast("logs", "--since", "2020-01-01", run_id).stdout == b"text\n"
    assert holdfast("logs", "--since", "2999-01-01T00:00:00Z", run_id).stdout == b""
    assert "--since 'soon' is neither a duration nor a time" in one_line(holdfast("logs", "--since", "soon", run_id))
    assert "--stream 'both' is unknown" in one_line(holdfast("logs", "--stream", "both", run_id))


def test_following_sees_output_as_it_comes_and_ends_with_the_run(runs: Runs, tmp_path: Path) -> None:
    # A gate each: the run could return to a single gate before its writer closed it, and go on at that end of file.
    first, second = tmp_path / "first", tmp_path / "second"
    os.mkfifo(first)
    os.mkfifo(second)
    run_id = runs.start("sh", "-c", f"echo one; read x <{first}; echo two; read x <{second}; echo err >&2")
    with start("logs", "-f", run_id) as follower:
        assert follower.stdout is not None
        assert follower.stderr is not None
        read_until(follower.stdout.fileno(), b"one\n")
        first.write_text("\n")  # opening waits for the reader: the run, and it alone, goes on from here
        read_until(follower.stdout.fileno(), b"two\n")
        second.write_text("\n")
        assert follower.wait(30) == 0
        assert follower.stderr.read() == b"err\n"


def test_following_a_quiet_run_costs_nothing(runs: Runs) -> None:
    """No polling: the follower sleeps until there is output, so it is not scheduled at all meanwhile."""
    run_id = runs.sleeper()
    with start("logs", "-f", run_id) as follower:
        assert follower.stdout is not None
        read_until(follower.stdout.fileno(), b"ready\n")
        holdfast("show", run_id)  # some time passes, by doing something else
        before = _switches(follower.pid)
        for _ in range(5):
            holdfast("--version")
        assert _switches(follower.pid) - before <= 2
        holdfast("cancel", "--now", run_id)
        assert follower.wait(30) == 0


def _switches(pid: int) -> int:
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return sum(int(line.split()[1]) for line in file if "ctxt_switches" in line)


def test_ctrl_c_ends_following_and_not_the_run(runs: Runs) -> None:
    run_id = runs.sleeper()
    with start("logs", "-f", run_id) as follower:
        assert follower.stdout is not None
        read_until(follower.stdout.fileno(), b"ready\n")
        follower.send_signal(signal.SIGINT)
        assert follower.wait(30) == 130
    assert runs.report(run_id)["state"] == "running"


def test_a_run_whose_guard_died_before(runs: Runs) -> None:
    run_id = runs.sleeper()
    runs.kill_guard(run_id)
    done = holdfast("logs", "-f", run_id)
    assert (done.returncode, done.stdout) == (0, b"ready\n")


def test_a_guard_that_dies_while_somebody_follows(runs: Runs) -> None:
    run_id = runs.sleeper()
    with start("logs", "-f", run_id) as follower:
        assert follower.stdout is not None
        read_until(follower.stdout.fileno(), b"ready\n")
        runs.kill_guard(run_id)
        assert follower.wait(30) == 0
    report = runs.report(run_id)
    assert (report["status"], report["tree"]) == ("lost", "gone")
    assert wait_exited(report["pid"])


def test_more_followers_than_a_guard_has_room_for_harm_nobody(runs: Runs) -> None:
    """A connection that is closed for lack of room looks like a dead guard; no reader may act on that."""
    run_id = runs.sleeper()
    followers = [start("logs", "-f", run_id) for _ in range(18)]
    try:
        for follower in followers:
            assert follower.stdout is not None
            read_until(follower.stdout.fileno(), b"ready\n")
        assert runs.report(run_id)["state"] == "running"
    finally:
        for follower in followers:
            follower.kill()
            follower.communicate()
    assert holdfast("cancel", "--now", run_id).returncode == 0


@pytest.mark.parametrize("cut", range(1, 7))
def test_lines_keep_streams_and_bytes_together(cut: int) -> None:
    lines = LogLines()
    text = b"ab\ncd\nx"
    out = lines.add(Chunk("stdout", text[:cut], False, 0, 0), 0)
    out += lines.add(Chunk("stderr", b"E", False, 0, 0), 0)
    out += lines.add(Chunk("stdout", text[cut:], False, 0, 0), 10**9)
    out += lines.add(Chunk("stderr", b"F\n", False, 0, 0), 10**9)
    out += lines.rest()
    texts = [line.split(b" ", 1)[1] for line in out.splitlines()]
    assert sorted(texts) == [b"stderr  EF", b"stdout  ab", b"stdout  cd", b"stdout  x"]
    assert b"1970-01-01T00:00:00.000000Z stderr  EF" in out  # the time at which the line began


def test_a_line_without_end_does_not_fill_memory() -> None:
    lines = LogLines()
    assert len(lines.add(Chunk("stdout", b"x" * 200_000, False, 0, 0), 0)) > 200_000
    assert lines.rest() == b""
