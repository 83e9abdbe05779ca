"""The user of a TCP client, by real sockets of both families and of a second real user."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from holdfast.web.peer_user import find_user, peer_of

from ..support.unprivileged import NOBODY, as_nobody

if TYPE_CHECKING:
    from collections.abc import Iterator

CLIENT = "import socket, sys; s = socket.create_connection((sys.argv[1], int(sys.argv[2]))); sys.stdin.read()"
FAMILIES = [
    pytest.param("127.0.0.1", "127.0.0.1", id="IPv4"),
    pytest.param("::1", "::1", id="IPv6"),
    pytest.param("::", "127.0.0.1", id="IPv4-to-IPv6"),
]


@contextmanager
def listening(host: str) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family, dualstack_ipv6=host == "::") as bound:
        yield bound


@pytest.mark.parametrize(("host", "to"), FAMILIES)
def test_our_own_client_is_found_and_a_closed_one_is_not(host: str, to: str) -> None:
    with listening(host) as bound:
        port = bound.getsockname()[1]
        with socket.create_connection((to, port)):
            accepted, client = bound.accept()
            ends = (client[:2], accepted.getsockname()[:2])
            assert find_user(*ends) == os.geteuid()
            assert find_user((client[0], client[1] - 1 or 1), ends[1]) is None  # control
            scope = {"type": "http", "client": client[:2], "server": accepted.getsockname()[:2]}
            assert peer_of(scope) == f"user {os.geteuid()}"
        # The kernel shows a closed socket as one of root.
        assert accepted.recv(1) == b""
        assert find_user(*ends) is None
        assert peer_of(scope) is None
        accepted.close()


@pytest.mark.root
@pytest.mark.parametrize(("host", "to"), FAMILIES)
def test_another_user_is_told_apart(host: str, to: str) -> None:
    with listening(host) as bound:
        words = as_nobody([sys.executable, "-c", CLIENT, to, str(bound.getsockname()[1])])
        with subprocess.Popen(words, stdin=subprocess.PIPE) as process:
            accepted, client = bound.accept()
            assert find_user(client[:2], accepted.getsockname()[:2]) == NOBODY
            accepted.close()
            assert process.stdin is not None
            process.stdin.close()


def test_a_client_elsewhere_is_known_by_its_address() -> None:
    scope = {"type": "http", "client": ("192.0.2.7", 4000), "server": ("192.0.2.1", 80)}
    assert peer_of(scope) == "address 192.0.2.7"
    assert peer_of({**scope, "client": ("::ffff:192.0.2.7", 4000)}) == "address 192.0.2.7"
    assert peer_of({**scope, "client": ("127.0.0.1", 1)}) is None
    assert peer_of({**scope, "client": None}) is None
    assert peer_of({**scope, "server": ("/state/holdfast.sock", None)}) is None
