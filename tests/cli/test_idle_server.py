"""`holdfast stdio --idle`: a silent server is ended, and the next message starts it again. The client sees nothing."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from ..support.processes import (
    children_of,
    descendants,
    guards_below,
    is_gone,
    kill_both,
    sentinel_of,
    wait_exited,
)
from .console import HOLDFAST, Console, holdfast, read_until, start

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.guard

IDLE = ("--idle", "300ms", "--after-eof", "300ms", "--grace", "100ms")
# A server that says who it is and what it was told so far. It owes an answer to `slow` for ever.
SERVER = """
import json, os, signal, sys
if "stubborn" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
heard = []
for line in sys.stdin:
    message = json.loads(line)
    heard.append(message.get("method"))
    if "id" in message and message["method"] != "slow":
        result = {"pid": os.getpid(), "heard": heard}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
while "stubborn" in sys.argv:
    signal.pause()
"""
BEGINNING = ["initialize", "notifications/initialized"]


class Session:
    """A client that speaks by hand."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.last_id = 0
        self.unread = b""

    def say(self, method: str, **message: Any) -> None:
        assert self.process.stdin is not None
        os.write(self.process.stdin.fileno(), json.dumps({"method": method, **message}).encode() + b"\n")

    def ask(self, method: str) -> dict[str, Any]:
        """Send a request; the next line has to be its answer, and nothing else may come with it."""
        assert self.process.stdout is not None
        self.last_id += 1
        self.say(method, id=self.last_id)
        (line,) = read_until(self.process.stdout.fileno(), b"\n").splitlines()
        answer = json.loads(line)
        assert answer["id"] == self.last_id
        result: dict[str, Any] = answer["result"]
        return result

    def begin(self) -> int:
        """Initialize the session; returns who serves it."""
        self.ask("initialize")
        self.say("notifications/initialized")
        result = self.ask("tools/list")
        assert result["heard"] == [*BEGINNING, "tools/list"]
        return int(result["pid"])


@contextmanager
def serving(*server: str, options: tuple[str, ...] = IDLE) -> Iterator[Session]:
    command = server or (sys.executable, "-c", SERVER)
    with start("stdio", *options, "--", *command, stdin=subprocess.PIPE) as process:
        try:
            yield Session(process)
        finally:
            process.kill()


def until_asleep(front: int) -> None:
    """Return when nothing is left below the front: neither server nor guard."""
    for pid in descendants(front):
        assert wait_exited(pid)
    end = time.monotonic() + 30
    while children_of(front):  # the front reaps its sentinel: there is no event for that
        assert time.monotonic() < end, "the front does not reap"


@pytest.mark.parametrize("server", ["polite", "stubborn"])
def test_a_silent_server_is_ended_and_the_next_message_starts_it_again(server: str, contained: str) -> None:
    with serving(sys.executable, "-c", SERVER, server) as session:
        pids = [session.begin()]
        for _ in range(2):
            until_asleep(session.process.pid)
            answer = session.ask("tools/call")
            assert answer["heard"] == [*BEGINNING, "tools/call"], "the answer to the repeated request is swallowed"
            pids.append(answer["pid"])
        assert len(set(pids)) == 3
        assert session.process.stdin is not None
        session.process.stdin.close()
        assert session.process.wait(30) == (0 if server == "polite" else 143), contained
        assert all(map(is_gone, pids))


def test_a_session_that_began_with_discovery_needs_no_beginning() -> None:
    with serving() as session:
        first = session.ask("server/discover")
        until_asleep(session.process.pid)
        again = session.ask("tools/call")
        assert again["heard"] == ["tools/call"]
        assert again["pid"] != first["pid"]


@pytest.mark.parametrize("why", ["owes an answer", "has a subscription", "works on a task", "half a line", "not MCP"])
def test_a_server_that_cannot_be_replaced_stays(why: str) -> None:
    # A second, so that a busy machine does not make the session silent before it has said why the server stays.
    with serving(options=("--idle", "1s", *IDLE[2:])) as session:
        pid = session.ask("textDocument/hover")["pid"] if why == "not MCP" else session.begin()
        if why == "owes an answer":
            session.say("slow", id="s-1")
        elif why == "has a subscription":
            session.ask("resources/subscribe")
        elif why == "works on a task":
            session.ask("tasks/get")
        elif why == "half a line":
            assert session.process.stdin is not None
            os.write(session.process.stdin.fileno(), b'{"method": "tools/li')
        assert not wait_exited(pid, 2.5)


def test_a_cancelled_request_is_owed_no_answer() -> None:
    with serving() as session:
        pid = session.begin()
        session.say("slow", id="s-1")
        session.say("notifications/cancelled", params={"requestId": "s-1", "reason": "id"})
        assert wait_exited(pid)


@pytest.mark.parametrize(("how", "code"), [("close", 0), ("terminate", 143), ("kill", -9)])
def test_a_client_that_leaves_while_no_server_is_there(how: str, code: int) -> None:
    with serving() as session:
        session.begin()
        until_asleep(session.process.pid)
        if how == "close":
            assert session.process.stdin is not None
            session.process.stdin.close()
        else:
            getattr(session.process, how)()
        assert session.process.wait(30) == code


def test_ctrl_d_while_no_server_is_there() -> None:
    """A terminal says that it is ready, and has nothing: no hang-up tells of the end."""
    with Console(*HOLDFAST, "stdio", *IDLE, "--", sys.executable, "-c", SERVER) as console:
        console.type(b'{"id": 1, "method": "initialize"}\n{"method": "notifications/initialized"}\n')
        console.until(b'"result"')
        until_asleep(console.process.pid)
        console.type(b"\x04")
        assert console.wait() == 0


def test_the_starter_is_watched_while_no_server_is_there() -> None:
    """Its client is killed, and somebody else holds the pipes."""
    command = [*HOLDFAST, "stdio", *IDLE, "--", sys.executable, "-c", SERVER]
    client = subprocess.Popen(
        ["sh", "-c", '"$@"; exit 0', "sh", *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    session = Session(client)
    server = session.begin()
    assert wait_exited(server)
    (front,) = children_of(client.pid)
    client.kill()
    assert wait_exited(front)
    client.communicate()


def test_a_message_of_a_dead_client_starts_no_server() -> None:
    """In a session of its own, as SDKs start servers: there a front cannot tell its starter from an adopter."""
    command = ["setsid", *HOLDFAST, "stdio", *IDLE, "--", sys.executable, "-c", SERVER]
    client = subprocess.Popen(
        ["sh", "-c", '"$@"; exit 0', "sh", *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    session = Session(client)
    session.begin()
    (front,) = children_of(client.pid)
    until_asleep(front)
    os.kill(front, signal.SIGSTOP)
    session.say("slow", id="s-1")
    client.kill()
    client.wait()
    os.kill(front, signal.SIGCONT)
    try:
        assert wait_exited(front)
    finally:
        client.communicate()


@pytest.mark.skipif(
    "HOLDFAST_GUARD" in os.environ, reason="allowed: a sanitizer takes more memory than the front itself"
)
def test_an_ended_server_takes_no_memory() -> None:
    with serving() as session:
        session.begin()
        until_asleep(session.process.pid)
        with open(f"/proc/{session.process.pid}/smaps_rollup") as file:
            rss = next(int(line.split()[1]) for line in file if line.startswith("Rss:"))
        assert rss <= 1024


def test_bytes_pass_unchanged_and_a_slow_reader_slows_the_server() -> None:
    """More than all pipes and buffers hold, both ways, and a last line without an end."""
    data = os.urandom(3 << 20)
    done = holdfast("stdio", "--idle", "10s", "--", "cat", stdin=None, input=data)
    assert (done.returncode, done.stdout, done.stderr) == (0, data, b"")


def test_half_a_line_passes_at_once() -> None:
    with serving("cat") as session:
        assert session.process.stdin is not None
        assert session.process.stdout is not None
        os.write(session.process.stdin.fileno(), b"half a li")
        assert read_until(session.process.stdout.fileno(), b"half a li") == b"half a li"


def test_a_server_that_closes_its_stdout_is_heard() -> None:
    with serving("sh", "-c", "exec >/dev/null; cat; exit 4") as session:
        assert session.process.stdout is not None
        assert session.process.stdout.read() == b"", "the end of file arrives while the server lives"
        assert session.process.poll() is None
        assert session.process.stdin is not None
        session.process.stdin.close()
        assert session.process.wait(30) == 4


@pytest.mark.parametrize("how", ["reads at last", "closes stdin", "terminates"])
def test_a_client_that_does_not_read_when_the_server_exits(how: str) -> None:
    """More than one pipe holds, and less than two: the server exits, and the client has not taken everything."""
    with serving("sh", "-c", "head -c 120000 /dev/zero; exit 4") as session:
        process = session.process
        assert process.stdin is not None
        assert process.stdout is not None
        assert os.read(process.stdout.fileno(), 1) == b"\0"
        assert all(wait_exited(pid) for pid in descendants(process.pid))
        if how == "closes stdin":
            process.stdin.close()
        elif how == "terminates":
            process.terminate()
        else:
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(3)  # longer than its patience with a client that leaves
            assert len(process.stdout.read()) == 119_999
        assert process.wait(30) == 4


def test_a_terminal_that_nobody_reads_does_not_keep_signals_away() -> None:
    with Console(*HOLDFAST, "stdio", *IDLE, "--", "yes", "a line that fills the terminal") as console:
        console.until(b"fills the terminal")
        full = select.poll()
        full.register(console.terminal, select.POLLOUT)
        end = time.monotonic() + 30
        while full.poll(0):  # there is no event for that
            assert time.monotonic() < end, "the terminal is never full"
        console.process.terminate()
        assert console.process.wait(30) == 143


def test_a_lost_guard_is_told_while_the_server_speaks() -> None:
    speaker = "while echo $$; do sleep 0.1; done"
    with serving("sh", "-c", f"sh -c '{speaker}' & wait") as session:
        assert session.process.stdout is not None
        server = int(read_until(session.process.stdout.fileno(), b"\n").split()[0])
        (guard,) = guards_below(session.process.pid)
        kill_both(sentinel_of(guard), guard)
        reader = threading.Thread(target=session.process.stdout.read)
        reader.start()
        assert session.process.wait(30) == 125
        assert wait_exited(server)
        reader.join()
        assert session.process.stderr is not None
        assert session.process.stderr.read().startswith(b"holdfast: lost: ")


def test_the_last_words_of_a_server_arrive(tmp_path: Path) -> None:
    done = holdfast("stdio", "--idle", "10s", "--", "sh", "-c", "head -c 300000 /dev/zero; exit 5")
    assert (done.returncode, len(done.stdout)) == (5, 300_000)
    missing = holdfast("stdio", "--idle", "10s", "--", str(tmp_path / "nothing"))
    assert missing.returncode == 127
    assert missing.stderr.count(b"\n") == 1


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--protocol", "lsp"), b"--idle cannot start a server of lsp again"),
        (("--protocol", "acp"), b"--idle cannot start a server of acp again"),
        (("--protocol", "raw"), b"--idle cannot start a server of raw again"),
        (("--protocol", "smtp"), b"protocol"),
        (("--id", "one"), b"--id names one run"),
    ],
)
def test_what_idle_cannot_do_is_refused(options: tuple[str, ...], says: bytes) -> None:
    done = holdfast("stdio", "--idle", "10s", *options, "--", "cat")
    assert done.returncode == 125
    assert says in done.stderr
    assert done.stdout == b""
