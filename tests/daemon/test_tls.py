"""TLS on a real daemon: who is heard, how long a handshake may take, and a certificate that changes."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import pytest

import holdfast
from holdfast.values.errors import DaemonUnreachableError, SpecError

from ..support.certificates import Authority, Certificate
from ..support.daemons import BOUND_S, Daemon, daemon, start
from ..support.web import fetch, port_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.guard
LISTEN = ("--listen", "127.0.0.1:0")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def server(authority: Authority) -> Certificate:
    return authority.issue("server")


def tls(made: Certificate) -> tuple[str, ...]:
    """The options of a daemon with this certificate."""
    return ("--tls-cert", made.pair[0], "--tls-key", made.pair[1])


def token_of(running: Daemon) -> str:
    return (running.state_dir / "token").read_text().strip()


def url_of(running: Daemon) -> str:
    return f"https://127.0.0.1:{port_of(running)}"


def trusting(authority: Authority, client: Certificate | None = None) -> ssl.SSLContext:
    """The context of a client that trusts this authority."""
    context = ssl.create_default_context(cafile=str(authority.ca))
    if client is not None:
        context.load_cert_chain(*client.pair)
    return context


@contextmanager
def handshaken(running: Daemon, context: ssl.SSLContext) -> Iterator[ssl.SSLSocket]:
    with (
        socket.create_connection(("127.0.0.1", port_of(running)), timeout=BOUND_S) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as wire,
    ):
        yield wire


def status(running: Daemon, context: ssl.SSLContext, path: str = "/v1/health") -> int:
    """The status of an answer to a client with the token."""
    connection = http.client.HTTPSConnection("127.0.0.1", port_of(running), context=context, timeout=BOUND_S)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {token_of(running)}"})
        return connection.getresponse().status
    finally:
        connection.close()


def test_both_clients_speak_to_a_daemon_with_tls(tmp_path: Path, authority: Authority, server: Certificate) -> None:
    with daemon(tmp_path / "state", *LISTEN, *tls(server)) as running:
        url, token = url_of(running), token_of(running)
        assert running.until_line("^listening on http").endswith(url)
        with holdfast.Client(url, token=token, ca=str(authority.ca)) as client:
            report = client.submit(["sh", "-c", "echo over tls"])
            assert client.wait(report["run_id"])["status"] == "succeeded"
            assert b"".join(client.follow(report["run_id"])) == b"over tls\n"
        with (
            holdfast.Client(url, token=token) as stranger,  # which trusts the authorities of the host only
            pytest.raises(DaemonUnreachableError, match="certificate verify failed"),
        ):
            stranger.health()


def test_the_asynchronous_client_and_the_environment(tmp_path: Path, authority: Authority, server: Certificate) -> None:
    program = (
        "import asyncio, sys, holdfast\n"
        "async def main():\n"
        "    async with holdfast.AsyncClient(sys.argv[1], token=sys.argv[2]) as client:\n"
        "        print((await client.health())['status'])\n"
        "asyncio.run(main())\n"
    )
    with daemon(tmp_path / "state", *LISTEN, *tls(server)) as running:
        words = [sys.executable, "-c", program, url_of(running), token_of(running)]
        trusted = {**os.environ, "SSL_CERT_FILE": str(authority.ca)}
        done = subprocess.run(words, capture_output=True, text=True, env=trusted, timeout=BOUND_S, check=False)
        assert (done.stdout, done.returncode) == ("ok\n", 0), done.stderr
        control = subprocess.run(words, capture_output=True, text=True, timeout=BOUND_S, check=False)
        assert "certificate verify failed" in control.stderr


def test_files_of_a_client_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"ca '.*none.pem' cannot be used"):
        holdfast.Client("https://127.0.0.1:1", ca=str(tmp_path / "none.pem"))
    with pytest.raises(SpecError, match=r"cert '.*none.pem' cannot be used"):
        holdfast.Client("https://127.0.0.1:1", cert=str(tmp_path / "none.pem"))
    with pytest.raises(SpecError, match="https:// only"):
        holdfast.Client("http://127.0.0.1:1", ca=str(tmp_path / "none.pem"))


def test_the_token_is_needed_all_the_same_and_plain_http_gets_nothing(
    tmp_path: Path, authority: Authority, server: Certificate
) -> None:
    with daemon(tmp_path / "state", *LISTEN, *tls(server)) as running:
        with handshaken(running, trusting(authority)) as wire:
            wire.sendall(b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert wire.recv(100).startswith(b"HTTP/1.1 401")
        with socket.create_connection(("127.0.0.1", port_of(running)), timeout=BOUND_S) as plain:
            plain.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
            try:
                assert b"HTTP" not in plain.recv(1000)
            except ConnectionResetError:
                pass
        assert fetch(running, "/v1/health").json["status"] == "ok"  # the socket needs no TLS
        assert not [line for line in running.lines if "Traceback" in line or "error" in line]


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_versions_before_tls_1_2_are_refused(tmp_path: Path, authority: Authority, server: Certificate) -> None:
    with daemon(tmp_path / "state", *LISTEN, *tls(server)) as running:
        for highest, is_heard in ((ssl.TLSVersion.TLSv1_1, False), (ssl.TLSVersion.TLSv1_2, True)):
            context = trusting(authority)
            context.set_ciphers("ALL:@SECLEVEL=0")
            context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, highest
            if is_heard:
                assert status(running, context) == 200
            else:
                with pytest.raises(ssl.SSLError, match=r"(?i)alert|protocol"):
                    status(running, context)


def test_without_a_certificate_of_the_authority_nobody_is_heard(
    tmp_path: Path, authority: Authority, server: Certificate
) -> None:
    known = authority.issue("client")
    forger = Authority(tmp_path / "forger").issue("client")
    with daemon(tmp_path / "state", *LISTEN, *tls(server), "--tls-ca", str(authority.ca)) as running:
        assert status(running, trusting(authority, known)) == 200
        for stranger in (None, forger):
            # With TLS 1.3 the refusal comes after the client's part of the handshake: at its first read.
            with pytest.raises((ssl.SSLError, ConnectionResetError, http.client.RemoteDisconnected)):
                status(running, trusting(authority, stranger), "/livez")
        with holdfast.Client(url_of(running), token=token_of(running), ca=str(authority.ca), cert=known.pair) as client:
            assert client.health()["status"] == "ok"
    with daemon(tmp_path / "control", *LISTEN, *tls(server)) as running:  # without --tls-ca, all of them are
        assert status(running, trusting(authority, forger), "/livez") == 200


# Handshakes.


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01\x02\x00\x01"], ids=["silent", "half"])
def test_a_handshake_that_never_ends_has_the_time_of_a_head(tmp_path: Path, server: Certificate, sent: bytes) -> None:
    with daemon(tmp_path / "state", *LISTEN, *tls(server), "--request-timeout", "300ms") as running:
        began = time.monotonic()
        with socket.create_connection(("127.0.0.1", port_of(running)), timeout=BOUND_S) as plain:
            plain.sendall(sent)
            until_closed(plain)
        assert 0.2 < time.monotonic() - began < BOUND_S


def test_after_the_handshake_the_head_has_its_time(tmp_path: Path, authority: Authority, server: Certificate) -> None:
    options = (*LISTEN, *tls(server), "--request-timeout", "300ms")
    with daemon(tmp_path / "state", *options) as running, handshaken(running, trusting(authority)) as wire:
        wire.sendall(b"GET / HTTP/1.1\r\nHost: ")
        assert wire.recv(100).startswith(b"HTTP/1.1 408")


NO_MEMBERS = "from holdfast.web.server import _Beginning as B; B.gives_way = False"


@pytest.mark.parametrize("before", ["", pytest.param(NO_MEMBERS, id="control")])
def test_handshakes_that_never_end_make_room_for_a_client(
    tmp_path: Path, authority: Authority, server: Certificate, before: str
) -> None:
    options = (*LISTEN, *tls(server), "--max-connections", "20")
    with daemon(tmp_path / "state", *options, before=before) as running, ExitStack() as closing:
        for _ in range(60):
            address = ("127.0.0.1", port_of(running))
            closing.enter_context(socket.create_connection(address, timeout=BOUND_S))
        if before:
            with pytest.raises(ConnectionError):
                status(running, trusting(authority))
        else:
            for _ in range(3):
                assert status(running, trusting(authority)) == 200
        assert fetch(running, "/v1/health").status == 200


def until_closed(wire: socket.socket) -> None:
    """Read until the daemon closes the connection."""
    try:
        while wire.recv(1000):
            pass
    except ConnectionResetError:
        pass


def test_failed_handshakes_give_their_places_back(tmp_path: Path, authority: Authority, server: Certificate) -> None:
    """A place that is not given back is gone for good: 60 failures on 20 places would leave none."""
    with daemon(tmp_path / "state", *LISTEN, *tls(server), "--max-connections", "20") as running:
        for _ in range(60):
            with socket.create_connection(("127.0.0.1", port_of(running)), timeout=BOUND_S) as plain:
                plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
                until_closed(plain)
        assert status(running, trusting(authority)) == 200
        while fetch(running, "/v1/health").json["status"] != "ok":
            pass  # until it has seen the end of the last one


FEW = "import holdfast.web.server as s; s._MOST_HANDSHAKES = 8"


def test_handshakes_are_bounded_and_the_oldest_gives_way(tmp_path: Path, server: Certificate) -> None:
    """What OpenSSL keeps for a handshake is out of our sight, so their number is bounded."""
    with daemon(tmp_path / "state", *LISTEN, *tls(server), before=FEW) as running, ExitStack() as closing:
        address = ("127.0.0.1", port_of(running))
        wires = [closing.enter_context(socket.create_connection(address, timeout=BOUND_S)) for _ in range(20)]
        for wire in wires[:12]:
            until_closed(wire)
        for wire in wires[12:]:  # control: these are still open
            wire.setblocking(False)
            with pytest.raises(BlockingIOError):
                wire.recv(1)


# Certificates that change.


def renew(live: Certificate, made: Certificate) -> None:
    for source, target in ((made.cert, live.cert), (made.key, live.key)):
        shutil.copy2(source, target.with_suffix(".new"))
        os.replace(target.with_suffix(".new"), target)


def name_of(running: Daemon, authority: Authority) -> str:
    """The name in the certificate that the daemon shows now."""
    with handshaken(running, trusting(authority)) as wire:
        found = wire.getpeercert()
        assert found is not None
        return str(found["subject"][0][0][1])


@pytest.mark.parametrize("told", [True, False], ids=["SIGHUP", "by-itself"])
def test_a_renewed_certificate_is_shown_without_a_restart(tmp_path: Path, authority: Authority, told: bool) -> None:
    live = Certificate(tmp_path / "live.pem", tmp_path / "live.key")
    renew(live, authority.issue("first"))
    with daemon(tmp_path / "state", *LISTEN, *tls(live)) as running, handshaken(running, trusting(authority)) as open_:
        assert name_of(running, authority) == "first"
        renew(live, authority.issue("second"))
        if told:
            running.signal(signal.SIGHUP)
            running.until_line("the TLS certificate was read again")
            assert name_of(running, authority) == "second"
        else:
            while name_of(running, authority) != "second":
                pass  # it looks once a second
        live.key.chmod(0o644)
        running.signal(signal.SIGHUP)
        assert "others may read this key" in running.until_line("the old certificate stays in use")
        assert name_of(running, authority) == "second"
        open_.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")  # an open connection goes on
        assert open_.recv(100).startswith(b"HTTP/1.1 200")


# Plain TCP.


def refused(state_dir: Path, *options: str) -> str:
    """The last line of a daemon that does not start."""
    running = start(state_dir, *options)
    try:
        assert running.exit_code() != 0
        return running.lines[-1]
    finally:
        running.end()


def test_plain_tcp_beyond_loopback_has_to_be_asked_for_by_name(tmp_path: Path, server: Certificate) -> None:
    anywhere = ("--listen", "0.0.0.0:0")
    assert "not a loopback address, and there is no TLS" in refused(tmp_path / "state", *anywhere)
    for options in (("--insecure-plain-tcp",), tls(server)):
        with daemon(tmp_path / "state", *anywhere, *options) as running:
            assert (
                running.until_line("^listening on http")
                .split("on ")[1]
                .startswith("https:" if "--tls-cert" in options else "http:")
            )


def test_a_key_that_others_can_read_keeps_the_daemon_from_starting(tmp_path: Path, authority: Authority) -> None:
    made = authority.issue("open-key")
    with daemon(tmp_path / "state", *LISTEN, *tls(made)):
        pass  # control: with its mode it is taken
    made.key.chmod(0o644)
    assert "others may read this key" in refused(tmp_path / "state", *LISTEN, *tls(made))
    assert "no certificate" in refused(tmp_path / "state", *LISTEN, "--tls-key", made.pair[1])


def test_the_cookie_of_a_login_over_tls_stays_on_tls(tmp_path: Path, authority: Authority, server: Certificate) -> None:
    with daemon(tmp_path / "state", *LISTEN, *tls(server)) as running:
        link = running.request("POST", "/v1/login-links", {}).body
        assert link["urls"][0].startswith(url_of(running))
        connection = http.client.HTTPSConnection(
            "127.0.0.1", port_of(running), context=trusting(authority), timeout=BOUND_S
        )
        body = json.dumps({"code": link["path"].partition("login=")[2]})
        connection.request("POST", "/v1/login", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        assert (answer.status, "Secure" in answer.headers["set-cookie"]) == (200, True)
        connection.close()
