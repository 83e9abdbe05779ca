"""`--stragglers session`: what a command leaves behind goes on as a run of its session, and ends with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ..support.evidence import BUSY_S
from ..support.processes import is_gone, kill_both, sentinel_of, wait_exited
from .console import HOLDFAST, holdfast, read_until, start
from .kept_runs import as_json, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .kept_runs import Runs

pytestmark = pytest.mark.guard

KEEP = ("--session", "s1", "--stragglers", "session")
# A server that escapes in every way, holds stdout, says its PID, and writes a line for each line in its FIFO.
SERVER = 'setsid -f sh -c \'echo pid $$; exec 3<>"$0"; while read -r line <&3; do echo "got $line"; done\' {fifo}'


class Server:
    """A server that was left behind."""

    def __init__(self, fifo: Path) -> None:
        self.fifo = fifo
        os.mkfifo(fifo)
        self.line = f"{SERVER.format(fifo=fifo)}; read -r first < {fifo}.ready; exit 3"
        os.mkfifo(f"{fifo}.ready")

    def start(self, *options: str) -> subprocess.Popen[bytes]:
        """Start the command; it exits, with 3, when `let_exit` is called."""
        return start("run", "--id", "r1", *KEEP, *options, "--", "sh", "-c", self.line)

    def pid(self, process: subprocess.Popen[bytes]) -> int:
        """The PID of the server, when it has said so."""
        assert process.stdout is not None
        return int(read_until(process.stdout.fileno(), b"\n").split()[1])

    def let_exit(self) -> None:
        """Let the command exit."""
        Path(f"{self.fifo}.ready").write_text("\n")

    def say(self, word: str) -> None:
        """Let the server write a line."""
        self.fifo.write_text(f"{word}\n")


@pytest.fixture
def server(tmp_path: Path, runs: Runs) -> Iterator[Server]:
    yield Server(tmp_path / "fifo")
    holdfast("reap", "--session", "s1", "--grace", "0s")
    del runs


def live() -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = as_json(holdfast("ps", "--json"))
    return listed


def successor() -> dict[str, Any]:
    (run,) = live()
    return run


def left(server: Server) -> int:
    """Leave the server behind, and return its PID."""
    with server.start() as process:
        pid = server.pid(process)
        server.let_exit()
        process.communicate(timeout=60)
    return pid


def test_a_server_goes_on_and_ends_with_its_session(server: Server, contained: str, runs: Runs) -> None:
    with server.start() as process:
        pid = server.pid(process)
        server.let_exit()
        begun = time.monotonic()
        _, err = process.communicate(timeout=60)  # end of file: the server holds no pipe of the caller
        assert process.returncode == 3
        assert time.monotonic() - begun < BUSY_S, "nobody waits for the server"
    assert b"going on with the session" in err
    first, then = runs.report("r1"), successor()
    assert (first["state"], first["status"], first["exit_code"]) == ("settled", "failed", 3)
    assert (then["state"], then["name"], then["session"]) == ("running", "left over from r1", "s1")
    assert (then["containment"], then["pid"]) == (contained, pid)
    runs.ids.append(then["run_id"])
    server.say("more")
    runs.until(then["run_id"], b"got more")
    assert b"got more" not in holdfast("logs", "r1").stdout
    done = holdfast("reap", "--session", "s1")
    assert (done.returncode, b"1 confirmed gone" in done.stdout) == (0, True)
    told = runs.report(then["run_id"])
    assert (told["status"], told["cause"], told["tree"]) == ("cancelled", "session", "gone")
    assert is_gone(pid)


def test_a_server_ends_with_the_starter(server: Server, runs: Runs) -> None:
    program = "import subprocess, sys, time; subprocess.run(sys.argv[1:]); print('done', flush=True); time.sleep(600)"
    line = [*HOLDFAST, "sh", "--id", "r1", *KEEP, server.line]
    with subprocess.Popen([sys.executable, "-c", program, *line], stdout=subprocess.PIPE) as harness:
        pid = server.pid(harness)
        server.let_exit()
        assert harness.stdout is not None
        read_until(harness.stdout.fileno(), b"done\n")
        then = successor()
        harness.kill()
    assert wait_exited(pid)
    holdfast("wait", then["run_id"])
    told = runs.report(then["run_id"])
    assert (told["cause"], told["tree"]) == ("owner", "gone")


@pytest.mark.parametrize(("end", "status", "code"), [("exit 0", "succeeded", 0), ("exit 7", "failed", 7)])
def test_stragglers_that_end_by_themselves(tmp_path: Path, runs: Runs, end: str, status: str, code: int) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    done = holdfast("run", "--id", "r1", *KEEP, "--", "sh", "-c", f"{{ read line; {end}; }} < {fifo} & exit 0")
    assert done.returncode == 0
    then = successor()
    fifo.write_text("\n")
    holdfast("wait", then["run_id"])
    told = runs.report(then["run_id"])
    assert (told["status"], told["cause"], told["exit_code"], told["tree"]) == (status, "exit", code, "gone")


def test_a_command_that_leaves_nothing_has_no_successor() -> None:
    assert holdfast("run", "--id", "r1", *KEEP, "--", "true").returncode == 0
    assert [run["run_id"] for run in as_json(holdfast("ps", "--all", "--json"))] == ["r1"]


def test_the_guard_of_a_successor_is_killed(server: Server, contained: str, runs: Runs) -> None:
    pid = left(server)
    then = successor()
    (guard,) = (fact["guard_pid"] for fact in runs.report(then["run_id"])["evidence"] if fact["fact"] == "started")
    os.kill(guard, signal.SIGKILL)
    assert wait_exited(pid)
    assert holdfast("wait", then["run_id"]).returncode == 125
    told = runs.report(then["run_id"])
    assert (told["status"], told["tree"], told["containment"]) == ("lost", "gone", contained)


def test_guard_and_sentinel_of_a_successor_are_killed(server: Server, contained: str, runs: Runs) -> None:
    """The stragglers carry the mark of the run that left them: the next reader finds and ends them."""
    pid = left(server)
    then = successor()
    (guard,) = (fact["guard_pid"] for fact in runs.report(then["run_id"])["evidence"] if fact["fact"] == "started")
    kill_both(sentinel_of(guard), guard)
    assert holdfast("wait", then["run_id"]).returncode == 125
    assert wait_exited(pid), contained


def test_an_owner_that_cannot_make_a_run_for_them(server: Server, runs: Runs) -> None:
    """The session is closed between the start and the exit: the stragglers end, and the outcome is the command's."""
    with server.start() as process:
        pid = server.pid(process)
        mark_closed(runs.state)
        server.let_exit()
        process.communicate(timeout=60)
        assert process.returncode == 3
    assert wait_exited(pid)
    assert live() == []
    assert (runs.report("r1")["tree"], runs.report("r1")["exit_code"]) == ("gone", 3)


def mark_closed(path: Path) -> None:
    """The mark alone, as a closer makes it before it looks for runs."""
    from holdfast.state import sessions
    from holdfast.state.directory import StateDirectory

    sessions.mark_closed(StateDirectory.open(str(path)), "s1")


def test_an_owner_that_is_stopped_does_not_keep_them_alive(server: Server, runs: Runs) -> None:
    """Nobody makes a run for the stragglers: after five seconds the guard ends them."""
    with server.start() as process:
        pid = server.pid(process)
        os.kill(process.pid, signal.SIGSTOP)
        server.let_exit()
        assert wait_exited(pid)
        os.kill(process.pid, signal.SIGCONT)
        process.communicate(timeout=60)
        assert process.returncode == 3
    assert (live(), runs.report("r1")["tree"]) == ([], "gone")


def test_where_it_is_not_possible() -> None:
    assert "needs a session" in one_line(holdfast("run", "--stragglers", "session", "--", "true"))
    assert "needs lifetime 'owner'" in one_line(holdfast("run", *KEEP, "--detach", "--", "true"))
    assert "with a terminal" in one_line(holdfast("run", *KEEP, "--pty", "--", "true"))


@pytest.mark.parametrize("policy", ["session", "kill"])
def test_a_shell_line_of_a_session_keeps_its_server(runs: Runs, policy: str) -> None:
    """`holdfast sh` knows the session of the harness, and the server is wanted. The control: `--stragglers kill`."""
    options = [] if policy == "session" else ["--stragglers", policy]
    done = holdfast("sh", "--session", "s1", *options, "setsid -f sleep 600 >/dev/null 2>&1; echo left")
    try:
        assert (done.returncode, done.stdout, done.stderr) == (0, b"left\n", b"")
        assert [run["session"] for run in live()] == (["s1"] if policy == "session" else [])
    finally:
        holdfast("reap", "--session", "s1", "--grace", "0s")
    assert live() == []
    del runs
