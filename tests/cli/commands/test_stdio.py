"""`holdfast stdio`: the server has the client's own streams, and its whole tree ends with the client."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from holdfast.guard.binary import guard_path

from ...support.evidence import BUSY_S, Stopwatch, assert_all_gone
from ...support.processes import children_of, guards_below, is_gone, kill_both, sentinel_of, stop_both, wait_exited
from ..console import HOLDFAST, holdfast, read_until, start
from ..kept_runs import Runs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.guard

QUICK = ("--after-eof", "200ms", "--grace", "200ms")
# Says who it and a grandchild in a session of its own are, ignores everything, and never reads its stdin.
STUBBORN = """
trap '' TERM INT HUP
setsid sh -c "trap '' TERM INT HUP; while :; do sleep 1; done" &
echo $$ $!; while :; do sleep 1; done
"""


@contextmanager
def stdio(*arguments: str, server: tuple[str, ...]) -> Iterator[subprocess.Popen[bytes]]:
    process = start("stdio", *arguments, "--", *server, stdin=subprocess.PIPE)
    with process:
        try:
            yield process
        finally:
            process.kill()


def line_of(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stdout is not None
    return read_until(process.stdout.fileno(), b"\n")


def pids_of(process: subprocess.Popen[bytes]) -> list[int]:
    return [int(word) for word in line_of(process).split()]


def ended(process: subprocess.Popen[bytes], within_s: float = 30) -> int:
    return process.wait(within_s)


def close_stdin(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()


def until_front(process: subprocess.Popen[bytes]) -> None:
    """Return when Python has become the front: there is no event for that."""
    end = time.monotonic() + 30
    while os.path.realpath(f"/proc/{process.pid}/exe") != os.path.realpath(guard_path()):
        assert time.monotonic() < end, "Python stays"


def test_bytes_pass_and_the_exit_code_is_the_servers() -> None:
    done = holdfast("stdio", "--", "sh", "-c", "cat; echo err >&2; exit 7", stdin=None, input=bytes(range(256)) * 5000)
    assert (done.returncode, done.stdout, done.stderr) == (7, bytes(range(256)) * 5000, b"err\n")


def test_the_server_has_the_clients_own_streams() -> None:
    with stdio(server=("sh", "-c", "readlink /proc/self/fd/0 /proc/self/fd/1 /proc/self/fd/2; exec cat")) as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        ours = [
            os.readlink(f"/proc/self/fd/{pipe.fileno()}") for pipe in (process.stdin, process.stdout, process.stderr)
        ]
        assert read_until(process.stdout.fileno(), ours[2].encode() + b"\n").decode().split() == ours
        os.write(process.stdin.fileno(), b"half a li")
        assert read_until(process.stdout.fileno(), b"half a li") == b"half a li", "no line is held back"
        process.stdin.close()
        assert ended(process) == 0


@pytest.mark.skipif(
    "HOLDFAST_GUARD" in os.environ, reason="allowed: a sanitizer takes more memory than the front itself"
)
def test_no_interpreter_waits() -> None:
    with stdio(server=("sh", "-c", "echo ready; exec cat")) as process:
        line_of(process)
        until_front(process)
        with open(f"/proc/{process.pid}/smaps_rollup") as file:
            numbers = {line.split(":")[0]: line.split()[1] for line in file if line.endswith("kB\n")}
        assert int(numbers["Rss"]) <= 1024
        assert int(numbers["Private_Dirty"]) + int(numbers["Private_Clean"]) <= 256
        close_stdin(process)
        assert ended(process) == 0


def test_a_server_that_closes_its_stdout_is_heard() -> None:
    """The front keeps no copy of stdout."""
    with stdio(server=("sh", "-c", "echo ready; exec 1>&-; exec cat >/dev/null")) as process:
        assert process.stdout
        assert line_of(process) == b"ready\n"
        with Stopwatch() as watch:
            assert process.stdout.read() == b""
        assert watch.seconds < BUSY_S
        assert process.poll() is None
        close_stdin(process)
        assert ended(process) == 0


@pytest.mark.parametrize("how", ["close", "terminate"])
def test_a_stubborn_tree_ends_with_the_client(how: str, contained: str, runs: Runs) -> None:
    with stdio(*QUICK, "--id", "one", server=("sh", "-c", STUBBORN)) as process:
        pids = pids_of(process)
        if how == "close":
            close_stdin(process)
        else:
            process.terminate()
        assert ended(process) == 143
        assert all(map(is_gone, pids))
        report = runs.report("one")
        assert_all_gone(report)
        assert (report["status"], report["cause"], report["containment"]) == ("cancelled", "user", contained)
        assert report["output"]["stdout_bytes"] is None
        assert process.stderr
        assert process.stderr.read() == b""


def test_sigkill_of_the_front_ends_the_tree(contained: str) -> None:
    with stdio(*QUICK, server=("sh", "-c", STUBBORN)) as process:
        pids = pids_of(process)
        process.kill()
        assert all(wait_exited(pid, 3 + BUSY_S) for pid in pids), contained


def killed_client(*arguments: str) -> tuple[subprocess.Popen[bytes], list[int]]:
    """A client that was SIGKILLed while its server ran. Its pipes are ours, too: so there is no end of file."""
    command = [*HOLDFAST, "stdio", *arguments, "--", "sh", "-c", STUBBORN]
    line = ' "$@"; exit 0'  # not the last command: sh must not become holdfast
    client = subprocess.Popen(["sh", "-c", line, "sh", *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    pids = [*pids_of(client), *children_of(client.pid)]
    client.kill()
    client.wait()
    return client, pids


def test_a_killed_client_leaves_nothing_within_three_seconds(contained: str) -> None:
    client, (leader, grandchild, front) = killed_client()
    assert wait_exited(leader, 3 + BUSY_S), contained
    assert wait_exited(grandchild, 3 + BUSY_S), contained
    assert wait_exited(front)
    client.communicate()


def test_control_without_the_parent_the_server_goes_on() -> None:
    client, pids = killed_client("--without-parent", *QUICK)
    assert not wait_exited(pids[0], 0.5)
    client.communicate()  # closes stdin
    assert all(map(wait_exited, pids))


def test_the_defaults_leave_nothing_when_a_client_kills_two_seconds_after_sigterm() -> None:
    with stdio(server=("sh", "-c", STUBBORN)) as process:
        pids = pids_of(process)
        process.terminate()
        assert all(wait_exited(pid, 2 + BUSY_S) for pid in pids)
        assert ended(process) == 143


def test_a_second_signal_hurries() -> None:
    with stdio("--grace", "60s", "--verbose", server=("sh", "-c", STUBBORN)) as process:
        pids = pids_of(process)
        process.send_signal(signal.SIGINT)
        (guard,) = guards_below(process.pid)
        assert not wait_exited(pids[0], 0.1), "the grace goes on"
        process.terminate()
        assert ended(process) == 130
        assert wait_exited(guard)
        assert process.stderr
        assert b"cancelled by SIGINT; SIGINT, then SIGKILL" in process.stderr.read()


@pytest.mark.parametrize(
    ("server", "code", "says"),
    [
        (("no-such-server",), 127, b"holdfast: cannot run 'no-such-server': no such file or directory; run "),
        (("/etc/passwd",), 126, b"holdfast: cannot run '/etc/passwd': permission denied; run "),
        (("sh", "-c", "exit 3"), 3, b""),
        (("sh", "-c", "kill -9 $$"), 137, b""),
        ((), 125, b"holdfast: no server was given: write holdfast stdio"),
    ],
)
def test_a_server_that_does_not_run_on(server: tuple[str, ...], code: int, says: bytes) -> None:
    done = holdfast("stdio", "--", *server)
    assert (done.returncode, done.stdout) == (code, b"")
    assert done.stderr.startswith(says)
    assert done.stderr.count(b"\n") == (1 if says else 0)


@pytest.mark.parametrize("idle", [(), ("--idle", "60s")])
def test_a_closed_stream_is_nothing_else_in_the_front(idle: tuple[str, ...]) -> None:
    """A descriptor of the front with that number would be read and written in place of the client's stream."""
    command = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *HOLDFAST, "stdio", *idle, "--", "sleep", "600"]
    with subprocess.Popen(command) as process:
        try:
            until_front(process)
            assert [os.readlink(f"/proc/{process.pid}/fd/{fd}") for fd in (0, 1, 2)] == ["/dev/null"] * 3
        finally:
            process.kill()


def test_a_flood_on_stderr_passes_and_holds_nothing_up() -> None:
    line = "head -c 20000000 /dev/zero >&2; cat"
    done = holdfast("stdio", "--", "sh", "-c", line, stdin=None, input=b"after\n")
    assert (done.returncode, done.stdout, len(done.stderr)) == (0, b"after\n", 20_000_000)


def test_a_lost_guard_is_told_and_its_tree_ended() -> None:
    with stdio(*QUICK, server=("sh", "-c", STUBBORN)) as process:
        pids = pids_of(process)
        (guard,) = guards_below(process.pid)
        kill_both(sentinel_of(guard), guard)
        assert ended(process) == 125
        assert all(wait_exited(pid, 3 + BUSY_S) for pid in pids)
        assert process.stderr
        assert process.stderr.read().startswith(b"holdfast: lost: ")


def test_a_stopped_guard_is_continued() -> None:
    with stdio(*QUICK, server=("sh", "-c", STUBBORN)) as process:
        pids = pids_of(process)
        (guard,) = guards_below(process.pid)
        stop_both(sentinel_of(guard), guard)
        close_stdin(process)
        assert ended(process) == 143
        assert all(map(is_gone, pids))


def test_a_signal_of_an_enclosing_run_keeps_its_cause(runs: Runs) -> None:
    inner = [*HOLDFAST, "stdio", "--id", "inner", "--without-parent", "--", "sh", "-c", "echo ready; exec sleep 600"]
    script = f"import subprocess; subprocess.Popen({inner!r}, stdin=subprocess.PIPE).wait()"
    with start("run", "--id", "outer", "--grace", "20", "--", sys.executable, "-c", script) as process:
        line_of(process)
        process.terminate()
        process.wait(30)
    assert runs.report("inner")["cause"] == "parent"


def test_a_state_directory_that_cannot_be_used_is_no_reason_not_to_serve(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "file")}
    del environment["HOLDFAST_STATE_DIR"]
    done = holdfast("stdio", *QUICK, "--", "cat", stdin=None, input=b"hello", env=environment)
    assert (done.returncode, done.stdout) == (0, b"hello")
    assert done.stderr.startswith(b"holdfast: this run is not kept: ")
    stubborn = holdfast("stdio", *QUICK, "--", "sh", "-c", STUBBORN, stdin=None, input=b"", env=environment)
    assert stubborn.returncode == 143
