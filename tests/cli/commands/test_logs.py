"""`holdfast logs`."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
import tracemalloc
from typing import TYPE_CHECKING

import pytest

from holdfast.cli.following.output_printer import LogLines
from holdfast.cli.lookup.records import read_record
from holdfast.cli.printing.last_lines import LastLines
from holdfast.journal.reader import Chunk
from holdfast.state.directory import StateDirectory

from ...support.processes import wait_exited
from ..console import HOLDFAST, Console, holdfast, read_until, start
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
    run_id = runs.ended("sh", "-c", LATE, options=("--timeout", "1500ms"))
    assert holdfast("logs", run_id).stdout == b"early\nlate\n"
    assert holdfast("logs", "--no-late", run_id).stdout == b"early\n"
    assert b" stdout late  late\n" in holdfast("logs", "--timestamps", run_id).stdout


MARK = b"holdfast: %s from here on is late: it came after the verdict (--no-late leaves it out)\n"


@pytest.mark.parametrize("options", [(), ("-f",)])
def test_late_output_is_marked_on_stderr_and_its_bytes_stay(runs: Runs, options: tuple[str, ...]) -> None:
    both = "trap 'printf late; echo late-err >&2; printf more; exit' TERM; printf early; printf e >&2; "
    run_id = runs.ended("sh", "-c", both + "sleep 600 & wait", options=("--timeout", "1500ms"))
    done = holdfast("logs", *options, run_id)
    assert done.stdout == b"earlylatemore"
    # The order of the two streams is theirs; each has one line before its first late byte.
    stdout, stderr = MARK % b"stdout", MARK % b"stderr"
    assert done.stderr in (b"e\n" + stdout + stderr + b"late-err\n", b"e\n" + stderr + b"late-err\n" + stdout)
    only = holdfast("logs", *options, "--stream", "stderr", run_id)
    assert (only.stdout, only.stderr) == (b"elate-err\n", stderr)


def test_control_nothing_is_marked_without_late_output(runs: Runs) -> None:
    late = runs.ended("sh", "-c", LATE, options=("--timeout", "1500ms"))
    assert holdfast("logs", "--no-late", late).stderr == b""
    assert holdfast("logs", "--timestamps", late).stderr == b""  # its lines say it themselves
    silent = runs.ended("sh", "-c", "echo early; exec sleep 600", options=("--timeout", "1500ms"))
    assert holdfast("logs", silent).stderr == b""


def test_the_mark_has_a_line_of_its_own_where_the_streams_meet(runs: Runs) -> None:
    script = "trap 'echo late; exit' TERM; printf early; sleep 600 & wait"
    run_id = runs.ended("sh", "-c", script, options=("--timeout", "1500ms"))
    done = holdfast("logs", run_id, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.stdout == b"early\n" + MARK % b"stdout" + b"late\n"


def test_timestamps(runs: Runs) -> None:
    run_id = runs.ended("sh", "-c", "echo out; printf 'no end'; echo err >&2")
    done = holdfast("logs", "--timestamps", run_id)
    assert done.stderr == b""
    lines = done.stdout.decode().splitlines()
    assert sorted(line.split(" ", 1)[1] for line in lines) == ["stderr  err", "stdout  no end", "stdout  out"]
    assert all(line[4] == "-" and line[10] == "T" and line.split(" ")[0].endswith("Z") for line in lines)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [("0", b""), ("1", b"end"), ("2", b"3\nend"), ("9", b"1\n2\n3\nend"), ("all", b"1\n2\n3\nend")],
)
def test_the_last_lines(runs: Runs, lines: str, expected: bytes) -> None:
    run_id = runs.ended("printf", "1\n2\n3\nend")
    done = holdfast("logs", "--tail", lines, run_id)
    assert (done.returncode, done.stdout, done.stderr) == (0, expected, b"")
    assert holdfast("logs", "-n", lines, "--stream", "stderr", run_id).stdout == b""


def test_a_number_of_lines_that_is_none(runs: Runs) -> None:
    line = one_line(holdfast("logs", "--tail", "-1", runs.ended("true")))
    assert line.endswith("--tail '-1' is not a number: give how many lines to print, or all")


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("end", [b"", b"\n"])
def test_the_last_lines_however_they_are_cut(size: int, end: bytes) -> None:
    data = b"a\n\nccc\ndd\ne" + end
    lines = data.splitlines(keepends=True)
    for count in range(7):
        last = LastLines(count)
        for at in range(0, len(data), size):
            last.add(Chunk("stdout", data[at : at + size], False, at, at))
        assert b"".join(chunk.data for chunk in last.cut()) == b"".join(lines[-count:] if count else [])


def test_lines_that_are_over_do_not_fill_memory() -> None:
    last = LastLines(2)
    tracemalloc.start()
    try:
        for at in range(1000):
            last.add(Chunk("stdout", b"x" * 9_999 + b"\n", False, at, at))
        assert tracemalloc.get_traced_memory()[0] < 100_000
    finally:
        tracemalloc.stop()
    assert len(last.cut()) == 2


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
    """No polling: the follower sleeps until there is output. It may need some time after its first line."""
    run_id = runs.sleeper()
    with start("logs", "-f", run_id) as follower:
        assert follower.stdout is not None
        read_until(follower.stdout.fileno(), b"ready\n")
        is_quiet = any(_sleeps(follower.pid) for _ in range(10))
        holdfast("cancel", "--now", run_id)
        assert follower.wait(30) == 0
    assert is_quiet


def _sleeps(pid: int) -> bool:
    """Whether a process sleeps while five others start. Once a second the follower looks at its guard."""
    before, begin = _waits(pid), time.monotonic()
    for _ in range(5):
        holdfast("--version")
    return _waits(pid) - before <= 2 + 4 * (time.monotonic() - begin)


def _waits(pid: int) -> int:
    """How often a process has gone to sleep so far."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("voluntary_ctxt_switches"))


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
    assert (report["status"], report["tree"]) == ("lost", "unknown")
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


OUTPUT = r"\033]0;title\007\033[2Jkept \033[31mred\033[0m 50%%\r100%%\n\377\233\n"
SHOWN = "kept \x1b[31mred\x1b[0m 50%\r100%\r\n\ufffd\ufffd\r\n".encode()  # a terminal makes \r\n of \n
AS_IT_IS = b"\x1b]0;title\x07\x1b[2Jkept \x1b[31mred\x1b[0m 50%\r100%\n\xff\x9b\n"


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
@pytest.mark.parametrize("options", [(), ("-f",), ("--timestamps",), ("--stream",)])
def test_a_terminal_gets_colours_and_no_other_sequences(runs: Runs, stream: str, options: tuple[str, ...]) -> None:
    run_id = runs.ended("sh", "-c", f"printf '{OUTPUT}' {'>&2' if stream == 'stderr' else ''}")
    if options == ("--stream",):
        options = ("--stream", stream)
    with Console(*HOLDFAST, "logs", *options, run_id) as console:
        assert console.wait() == 0
        seen = b"\r\n".join(line.rpartition(b"  ")[2] for line in console.rest.split(b"\r\n"))
        assert seen == SHOWN
    with Console(*HOLDFAST, "logs", "--raw", *options, run_id) as console:  # the control: the terminal would get it all
        assert console.wait() == 0
        assert b"\x1b]0;title\x07\x1b[2Jkept" in console.rest
    assert holdfast("logs", "--stream", stream, run_id).stdout == AS_IT_IS


def test_only_the_stream_on_the_terminal_is_filtered(runs: Runs, tmp_path: Path) -> None:
    run_id = runs.ended("sh", "-c", f"printf '{OUTPUT}'; printf '{OUTPUT}' >&2")
    command = f'"$@" 2>{tmp_path}/errors'
    with Console("sh", "-c", command, "sh", *HOLDFAST, "logs", run_id) as console:
        assert console.wait() == 0
        assert console.rest == SHOWN
    assert (tmp_path / "errors").read_bytes() == AS_IT_IS


ROLLS = ("--max-output", "8K", "--on-max-output", "roll")
MISSING = re.compile(rb"holdfast: (\d+) bytes of stdout are missing here: the run wrote more than its limit keeps\n")


def test_logs_say_what_is_missing_between_the_head_and_the_tail(runs: Runs) -> None:
    run_id = runs.ended("seq", "1", "9999", options=ROLLS)
    done = holdfast("logs", run_id)
    assert (done.returncode, done.stdout[:4], done.stdout[-5:]) == (0, b"1\n2\n", b"9999\n")
    told = MISSING.fullmatch(done.stderr)
    assert told is not None, done.stderr
    missing = int(told[1])
    written = len(b"".join(b"%d\n" % number for number in range(1, 10000)))
    assert missing == written - len(done.stdout) == runs.report(run_id)["output"]["dropped_bytes"]
    both = holdfast("logs", run_id, stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout
    head, tail = both.split(done.stderr)
    assert (len(head), head + tail) == (4096 + 1, done.stdout[:4096] + b"\n" + done.stdout[4096:])  # within a line
    why = holdfast("why", run_id).stdout.decode()
    assert "more output than 4.0K: of what follows, about the last 4.0K are kept" in why
    assert f"{missing} bytes of stdout were not kept, between the head and the tail" in why


def test_control_a_run_within_its_limit_misses_nothing(runs: Runs) -> None:
    run_id = runs.ended("seq", "1", "1200", options=ROLLS)  # more than the head
    done = holdfast("logs", run_id)
    assert (done.stdout, done.stderr) == (b"".join(b"%d\n" % number for number in range(1, 1201)), b"")
    assert runs.report(run_id)["output"]["complete"] is True


def test_a_follower_gets_the_output_of_a_rolling_run_as_it_comes(runs: Runs, tmp_path: Path) -> None:
    os.mkfifo(gate := tmp_path / "gate")
    run_id = runs.start("sh", "-c", f"seq 1 9999; read -r _ <{gate}; echo last", options=ROLLS)
    with start("logs", "-f", run_id) as follower:
        assert follower.stdout is not None
        shown = read_until(follower.stdout.fileno(), b"9999\n")
        gate.write_text("\n")
        out, err = follower.communicate(timeout=30)
    assert (shown[:4], out) == (b"1\n2\n", b"last\n")
    written = len(b"".join(b"%d\n" % number for number in range(1, 10000)))
    assert sum(map(int, MISSING.findall(err))) == written - len(shown), "it may have been too late for the middle"
    assert MISSING.sub(b"", err) == b""


@pytest.mark.parametrize("detached", [True, False])
@pytest.mark.parametrize(
    ("options", "limit", "beyond"),
    [
        ((), 1 << 30, "roll"),
        (("--max-output", "5M"), 5 << 20, "stop"),
        (("--max-output", "5M", "--on-max-output", "roll"), 5 << 20, "roll"),
        (("--on-max-output", "stop"), None, "stop"),
    ],
)
def test_a_kept_run_keeps_at_most_a_gibibyte(
    runs: Runs, detached: bool, options: tuple[str, ...], limit: int | None, beyond: str
) -> None:
    if detached:
        run_id = runs.ended("true", options=options)
    else:
        run_id = "foreground"
        assert holdfast("run", "--id", run_id, *options, "true").returncode == 0
    with read_record(StateDirectory.open(str(runs.state)), run_id) as record:
        spec = record.reader.spec
    assert spec is not None
    assert (spec.get("max_output_bytes"), spec.get("on_max_output")) == (limit, beyond)
