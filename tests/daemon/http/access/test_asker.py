"""A run cannot move its own deadline through the daemon, over the socket or TCP; everybody else can."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from ....support.daemons import daemon
from ....support.web import port_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ....support.daemons import Daemon

pytestmark = pytest.mark.guard
# Asks for an hour more for the run that is named, over the socket or TCP, and prints the answer. With `leaves`, a child
# connects and exits, so that the process that the kernel names is gone when the daemon looks. With `closes`, nobody
# waits for the answer; with `sends`, the connection waits in another socket until the answer is there.
ASKS = """
import os, select, socket, sys
place, run_id, token, how = sys.argv[1:5]
if place.isdigit():
    connected = socket.create_connection(("127.0.0.1", int(place)))
else:
    connected = socket.socket(socket.AF_UNIX)
def connect():
    if not place.isdigit():
        connected.connect(place)
if how == "leaves":
    child = os.fork()
    if child == 0:
        connect()
        os._exit(0)
    os.waitpid(child, 0)
else:
    connect()
body = b'{"seconds": 3600}'
head = f"POST /v1/runs/{run_id}/extend HTTP/1.0\\r\\nHost: localhost\\r\\nAuthorization: Bearer {token}\\r\\n"
head += f"Content-Type: application/json\\r\\nContent-Length: {len(body)}\\r\\n\\r\\n"
if how == "sends":
    ours, theirs = socket.socketpair()
    answered = select.epoll()  # watches the connection without a descriptor of it
    answered.register(connected.fileno(), select.EPOLLIN)
    connected.sendall(head.encode() + body)
    socket.send_fds(ours, [b"x"], [connected.fileno()])
    connected.close()
    open("away", "w").close()
    answered.poll()
    connected = socket.socket(fileno=socket.recv_fds(theirs, 1, 1)[1][0])
else:
    connected.sendall(head.encode() + body)
if how == "closes":
    connected.close()
    open("away", "w").close()
    print("over", flush=True)
    sys.exit()
answer = b""
while part := connected.recv(65536):
    answer += part
print(answer.decode().split("\\r\\n")[0], answer.decode().split("\\r\\n\\r\\n")[1], "over", flush=True)
"""
NO_LOOK = """
from holdfast.daemon.http.routes import runs
async def nothing(*_): pass
runs.check_outside = nothing
"""
# The daemon looks only when the socket is away.
LATE_LOOK = """
import os
from holdfast.daemon.http.access import asker
looks = asker._asks_from_inside
def late(*arguments):
    while not os.path.exists(PATH):
        pass
    return looks(*arguments)
asker._asks_from_inside = late
"""
BY_NUMBER = """
from holdfast.daemon.http.access import asker
asker._has_exited = lambda *_: False
asker._is_below = lambda pid, guards: not guards.isdisjoint(asker.with_ancestors(pid))
"""


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Daemon]:
    with daemon(tmp_path / "state", "--listen", "127.0.0.1:0") as started:
        yield started


def asks(running: Daemon, run_id: str, over: str, how: str = "stays") -> list[str]:
    """The argv of a process that asks for more time for this run."""
    place = running.socket if over == "socket" else str(port_of(running))
    token = (running.state_dir / "token").read_text().strip()
    return [sys.executable, "-c", ASKS, place, run_id, token, how]


def answer_to(running: Daemon, run_id: str, argv: list[str], **fields: Any) -> str:
    """The answer to the request of this command in a run of this id."""
    running.submit(["sh", "-c", '"$@"; sleep 1000', "sh", *argv], run_id=run_id, **fields)
    return running.until_output(run_id, b"over").decode()


def deadlines(running: Daemon, run_id: str) -> list[dict[str, object]]:
    return [fact for fact in running.report(run_id)["evidence"] if fact["fact"] == "extended"]


@pytest.mark.parametrize("over", ["socket", "tcp"])
@pytest.mark.parametrize("before", [[], ["setsid", "-w"], ["env", "-i"]], ids=["plain", "session", "no-environment"])
def test_a_command_cannot_move_its_own_deadline(running: Daemon, over: str, before: list[str]) -> None:
    said = answer_to(running, "mine", [*before, *asks(running, "mine", over)], timeout_s=600)
    assert said.startswith("HTTP/1.1 409")
    assert "a command may not move its own deadline" in said
    assert deadlines(running, "mine") == []
    assert running.request("POST", "/v1/runs/mine/extend", {"seconds": 60}).status == 200  # from outside
    assert len(deadlines(running, "mine")) == 1


@pytest.mark.parametrize("over", ["socket", "tcp"])
def test_without_the_look_it_could(tmp_path: Path, over: str) -> None:
    with daemon(tmp_path / "state", "--listen", "127.0.0.1:0", before=NO_LOOK) as running:
        said = answer_to(running, "mine", asks(running, "mine", over), timeout_s=600)
        assert said.startswith("HTTP/1.1 200")
        assert len(deadlines(running, "mine")) == 1


@pytest.mark.parametrize(("before", "status"), [("", 409), (BY_NUMBER, 200)], ids=["", "control"])
def test_a_process_that_has_left_is_taken_for_one_of_the_run(tmp_path: Path, before: str, status: int) -> None:
    with daemon(tmp_path / "state", "--listen", "127.0.0.1:0", before=before) as running:
        said = answer_to(running, "mine", asks(running, "mine", "socket", "leaves"), timeout_s=600)
        assert said.startswith(f"HTTP/1.1 {status}")


@pytest.mark.parametrize("how", ["sends", "closes"])
def test_over_tcp_a_socket_that_no_process_has_open_is_one_of_the_run(tmp_path: Path, how: str) -> None:
    before = LATE_LOOK.replace("PATH", repr(str(tmp_path / "away")))
    with daemon(tmp_path / "state", "--listen", "127.0.0.1:0", before=before) as running:
        said = answer_to(running, "mine", asks(running, "mine", "tcp", how), timeout_s=600, cwd=str(tmp_path))
        assert how == "closes" or said.startswith("HTTP/1.1 409")
        while not running.request("GET", "/v1/audit?action=extend").body["records"]:
            pass  # the daemon has not answered yet
        assert deadlines(running, "mine") == []


def test_a_client_over_tcp_may_extend_a_run_of_another(running: Daemon) -> None:
    """The control of the test above: a process outside of the tree has the socket open."""
    running.submit(["sleep", "1000"], run_id="other", timeout_s=600)
    done = subprocess.run(asks(running, "other", "tcp"), capture_output=True, text=True, check=True)
    assert done.stdout.startswith("HTTP/1.1 200")
    assert answer_to(running, "mine", asks(running, "other", "tcp"), timeout_s=600).startswith("HTTP/1.1 200")


def test_a_daemonised_process_is_still_one_of_the_run(running: Daemon) -> None:
    words = ["setsid", "-f", *asks(running, "mine", "socket")]
    assert answer_to(running, "mine", words, timeout_s=600).startswith("HTTP/1.1 409")


def test_a_nested_run_is_part_of_its_outer_run(running: Daemon) -> None:
    running.submit(["sleep", "1000"], run_id="outer", timeout_s=600)
    said = answer_to(running, "inner", asks(running, "outer", "socket"), parent="outer")
    assert said.startswith("HTTP/1.1 409")


def test_an_outer_run_may_extend_the_runs_that_it_has_started(running: Daemon) -> None:
    running.submit(["sleep", "1000"], run_id="inner", timeout_s=600)
    assert answer_to(running, "outer", asks(running, "inner", "socket"), timeout_s=600).startswith("HTTP/1.1 200")


def test_a_ceiling_is_the_right_to_use_the_time_up_to_it(running: Daemon) -> None:
    words = asks(running, "mine", "socket")
    assert answer_to(running, "mine", words, timeout_s=600, max_timeout_s=7200).startswith("HTTP/1.1 200")
    words = asks(running, "other", "socket")
    assert answer_to(running, "other", words, timeout_s=600, max_timeout_s=1200).startswith("HTTP/1.1 409")
    assert deadlines(running, "other") == []
