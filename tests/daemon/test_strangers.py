"""Strangers on TCP, who have no token: they take no descriptor and no connection from the owner or from runs."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import pytest

from ..support.daemons import BOUND_S, daemon
from ..support.unprivileged import as_nobody
from ..support.web import fetch, port_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ..support.daemons import Daemon

pytestmark = pytest.mark.guard
LISTEN = ("--listen", "127.0.0.1:0")

HOLDS = """
import socket, sys
held = []
for _ in range(int(sys.argv[2])):
    held.append(socket.create_connection(("127.0.0.1", int(sys.argv[1]))))
print("held", flush=True)
sys.stdin.read()
"""
NO_BOUNDS = "from holdfast.web.connection_pool import ConnectionPool as P; P.enter = lambda *_: True"
ONE_POOL = """
from holdfast.daemon import listener
from holdfast.web.connection_pool import ConnectionPool
one = ConnectionPool(20, knows_peers=True)
listener.ConnectionPool = lambda *_, **__: one
"""


def at_most(descriptors: int) -> list[str]:
    """The program that limits the descriptors of the next one, soft and hard."""
    return ["sh", "-c", f'ulimit -n {descriptors}; exec "$@"', "sh"]


@contextmanager
def strangers(running: Daemon, count: int, *, other_user: bool = False) -> Iterator[None]:
    """Another process with so many idle connections to the daemon's TCP address."""
    command = [sys.executable, "-c", HOLDS, str(port_of(running)), str(count)]
    words = as_nobody(command) if other_user else command
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"held\n"
            yield
        finally:
            process.stdin.close()
            process.wait(BOUND_S)


def until_health(running: Daemon, status: str) -> list[str]:
    """The reasons in the daemon's health when it has this status, which comes when it has seen all its clients."""
    while (health := running.request("GET", "/v1/health").body)["status"] != status:
        pass
    reasons: list[str] = health["reasons"]
    return reasons


@pytest.mark.parametrize("other_user", [False, pytest.param(True, marks=pytest.mark.root)], ids=["self", "nobody"])
def test_idle_strangers_leave_descriptors_for_runs_and_for_the_owner(tmp_path: Path, other_user: bool) -> None:
    with daemon(tmp_path / "state", *LISTEN, through=at_most(256)) as running:
        with strangers(running, 400, other_user=other_user):
            reasons = until_health(running, "degraded")
            assert [reason for reason in reasons if "refuses connections: file descriptors are short" in reason]
            for run_id in [running.submit(["true"])["run_id"] for _ in range(20)]:
                assert running.wait(run_id)["status"] == "succeeded"
        assert until_health(running, "ok") == []


def test_without_the_bound_idle_strangers_take_every_descriptor(tmp_path: Path) -> None:
    with (
        daemon(tmp_path / "state", *LISTEN, through=at_most(256), before=NO_BOUNDS) as running,
        strangers(running, 400),
        socket.socket(socket.AF_UNIX) as owner,
    ):
        while len(os.listdir(f"/proc/{running.process.pid}/fd")) < 256:
            pass  # it accepts them
        owner.settimeout(1)
        owner.connect(running.socket)
        owner.sendall(b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        with pytest.raises(TimeoutError):
            owner.recv(1)


@pytest.mark.parametrize(
    ("before", "status"), [("", 200), pytest.param(ONE_POOL, 503, id="control")], ids=["own-pool", None]
)
def test_a_full_tcp_address_does_not_lock_out_the_unix_socket(tmp_path: Path, before: str, status: int) -> None:
    with (
        daemon(tmp_path / "state", *LISTEN, "--max-connections", "20", before=before) as running,
        strangers(running, 40),
    ):
        assert running.request("GET", "/v1/health").status == status


def test_idle_strangers_make_room_for_a_client_with_the_token(tmp_path: Path) -> None:
    with daemon(tmp_path / "state", *LISTEN, "--max-connections", "20") as running, strangers(running, 40):
        token = (running.state_dir / "token").read_text().strip()
        for _ in range(3):
            assert fetch(port_of(running), "/v1/runs", headers={"Authorization": f"Bearer {token}"}).status == 200


KEEPS = "import types; from holdfast.runs import descriptor_limit as d; d.spec_frames = types.SimpleNamespace()"


@pytest.mark.parametrize("before", ["", pytest.param(KEEPS, id="control")])
def test_the_daemon_raises_its_limit_and_commands_keep_theirs(tmp_path: Path, before: str) -> None:
    through = ["sh", "-c", 'ulimit -S -n 200; exec "$@"', "sh"]
    with daemon(tmp_path / "state", through=through, before=before) as running:
        raised, _ = resource.prlimit(running.process.pid, resource.RLIMIT_NOFILE)
        assert raised > 200
        run_id = running.submit(["sh", "-c", "ulimit -n; ulimit -Hn"])["run_id"]
        running.wait(run_id)
        soft, hard = map(int, fetch(running, f"/v1/runs/{run_id}/output").body.split())
        assert soft == (raised if before else 200)
        assert hard >= raised


def test_a_login_has_at_most_a_kibibyte(tmp_path: Path) -> None:
    with daemon(tmp_path / "state", *LISTEN) as running:
        port, json = port_of(running), {"Content-Type": "application/json"}
        body = b'{"code":"x"}'
        for size, status in ((1024, 401), (1025, 413), (60_000, 413)):
            raw = fetch(port, "/v1/login", method="POST", body=body.ljust(size), headers=json)
            assert (size, raw.status) == (size, status)
        with socket.create_connection(("127.0.0.1", port), timeout=BOUND_S) as wire:
            wire.sendall(LOGIN + b"Content-Length: 8388608\r\n\r\n")
            assert wire.recv(100).startswith(b"HTTP/1.1 413")
        with socket.create_connection(("127.0.0.1", port), timeout=BOUND_S) as wire:
            wire.sendall(LOGIN + b"Transfer-Encoding: chunked\r\n\r\n" + b"400\r\n" + b" " * 1024 + b"\r\n1\r\nx\r\n")
            assert wire.recv(100).startswith(b"HTTP/1.1 413")


LOGIN = b"POST /v1/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
NO_TOTAL = "from holdfast.web import connection_pool as c; c.UNKNOWN_BYTES = 1 << 40"


@pytest.mark.parametrize("before", ["", pytest.param(NO_TOTAL, id="control")])
@pytest.mark.parametrize(
    "beginning",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ",  # a head that is never complete
        b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n",  # refused, and still sent
    ],
    ids=["head", "refused"],
)
def test_what_strangers_have_sent_is_bounded_in_total(tmp_path: Path, beginning: bytes, before: str) -> None:
    most = "from holdfast.web import connection_pool as c; c.UNKNOWN_BYTES = 1 << 20"
    with daemon(tmp_path / "state", *LISTEN, before=before or most) as running, ExitStack() as closing:
        wires = [
            closing.enter_context(socket.create_connection(("127.0.0.1", port_of(running)), timeout=BOUND_S))
            for _ in range(40)
        ]
        for wire in wires:
            wire.sendall(beginning + b"x" * 60_000)
        token = (running.state_dir / "token").read_text().strip()
        assert fetch(port_of(running), "/v1/runs", headers={"Authorization": f"Bearer {token}"}).status == 200
        answers = [answer_of(wire) for wire in wires]
        evicted = [answer for answer in answers if b"have sent too much" in answer]
        assert bool(evicted) == (not before)


def answer_of(wire: socket.socket) -> bytes:
    """What the daemon says before it closes the connection or is silent."""
    try:
        wire.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: wire.recv(65536), b""))
    except OSError:
        return b""
