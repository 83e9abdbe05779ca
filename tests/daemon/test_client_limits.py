"""Limits per client on a real daemon: by user, by token, by address; each with a client that is not concerned."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from ..support.daemons import BOUND_S, daemon
from ..support.web import Wire, connect, fetch, port_of

if TYPE_CHECKING:
    from pathlib import Path

    from ..support.daemons import Daemon

pytestmark = pytest.mark.guard
LISTEN = ("--listen", "127.0.0.1:0")


def bearer(running: Daemon) -> dict[str, str]:
    return {"Authorization": f"Bearer {(running.state_dir / 'token').read_text().strip()}"}


def named(running: Daemon, name: str) -> dict[str, str]:
    """The header with a new token of this name."""
    command = [sys.executable, "-m", "holdfast.cli.main", "token", "create", name, "--role", "submit", "--json"]
    command += ["--state-dir", str(running.state_dir)]
    made = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return {"Authorization": f"Bearer {made['token'] if isinstance(made['token'], str) else made['secret']}"}


def statuses(place: Daemon | int, headers: dict[str, str], count: int) -> list[int]:
    return [fetch(place, "/v1/health", headers=headers).status for _ in range(count)]


def test_requests_per_second_of_a_user_and_of_tokens(tmp_path: Path) -> None:
    with daemon(tmp_path / "state", *LISTEN, "--client-rate", "1") as running:
        port, one, other = port_of(running), named(running, "one"), named(running, "other")
        assert 429 in statuses(port, one, 20)
        refused = fetch(port, "/v1/health", headers=one)
        if refused.status == 429:
            assert refused.json["type"].endswith(":client-limit")
            assert "token one" in refused.json["detail"]
            assert int(refused.headers["retry-after"]) >= 1
        # Another token, the owner's token and the owner on the socket have limits of their own.
        assert statuses(port, other, 1) == statuses(port, bearer(running), 1) == statuses(running, {}, 1) == [200]
        assert 429 in statuses(running, {}, 20)


def test_nobody_meets_the_defaults(tmp_path: Path) -> None:
    """The control of the tests here, and the promise to a single user."""
    with daemon(tmp_path / "state", *LISTEN) as running, ExitStack() as closing:
        assert set(statuses(running, {}, 500) + statuses(port_of(running), bearer(running), 500)) == {200}
        for _ in range(500):
            connection = connect(running)
            closing.callback(connection.close)
            connection.request("GET", "/v1/health")
            answer = connection.getresponse()
            assert (answer.status, bool(answer.read())) == (200, True)


def test_guesses_of_a_token_are_slowed_down_and_the_owner_at_the_same_address_is_not(tmp_path: Path) -> None:
    with daemon(tmp_path / "state", *LISTEN, "--stranger-rate", "1") as running:
        port = port_of(running)
        guesses = statuses(port, {"Authorization": "Bearer wrong"}, 30)
        assert guesses[:5] == [401] * 5
        assert 429 in guesses
        assert statuses(port, bearer(running), 20) == [200] * 20
        assert {fetch(port, "/livez").status for _ in range(20)} == {200}  # a stranger cannot make a probe fail


def test_connections_of_one_client(tmp_path: Path) -> None:
    with daemon(tmp_path / "state", *LISTEN, "--client-connections", "3") as running, ExitStack() as closing:
        for _ in range(3):
            connection = connect(running)
            closing.callback(connection.close)
            connection.request("GET", "/v1/health")
            connection.getresponse().read()
        refused = fetch(running, "/v1/health")
        assert (refused.status, refused.json["type"]) == (429, "urn:holdfast:problem:client-limit")
        assert "connections" in refused.json["detail"]
        assert statuses(port_of(running), bearer(running), 1) == [200]
        running.signal(signal.SIGHUP)  # control: the settings are the same, and nothing changes
        running.until_line("settings changed: none")
        assert fetch(running, "/v1/health").status == 429
        closing.close()
        while fetch(running, "/v1/health").status != 200:
            pass  # until it has seen that they are gone


def test_idle_connections_of_an_address_give_way_to_its_next_one(tmp_path: Path) -> None:
    # The time of a head is long, so nothing else closes them before the bound of this test.
    options = (*LISTEN, "--client-connections", "3", "--request-timeout", "10m")
    with daemon(tmp_path / "state", *options) as running, ExitStack() as closing:
        port = port_of(running)
        wires = [
            closing.enter_context(socket.create_connection(("127.0.0.1", port), timeout=BOUND_S)) for _ in range(10)
        ]
        assert statuses(port, bearer(running), 1) == [200]
        try:
            assert wires[0].recv(1) == b""  # the oldest was closed
        except ConnectionResetError:
            pass


@pytest.mark.parametrize(("most", "is_refused"), [("100K", True), ("100M", False)], ids=["bound", "control"])
def test_bytes_of_one_client_that_wait(tmp_path: Path, most: str, is_refused: bool) -> None:
    head = b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    head += b"Content-Length: 1000000\r\n\r\n"
    with daemon(tmp_path / "state", "--client-bytes", most) as running, Wire(running) as first, Wire(running) as second:
        for wire in (first, second):
            wire.send(head)
            wire.send(b" " * 60_000)
        second.send(b" " * 60_000)
        second.socket.settimeout(BOUND_S if is_refused else 0.3)
        try:
            answer = second.rest()
        except TimeoutError:
            answer = b""
        assert answer.startswith(b"HTTP/1.1 429") is is_refused
        assert is_refused is (b"not answered yet" in answer)
        assert fetch(running, "/v1/health").status == 200
