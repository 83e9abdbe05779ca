"""HTTP: which clients may ask, and from where."""

from __future__ import annotations

import os
import socket
import stat
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import httpx2
import pytest

from ..cli.console import holdfast
from .serving import HttpServer

if TYPE_CHECKING:
    from .serving import Caller

pytestmark = pytest.mark.anyio
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


async def ask(server: HttpServer, **headers: str) -> httpx2.Response:
    accept = {"Accept": "application/json, text/event-stream"}
    async with httpx2.AsyncClient() as http:
        return await http.post(server.url, json=PING, headers={**accept, **headers})


async def test_only_those_with_the_token_may_ask(server: HttpServer) -> None:
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": server.token}):
        answer = await ask(server, **headers)
        assert answer.status_code == 401
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")
        assert answer.headers["Connection"] == "close"  # the access checks of the daemon: they do not wait for the body
    # The control: with the token, the same request reaches the protocol.
    assert (await ask(server, Authorization=f"Bearer {server.token}")).status_code in (200, 400)


def test_the_token_is_for_its_user_only(server: HttpServer) -> None:
    assert stat.S_IMODE(Path(server.token_file).stat().st_mode) == 0o600


async def test_pages_from_elsewhere_may_not_ask(server: HttpServer) -> None:
    token = {"Authorization": f"Bearer {server.token}"}
    assert (await ask(server, Origin="http://attacker.example", **token)).status_code == 403
    assert (await ask(server, Host="attacker.example", **token)).status_code == 403


async def test_the_current_revision_is_spoken(call: Caller) -> None:
    assert call.client.protocol_version == "2026-07-28"
    assert call.client.server_info is not None
    assert call.client.server_info.name == "holdfast"


async def test_older_clients_are_served(server: HttpServer) -> None:
    async with server.client(mode="legacy") as call:
        assert call.client.protocol_version == "2025-11-25"
        assert (await call("exec", command="echo old")).data["output"] == "old\n"


def test_addresses() -> None:
    for wrong in ("0.0.0.0:0", "example.org:80", "8808", "127.0.0.1:x", "127.0.0.1:70000"):
        done = holdfast("mcp", "--http", wrong)
        assert done.returncode == 125
        assert b"is not this machine only" in done.stderr or b"is no address" in done.stderr


def test_a_port_that_is_taken_is_said(server: HttpServer, tmp_path: Path) -> None:
    port = server.url.split(":")[2].split("/")[0]
    done = holdfast("mcp", "--http", f"127.0.0.1:{port}", "--state-dir", str(tmp_path / "state"))
    assert done.returncode == 125
    assert b"Address already in use" in done.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--allow-dir", "/no/such/place"), b"is no directory"),
        (("--max-runs", "0"), b"is no number of runs"),
        (("--max-timeout", "0"), b"allows nothing"),
        (("--max-output", "x"), b"max-output"),
        (("word",), b"mcp takes no 'word'"),
    ],
)
def test_wrong_options(options: tuple[str, ...], said: bytes) -> None:
    done = holdfast("mcp", *options)
    assert (done.returncode, done.stdout) == (125, b"")
    assert said in done.stderr


HALF = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nX: "
NO_BOUNDS = "from holdfast.web.connection_pool import ConnectionPool as P; P.enter = lambda *_: True"


@pytest.mark.parametrize("before", ["", pytest.param(NO_BOUNDS, id="control")])
async def test_half_sent_heads_leave_descriptors_for_clients_and_runs(tmp_path: Path, before: str) -> None:
    # Soft and hard: the server cannot raise it. Half of the strangers' connections find no descriptor.
    through = ["sh", "-c", 'ulimit -n 256; exec "$@"', "sh"]
    with (
        HttpServer(tmp_path / "state", "--allow-dir", "/", through=through, before=before) as server,
        ExitStack() as wires,
    ):
        for _ in range(400):
            wire = wires.enter_context(socket.create_connection(server.address, timeout=60))
            wire.setblocking(False)
            with suppress(OSError):  # it was closed already
                wire.send(HALF)
        if before:
            while len(os.listdir(f"/proc/{server.process.pid}/fd")) < 256:
                pass  # it accepts them
            late = wires.enter_context(socket.create_connection(server.address, timeout=1))
            late.sendall(b"GET /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n")
            with pytest.raises(TimeoutError):
                late.recv(1)
            wires.close()
            return
        async with server.client() as call:
            assert (await call("exec", command="echo here", cwd="/")).data["output"] == "here\n"


def test_a_head_that_is_never_complete_is_not_waited_for(tmp_path: Path) -> None:
    soon = "from holdfast.web import connection; connection.HEAD_S = 0.2"
    with (
        HttpServer(tmp_path / "state", before=soon) as server,
        socket.create_connection(server.address, timeout=60) as wire,
    ):
        wire.sendall(HALF)
        assert wire.recv(100).startswith(b"HTTP/1.1 408")


def test_a_head_without_end_is_refused(server: HttpServer) -> None:
    with socket.create_connection(server.address, timeout=60) as wire:
        with suppress(OSError):
            wire.sendall(HALF + b"x" * 200_000)
        assert wire.recv(100).startswith(b"HTTP/1.1 400")
