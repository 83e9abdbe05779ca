"""`holdfast run` through pipes: exit codes, output that passes through unchanged, signals, and the report."""

from __future__ import annotations

import array
import fcntl
import hashlib
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import termios
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ...support.children import CHILDREN
from ...support.evidence import BUSY_S
from ...support.processes import guards_below, let_stop_both, sentinel_of, state_of, stopping_both, wait_exited
from ...support.readiness import names_in
from ..console import HOLDFAST, holdfast, read_until, start

if TYPE_CHECKING:
    from ...support.children import Children

pytestmark = pytest.mark.guard

RUN_LINE = "; run "


def told(done: subprocess.CompletedProcess[bytes]) -> str:
    """The one line that Holdfast printed."""
    (line,) = done.stderr.decode().splitlines()
    assert line.startswith("holdfast: ")
    return line


def finish(process: subprocess.Popen[bytes]) -> tuple[int, bytes, bytes]:
    """Exit code and the rest of both streams."""
    stdout, stderr = process.communicate(timeout=30)
    return process.returncode, stdout, stderr


# Exit codes, and what is said about them.


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["true"], 0),
        (["sh", "-c", "exit 3"], 3),
        (["sh", "-c", "exit 124"], 124),
        (["sh", "-c", "kill -9 $$"], 137),
        (["sh", "-c", "kill -TERM $$"], 143),
    ],
)
def test_the_command_s_own_end_needs_no_words(command: list[str], code: int) -> None:
    done = holdfast("run", *command)
    assert (done.returncode, done.stdout, done.stderr) == (code, b"", b"")


@pytest.mark.parametrize(
    ("command", "code", "line"),
    [
        (["no-such-command"], 127, "cannot run 'no-such-command': no such file or directory"),
        ([str(CHILDREN / "bad_interpreter.sh")], 126, "its interpreter cannot be run"),
        (["/"], 126, "cannot run '/': permission denied"),
        (["--cwd", "/nonexistent", "true"], 125, "the working directory cannot be entered: no such file or directory"),
        (["--timeout", "200ms", "sleep", "100"], 124, "timed out: deadline of 200ms passed; SIGTERM"),
        (["--idle-timeout", "200ms", "sleep", "100"], 124, "timed out: no activity for 200ms; SIGTERM"),
        (["--max-output", "1K", "yes"], 137, "failed: output limit of 1K reached"),
    ],
)
def test_other_ends_are_told_in_one_line(command: list[str], code: int, line: str) -> None:
    done = holdfast("run", *command)
    assert done.returncode == code
    assert line in told(done)
    assert RUN_LINE in told(done)


@pytest.mark.parametrize("reason", ["a\nb\x1b[31m\r", "a\u2028b\u202e"])
def test_other_people_s_text_cannot_do_anything_to_a_terminal(child: Children, reason: str) -> None:
    process = start("run", "--id", "escaped", *child("exits_on_term"))
    assert process.stdout is not None
    read_until(process.stdout.fileno(), b"ready")
    assert holdfast("cancel", "--reason", reason, "escaped").returncode == 0
    code, _, stderr = finish(process)
    shown = reason.encode("unicode_escape").decode()
    assert (code, stderr.decode()) == (143, f"holdfast: cancelled: {shown}; SIGTERM; run escaped\n")


def test_quiet() -> None:
    done = holdfast("run", "--quiet", "--timeout", "100ms", "sleep", "100")
    assert (done.returncode, done.stderr) == (124, b"")


def test_processes_that_were_left_behind_are_told(child: Children) -> None:
    done = holdfast("run", *child("leaves_holder", "null"))
    assert done.returncode == 0
    assert "left 1 process behind" in told(done)


def test_processes_that_were_left_on_purpose_are_not_said_to_resist(child: Children) -> None:
    done = holdfast("run", "--id", "leaves", "--stragglers", "leave", *child("leaves_holder", "null"))
    holder = int(done.stdout.split(b"holder=")[1])
    line = f"holdfast: exited with code 0; left 1 process behind; left alone: process {holder}; run leaves"
    try:
        assert (done.returncode, told(done)) == (0, line)
        why = holdfast("why", "leaves").stdout.decode()
        assert f"  1 process left alone: {holder}\n" in why
    finally:
        os.kill(holder, signal.SIGKILL)
        os.waitpid(holder, 0)  # our child since its guard is gone


def test_a_lost_guard_is_125(child: Children) -> None:
    process = start("run", *child("exits_on_term"))
    assert process.stdout is not None
    read_until(process.stdout.fileno(), b"ready")
    (guard,) = guards_below(process.pid)
    os.kill(guard, signal.SIGKILL)
    code, _, stderr = finish(process)
    assert code == 125
    assert b"holdfast: lost: the guard died before it recorded an end" in stderr


def press(process: subprocess.Popen[bytes], number: int) -> None:
    """Send a signal again and again until the process ends; a signal within 30 ms counts as the same one."""
    for _ in range(600):
        if process.poll() is not None:
            return
        process.send_signal(number)
        try:
            process.wait(0.1)
        except subprocess.TimeoutExpired:
            continue
    raise AssertionError("it does not end")


def test_a_guard_that_answers_nothing_is_given_up(child: Children) -> None:
    process = start("run", *child("exits_on_term"))
    assert process.stdout is not None
    ready = read_until(process.stdout.fileno(), b"\n")
    (guard,) = guards_below(process.pid)
    with stopping_both(sentinel_of(guard), guard):
        press(process, signal.SIGINT)
    code, _, stderr = finish(process)
    # On a busy machine the guard may answer between a SIGCONT of the watchdog and the next SIGSTOP.
    assert (code, b"holdfast: lost: " in stderr) in {(125, True), (130, False)}
    assert wait_exited(names_in(ready)["pid"])


SHORT = ("--grace", "200ms", "--kill-wait", "1s", "--drain", "300ms")
SHORT_END_S = 1.5 + 2.0 + BUSY_S  # grace, kill-wait and drain; the two seconds of the rule


@pytest.mark.guard
@pytest.mark.parametrize("how", ["once", "loop"])
def test_a_command_that_stops_guard_and_sentinel_is_ended_in_time(child: Children, contained: str, how: str) -> None:
    environment = {**os.environ, "HOLDFAST_CONTAINMENT": contained}
    begin = time.monotonic()
    done = holdfast("run", "--timeout", "1s", *SHORT, "--", *child("stops_guard", how), env=environment)
    assert time.monotonic() - begin < 1 + SHORT_END_S
    assert done.returncode in {124, 125}
    assert not Path(f"/proc/{int(done.stdout.split(b'pid=')[1].split()[0])}").exists()


@pytest.mark.guard
def test_the_exit_of_such_a_command_is_seen_without_a_deadline(child: Children) -> None:
    assert holdfast("run", *child("stops_guard", "exits")).returncode == 7


@pytest.mark.guard
def test_a_signal_ends_such_a_command_without_a_deadline(child: Children) -> None:
    process = start("run", *SHORT, "--", *child("stops_guard", "asked"))
    assert process.stdout is not None
    let_stop_both(names_in(read_until(process.stdout.fileno(), b"\n")))
    begin = time.monotonic()
    process.send_signal(signal.SIGINT)
    finish(process)
    assert time.monotonic() - begin < SHORT_END_S


def test_no_descriptors_left_is_one_line() -> None:
    for limit in range(11, 20):
        line = f"ulimit -n {limit}; exec {sys.executable} -m holdfast.cli.main run echo done"
        done = subprocess.run(["sh", "-c", line], capture_output=True, stdin=subprocess.DEVNULL, check=False)
        assert (done.returncode, done.stdout) in ((0, b"done\n"), (125, b"")), (limit, done)
        if done.returncode:
            assert "Too many open files" in told(done)


# The command line.


def test_the_command_s_words_are_its_own() -> None:
    show = "import sys; print(sys.argv[1:])"
    for words in (["-l"], ["--timeout", "x"], ["--", "a"], ["-"], [""], ["*", "$HOME", "a b"]):
        assert holdfast("run", sys.executable, "-c", show, *words).stdout == f"{words}\n".encode()
        assert (
            holdfast("run", "--timeout", "20", "--", sys.executable, "-c", show, *words).stdout == f"{words}\n".encode()
        )


def test_a_command_that_looks_like_an_option() -> None:
    assert "cannot run '-x'" in told(holdfast("run", "--", "-x"))


def test_bytes_that_are_no_text_reach_the_command() -> None:
    show = "import os, sys; print(os.fsencode(sys.argv[1]), os.environb[b'V'])"
    word = b"\xff\xfe"
    done = holdfast("run", "--env", os.fsdecode(b"V=" + word), sys.executable, "-c", show, os.fsdecode(word))
    assert done.stdout == f"{word!r} {word!r}\n".encode()


# Output.


def test_bytes_pass_unchanged_on_their_own_streams(child: Children) -> None:
    command = child("splits_bytes.sh")
    bare = subprocess.run(command, capture_output=True, check=True)
    done = holdfast("run", *command)
    assert (done.stdout, done.stderr) == (bare.stdout, bare.stderr)
    merged = holdfast("run", "--merge", *command)
    assert (merged.stderr, sorted(merged.stdout)) == (b"", sorted(bare.stdout + bare.stderr))


def test_output_comes_while_the_command_runs() -> None:
    process = start("run", "sh", "-c", "printf first; read line; echo $line", stdin=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    assert read_until(process.stdout.fileno(), b"first") == b"first"
    process.stdin.write(b"second\n")
    process.stdin.close()
    process.stdin = None
    assert finish(process) == (0, b"second\n", b"")


@pytest.mark.parametrize("kind", ["pipe", "non-blocking pipe", "socket"])
def test_much_output_through_a_slow_reader(child: Children, kind: str) -> None:
    size = 48 << 20
    reading, writing = (end.detach() for end in socket.socketpair()) if kind == "socket" else os.pipe()
    if kind == "non-blocking pipe":
        os.set_blocking(writing, False)
    process = start("run", *child("writes_bytes", size), stdout=writing)
    os.close(writing)
    digest, length, peak = hashlib.sha256(), 0, 0
    while part := os.read(reading, 50_000):  # never a multiple of the output
        digest.update(part)
        length += len(part)
        if not peak and length > size * 3 // 4:
            status = Path(f"/proc/{process.pid}/status").read_text()
            peak = int(status.split("VmHWM:")[1].split()[0])
    os.close(reading)
    assert (length, finish(process)[2]) == (size, b"wrote %d\n" % size)
    block = bytes(ord("a") + i % 26 for i in range(1 << 20))
    assert digest.digest() == hashlib.sha256(block * 48).digest()
    assert 0 < peak < 32 << 10  # KiB: nothing is collected


def test_a_reader_that_went_away_ends_the_run(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    process = start("run", "--report", str(report), "yes")
    assert process.stdout is not None
    read_until(process.stdout.fileno(), b"y\n")
    process.stdout.close()
    process.stdout = None
    assert finish(process)[::2] == (143, b"")  # as quiet as any program at the head of a pipe
    told = json.loads(report.read_text())
    assert (told["status"], told["cause"], told["tree"]) == ("cancelled", "user", "gone")
    assert "nobody reads its stdout" in told["reason"]


def test_a_device_that_is_full_is_125() -> None:
    with open("/dev/full", "wb") as full:
        done = holdfast("run", "echo", "hello", stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 125
    assert "output could not be passed on: stdout: No space left on device" in told(done)


@pytest.mark.parametrize(
    ("options", "code"), [(["--timeout", "300ms"], 124), (["--timeout", "300ms", "--ladder", "KILL"], 124)]
)
def test_a_reader_that_does_not_read_cannot_hold_up_the_end(child: Children, options: list[str], code: int) -> None:
    process = start("run", *options, "--drain", "200ms", *child("writes_bytes", 1 << 40))
    assert process.wait(30) == code
    finish(process)


def test_a_reader_that_does_not_read_cannot_keep_signals_away(child: Children) -> None:
    process = start("run", "--drain", "200ms", *child("writes_bytes", 1 << 40))
    assert process.stdout is not None
    read_until(process.stdout.fileno(), b"abc")
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 143
    finish(process)


def not_delivered(stderr: bytes) -> tuple[int, str]:
    """The bytes that the one line about them counts, and the run whose log has them."""
    (line,) = [line for line in stderr.decode().splitlines() if "not delivered" in line]
    found = re.fullmatch(
        "holdfast: output could not be passed on: .*; ([0-9]+) bytes were not delivered; "
        "holdfast logs ([0-9a-z-]+) has them; run ([0-9a-z-]+)",
        line,
    )
    assert found is not None, line
    assert found[2] == found[3]
    return int(found[1]), found[2]


MUCH = 25 << 16  # bytes: 25 pipes full


@pytest.mark.parametrize(
    ("then", "code"), [("exec sleep 600", 124), ("exit 3", 3)], ids=["ended at its deadline", "ended by itself"]
)
def test_a_reader_that_keeps_reading_gets_every_byte(then: str, code: int) -> None:
    """It takes several times as long as `--drain`, and pauses for a part of `--drain` only."""
    command = ["sh", "-c", f"head -c {MUCH} /dev/zero; {then}"]
    process = start("run", "--timeout", "3s", "--grace", "1s", "--drain", "1500ms", *command)
    assert process.stdout is not None
    length, pause = 0, threading.Event()
    while part := os.read(process.stdout.fileno(), 1 << 16):
        length += len(part)
        pause.wait(0.15)  # a slow reader
    assert (length, process.wait(30)) == (MUCH, code)
    assert b"not delivered" not in finish(process)[2]


@pytest.mark.parametrize("quiet", [[], ["--quiet"]])
@pytest.mark.parametrize(
    ("then", "code"), [("exec sleep 600", 124), ("exit 3", 125)], ids=["ended at its deadline", "ended by itself"]
)
def test_control_a_reader_that_stops_is_given_up_on_aloud(then: str, code: int, quiet: list[str]) -> None:
    command = ["sh", "-c", f"head -c {MUCH} /dev/zero; {then}"]
    process = start("run", *quiet, "--timeout", "3s", "--grace", "1s", "--drain", "100ms", *command)
    assert process.wait(30) == code
    _, taken, stderr = finish(process)
    count, run_id = not_delivered(stderr)
    assert b"its reader did not read in time" in stderr
    assert count == MUCH - len(taken)
    assert holdfast("logs", run_id).stdout == bytes(MUCH)


def test_a_stuck_reader_of_both_streams_is_no_reason_to_hang() -> None:
    """The line about it would have to go through the pipe that is full."""
    command = ["sh", "-c", f"head -c {MUCH} /dev/zero"]
    process = start("run", "--timeout", "20s", "--drain", "100ms", *command, stderr=subprocess.STDOUT)
    assert process.wait(30) == 125
    process.communicate()


def test_a_signal_that_ends_the_wait_for_a_reader_says_what_is_missing() -> None:
    process = start("run", "--id", "stuck-reader", "head", "-c", str(MUCH), "/dev/zero")
    assert process.stdout is not None
    seen = read_until(process.stdout.fileno(), b"\0")  # so the run is there to be waited for
    assert holdfast("wait", "stuck-reader").returncode == 0
    process.send_signal(signal.SIGTERM)  # once, whether or not it has heard yet that the run is over
    assert process.wait(30) == 143, "a reader that reads now would get everything after all, and then the code is 0"
    _, taken, stderr = finish(process)
    assert not_delivered(stderr) == (MUCH - len(seen) - len(taken), "stuck-reader")


def unread(pipe: int) -> int:
    """How many bytes are in a pipe."""
    room = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, room)
    return room[0]


def test_so_does_a_signal_that_comes_before_the_front_has_heard_of_the_end() -> None:
    """The front is stopped while the run ends, and finds the signal and the end at once."""
    hold, release = os.pipe()
    process = start("run", "--id", "unheard", "sh", "-c", f"head -c {MUCH} /dev/zero; read -r _", stdin=hold)
    os.close(hold)
    assert process.stdout is not None
    pipe = process.stdout.fileno()
    seen = read_until(pipe, b"\0")
    while unread(pipe) < fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ) or state_of(process.pid) != "S":
        os.sched_yield()  # it waits for its reader, and does nothing else
    process.send_signal(signal.SIGSTOP)
    os.close(release)
    assert holdfast("wait", "unheard").returncode == 1, "read has met the end of its input"
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGCONT)
    assert process.wait(30) == 143, "a reader that reads now would get everything after all, and then the code is 1"
    _, taken, stderr = finish(process)
    assert not_delivered(stderr) == (MUCH - len(seen) - len(taken), "unheard")


def test_late_output_is_passed_on_when_asked(child: Children) -> None:
    command = ["--timeout", "1s", *child("exits_on_term")]
    assert b"bye" not in holdfast("run", *command).stdout
    assert b"bye" in holdfast("run", "--late", *command).stdout


def test_closed_streams_do_no_harm() -> None:
    quoted = f"{sys.executable} -m holdfast.cli.main run"
    bare = subprocess.run(["sh", "-c", f"{quoted} sh -c 'cat; exit 5' <&-"], capture_output=True, check=False)
    assert (bare.returncode, bare.stdout, bare.stderr) == (5, b"", b"")
    closed = f"{quoted} sh -c 'echo out; echo err >&2; exit 5' >&- 2>&- <&-"
    assert subprocess.run(["sh", "-c", closed], check=False).returncode == 5


def test_one_writer_for_both_streams_on_one_pipe() -> None:
    """Otherwise the rest of one stream would be written after the next piece of the other."""
    script = (
        "from holdfast.cli.terminal.output_writer import open_writers\n"
        "writers = open_writers(); print(writers['stdout'] is writers['stderr'])"
    )
    shared = subprocess.run(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True
    )
    apart = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert (shared.stdout, apart.stdout) == (b"True\n", b"False\n")


# Input and environment.


def test_stdin_is_inherited_null_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "pipe").write_text("from the file")
    assert holdfast("run", "cat", input=b"inherited", stdin=None).stdout == b"inherited"
    assert holdfast("run", "--stdin", "null", "cat", input=b"inherited", stdin=None).stdout == b""
    assert holdfast("run", "--stdin", "pipe", "cat", cwd=tmp_path).stdout == b"from the file"


def test_environment(tmp_path: Path) -> None:
    file = tmp_path / "env"
    file.write_text("# a comment\n\nA=from file\nexport B='quoted  '\nC=x=y\n")
    show = "import os; print([os.environ.get(n) for n in ('A', 'B', 'C', 'CLAUDECODE', 'KEPT_MARK')])"
    environment = {**os.environ, "CLAUDECODE": "1", "KEPT_MARK": "1"}
    options = ["--env-file", str(file), "--env", "A=from option", "--env-drop", "KEPT_*"]
    done = holdfast("run", *options, sys.executable, "-c", show, env=environment)
    assert done.stdout == b"['from option', 'quoted  ', 'x=y', None, None]\n"
    kept = holdfast("run", "--env-keep", "CLAUDECODE", sys.executable, "-c", show, env=environment)
    assert kept.stdout == b"[None, None, None, '1', '1']\n"


def test_a_bad_line_of_an_environment_file_is_named_and_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "env"
    file.write_text("A=1\nhunter2\n")
    done = holdfast("run", "--env-file", str(file), "true")
    assert done.returncode == 125
    assert "line 2 is not NAME=VALUE" in told(done)
    assert b"hunter2" not in done.stderr


SHOW_A_B = [sys.executable, "-c", "import os; print(ascii([os.environ.get(name) for name in 'AB']))"]


def test_only_line_feeds_end_the_lines_of_an_environment_file(tmp_path: Path) -> None:
    file = tmp_path / "env"
    for odd in "\u2028\u2029\x85\f\v\x1c\r":
        value = f"{odd}x{odd}y{odd}"  # at the ends, too: only blanks are removed there
        file.write_bytes(f" \tA = {value}\t \r\nB='1'\n".encode())
        done = holdfast("run", "--env-file", str(file), *SHOW_A_B)
        assert done.stdout.decode() == f"{[value, '1']!a}\n"
    file.write_bytes(b"A=1\r\nB=2\r\n")
    assert holdfast("run", "--env-file", str(file), *SHOW_A_B).stdout == b"['1', '2']\n"
    file.write_bytes(b"A=1\nhunter2\xe2\x80\xa8B\n")
    done = holdfast("run", "--env-file", str(file), *SHOW_A_B)
    assert "line 2 is not NAME=VALUE" in told(done)
    assert b"hunter2" not in done.stderr


def test_a_byte_order_mark_is_no_part_of_the_first_name(tmp_path: Path) -> None:
    file = tmp_path / "env"
    file.write_bytes(b"\xef\xbb\xbfA=1\nB=\xef\xbb\xbf\n")
    assert holdfast("run", "--env-file", str(file), *SHOW_A_B).stdout == b"['1', '\\ufeff']\n"


def test_an_environment_file_may_be_a_pipe() -> None:
    line = f"{' '.join(HOLDFAST)} run --env-file <(printf 'A=1') --env-file <(printf 'B=2') env | grep '^[AB]='"
    done = subprocess.run(["bash", "-c", line], capture_output=True, check=False, timeout=60)
    assert (sorted(done.stdout.split()), done.stderr) == ([b"A=1", b"B=2"], b"")


@pytest.mark.parametrize(("number", "codes"), [(signal.SIGINT, (130,)), (signal.SIGTERM, (-signal.SIGTERM, 143))])
def test_a_pipe_nobody_writes_to_does_not_keep_signals_away(
    tmp_path: Path, number: int, codes: tuple[int, ...]
) -> None:
    """Neither while the pipe is read nor while its writer is waited for, even if the signal was pending before."""

    def send() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, [number])
        os.kill(os.getpid(), number)

    fifo, trace = tmp_path / "fifo", tmp_path / "trace"
    os.mkfifo(fifo)
    process = start("run", "--env-file", str(fifo), "touch", str(trace))
    writing = os.open(fifo, os.O_WRONLY)  # returns when the reader has opened the pipe, and waits
    process.send_signal(number)
    code, stdout, stderr = finish(process)
    os.close(writing)
    assert (code in codes, stdout, stderr) == (True, b"", b"")
    done = holdfast("run", "--env-file", str(fifo), "touch", str(trace), preexec_fn=send)
    assert (done.returncode in codes, done.stdout, done.stderr) == (True, b"", b"")
    assert not trace.exists()


@pytest.mark.parametrize(
    ("options", "variable", "place"),
    [
        ([], "named", "here/named"),
        (["--state-dir", "named"], "other", "here/named"),
        (["--state-dir", ""], "named", "here/named"),
        (["--state-dir", "named"], None, "here/named"),
        ([], "{base}/named", "named"),
    ],
)
def test_runs_inside_a_run_are_kept_beside_it(
    tmp_path: Path, options: list[str], variable: str | None, place: str
) -> None:
    (tmp_path / "here").mkdir()
    environment = {name: value for name, value in os.environ.items() if name != "HOLDFAST_STATE_DIR"}
    if variable is not None:
        environment["HOLDFAST_STATE_DIR"] = variable.format(base=tmp_path)
    nested = [*HOLDFAST, "run", "--id", "inner", "--", "sh", "-c", "echo $HOLDFAST_STATE_DIR"]
    options = ["--id", "outer", "--cwd", "/", *options]
    done = holdfast("run", *options, "--", *nested, cwd=tmp_path / "here", env=environment)
    state = tmp_path / place
    assert (done.returncode, done.stdout.decode(), done.stderr) == (0, f"{state}\n", b"")
    assert sorted(os.listdir(state / "runs")) == ["inner", "outer"]


def test_a_default_state_directory_is_not_passed_on(tmp_path: Path) -> None:
    environment = {**os.environ, "HOLDFAST_STATE_DIR": "", "XDG_STATE_HOME": str(tmp_path)}
    done = holdfast("run", "--state-dir", "", "sh", "-c", "echo -$HOLDFAST_STATE_DIR-", cwd="/", env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"--\n", b"")
    assert os.listdir(tmp_path) == ["holdfast"]


# Signals.


def running(*options: str, command: list[str], **popen: Any) -> subprocess.Popen[bytes]:
    process = start("run", *options, *command, **popen)
    assert process.stdout is not None
    read_until(process.stdout.fileno(), b"ready")
    return process


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 143)])
def test_one_signal_asks(child: Children, number: int, code: int, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    mark = tmp_path / "mark"
    process = running("--late", "--report", str(report), command=child("exits_on_term", 0, mark, number))
    process.send_signal(number)
    ended, stdout, stderr = finish(process)
    assert (ended, stdout[-4:], mark.exists()) == (code, b"bye\n", True), "the command got that signal and no other"
    name = signal.Signals(number).name
    assert f"cancelled by {name}; {name}; run ".encode() in stderr
    told = json.loads(report.read_text())
    assert (told["status"], told["cause"], told["escalated"]) == ("cancelled", "user", False)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_signal_shares_the_grace_with_sigterm(child: Children, number: int, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    process = running("--grace", "1s", "--report", str(report), command=child("reports_signals"))
    process.send_signal(number)
    finish(process)
    rungs = [fact for fact in json.loads(report.read_text())["evidence"] if fact["fact"] == "signalled"]
    assert [fact["signal"] for fact in rungs][:3] == [number, signal.SIGTERM, signal.SIGKILL]
    first, second, third = (fact["at_s"] for fact in rungs[:3])
    assert 0.45 < second - first < 0.9
    assert 0.95 < third - first < 1.9, "and together they have the grace"


@pytest.mark.parametrize("ladder", ["TERM:10s,KILL", "USR1:10s,KILL"])
def test_a_given_ladder_has_its_own_first_rung(child: Children, ladder: str, tmp_path: Path) -> None:
    """Also when it is the one that would have been made."""
    report = tmp_path / "report.json"
    number = signal.Signals[f"SIG{ladder.split(':')[0]}"]
    command = child("exits_on_term", 0, tmp_path / "mark", int(number))
    process = running("--ladder", ladder, "--report", str(report), command=command)
    process.send_signal(signal.SIGINT)
    assert finish(process)[0] == 130
    rungs = [fact["signal"] for fact in json.loads(report.read_text())["evidence"] if fact["fact"] == "signalled"]
    assert rungs == [number]


def test_a_second_signal_kills(child: Children, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    process = running("--late", "--grace", "10m", "--report", str(report), command=child("reports_signals"))
    process.send_signal(signal.SIGINT)
    assert process.stdout is not None
    read_until(process.stdout.fileno(), b"got 2")
    press(process, signal.SIGINT)
    assert finish(process)[0] == 130
    told = json.loads(report.read_text())
    assert (told["status"], told["escalated"], told["tree"]) == ("cancelled", True, "gone")
    assert [fact["signal"] for fact in told["evidence"] if fact["fact"] == "signalled"][:2] == [2, 9]


def test_the_echo_of_a_signal_does_not_kill(child: Children) -> None:
    """`timeout` signals its child and then its whole group, in which the child is."""
    process = running("--late", "--grace", "1m", command=child("exits_on_term"))
    process.send_signal(signal.SIGTERM)
    os.killpg(process.pid, signal.SIGTERM)
    code, stdout, stderr = finish(process)
    assert (code, stdout[-4:]) == (143, b"bye\n")
    assert b"SIGKILL" not in stderr


def test_sigquit_kills_at_once(child: Children) -> None:
    process = running("--grace", "10m", command=child("ignores_term"))
    process.send_signal(signal.SIGQUIT)
    code, _, stderr = finish(process)
    assert code == 143
    assert b"cancelled by SIGQUIT; SIGKILL; run " in stderr


def test_what_was_ignored_stays_ignored(child: Children) -> None:
    def ignore() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    process = running("--late", command=child("reports_signals"), preexec_fn=ignore)
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGUSR1)
    assert process.stdout is not None
    read_until(process.stdout.fileno(), b"got 10")  # it lives, and user signals go to the command
    process.send_signal(signal.SIGQUIT)
    assert finish(process)[0] == 143


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_before_the_start_means_never_executed(tmp_path: Path, number: int, code: int) -> None:
    """The signal is blocked and pending before the process exists, so it comes as early as a signal can."""

    def send() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, [number])
        os.kill(os.getpid(), number)

    trace, report = tmp_path / "trace", tmp_path / "report.json"
    done = holdfast("run", "--report", str(report), "touch", str(trace), preexec_fn=send)
    assert done.returncode == code
    assert f"cancelled before it started by {signal.Signals(number).name}; run " in told(done)
    assert not trace.exists()
    written = json.loads(report.read_text())
    assert (written["status"], written["cause"], written["state"]) == ("cancelled", "user", "settled")
    assert (written["argv"], written["started_at"]) == (["touch", str(trace)], None)
    assert (written["output"]["stdout_bytes"], written["output"]["complete"]) == (0, True)


def test_stops_and_continues_during_the_start_wedge_nothing() -> None:
    process = start("run", "echo", "done")
    while process.poll() is None:
        process.send_signal(signal.SIGTSTP)
        process.send_signal(signal.SIGCONT)
        try:
            process.wait(0.001)
        except subprocess.TimeoutExpired:
            continue
    assert finish(process)[:2] == (0, b"done\n")


def test_nothing_outlives_a_killed_holdfast(child: Children) -> None:
    process = start("run", *child("exits_on_term"))
    assert process.stdout is not None
    ready = read_until(process.stdout.fileno(), b"\n")
    pidfd = os.pidfd_open(int(ready.split(b"pid=")[1]))
    process.kill()
    assert select.select([pidfd], [], [], 30)[0]
    os.close(pidfd)
    finish(process)


# The report.


def test_report(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    report = place / "report.json"
    report.write_text("old")
    done = holdfast(
        "run",
        "--report",
        str(report),
        "--name",
        "n",
        "--label",
        "a=b",
        "sh",
        "-c",
        "cat report.json; exit 4",
        cwd=place,
    )
    assert (done.returncode, done.stdout) == (4, b"old")  # replaced at the end, in one step
    written = json.loads(report.read_text())
    assert (written["status"], written["exit_code"], written["name"], written["labels"]) == (
        "failed",
        4,
        "n",
        {"a": "b"},
    )
    assert written["output"]["stdout_bytes"] == 3
    assert os.listdir(place) == ["report.json"]


def test_report_to_a_descriptor_and_a_fifo(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    done = holdfast("run", "--report", f"/dev/fd/{writing}", "echo", "hello", pass_fds=[writing])
    os.close(writing)
    with open(reading, "rb") as pipe:
        assert json.load(pipe)["status"] == "succeeded"
    assert done.stdout == b"hello\n"
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    trace = tmp_path / "trace"
    assert holdfast("run", "--report", str(fifo), "touch", str(trace)).returncode == 125
    assert not trace.exists()  # found out before the start


def test_a_report_without_a_name_is_refused_before_the_start(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    done = holdfast("run", "--report", "", "touch", str(trace), cwd=tmp_path)
    assert (done.returncode, told(done)) == (
        125,
        "holdfast: --report '' names no file: name one, or leave the option out",
    )
    assert not trace.exists()


def test_a_report_that_cannot_be_written_in_the_end(tmp_path: Path) -> None:
    directory = tmp_path / "directory"
    directory.mkdir()
    done = holdfast("run", "--report", str(directory / "report"), "rmdir", str(directory))
    assert done.returncode == 125
    said, remedy, run = told(done).split("; ")
    assert said.startswith("holdfast: the report cannot be written to ")
    assert remedy == f"holdfast show --json {run.removeprefix('run ')} prints it"
    assert json.loads(holdfast(*remedy.split()[1:4]).stdout)["exit_code"] == 0
