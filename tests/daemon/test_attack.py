"""Bad input and attacks against a real daemon: a clear refusal each time, nothing lost, and the daemon lives."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from ..support.daemons import BOUND_S, Daemon, Gate, daemon, start
from ..support.unprivileged import NOBODY, as_nobody
from ..support.web import Wire, fetch, port_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


pytestmark = pytest.mark.guard
JSON = {"Content-Type": "application/json"}
HEAD = b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """One daemon with short timeouts, for attacks that leave nothing behind."""
    options = ("--listen", "127.0.0.1:0", "--request-size", "64K", "--request-timeout", "500ms")
    with daemon(tmp_path_factory.mktemp("attack") / "state", *options) as started:
        yield started


@pytest.fixture(autouse=True)
def lives(request: pytest.FixtureRequest) -> Iterator[None]:
    """Check that the daemon answers after every attack, and logs no failure of its own."""
    yield
    if "running" in request.fixturenames:
        started: Daemon = request.getfixturevalue("running")
        assert fetch(started, "/v1/health").json["status"] == "ok"
        while started._read(0):  # noqa: SLF001 - what it has said so far
            pass
        assert not [line for line in started.lines if "Traceback" in line or "ASGI" in line or " failed" in line]


def post(running: Daemon, body: bytes, headers: dict[str, str] | None = None) -> Any:
    return fetch(running, "/v1/runs", method="POST", body=body, headers=JSON if headers is None else headers)


def status_of(answer: bytes) -> int:
    """The status of a raw answer, which must be a problem."""
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"application/problem+json" in head, answer
    status = int(head.split(b" ")[1])
    assert b'"status":%d' % status in body
    return status


# Bodies.


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"}",
        b'{"argv":["true"]} {"argv":["true"]}',
        b'{"argv":["\xff\xfe"]}',
        b"\xff\xfe{\x00}\x00",
        b'{"argv":["\\ud800"]}',
        b'{"argv":["true"],"timeout_s":NaN}',
        b'{"argv":["true"],"timeout_s":Infinity}',
        b"\x00",
        b"<xml/>",
        b"argv=true",
    ],
)
def test_what_is_no_json_is_refused(running: Daemon, body: bytes) -> None:
    raw = post(running, body)
    assert (raw.status, raw.headers["content-type"]) == (400, "application/problem+json")


@pytest.mark.parametrize(
    "body",
    [
        b'{"argv":["true"],"timeout_s":1e999}',
        b'{"argv":["true"],"pids":123456789012345678901234567890}',
        b"[" * 50_000,
        b'{"argv":' + b"[" * 30_000,
        b'{"argv":["true"],"labels":' + b'{"a":' * 10_000,
        b'{"argv":["true"],"nice":' + b"[" * 400 + b"]" * 400 + b"}",
        b'{"argv":["true"],"__proto__":{},"constructor":{}}',
        b'{"argv":["true"],"run_id":"../../etc"}',
        b'{"argv":["true"],"parent":"a/b"}',
        b'{"argv":["true"],"name":"\\u0000"}',
        b'{"argv":["true"],"env":{"A=B":"c"}}',
    ],
)
def test_json_that_is_nothing_we_take_is_refused(running: Daemon, body: bytes) -> None:
    assert post(running, body).status in (400, 422)


@pytest.mark.parametrize("kind", [None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_bodies_that_browsers_send_for_anybody_are_refused(running: Daemon, kind: str | None) -> None:
    raw = post(running, b'{"argv":["true"]}', {} if kind is None else {"Content-Type": kind})
    assert raw.status == 415


def test_a_body_that_says_it_is_huge_is_refused_before_it_comes(running: Daemon) -> None:
    for length in (b"65537", b"99999999999", b"9" * 40):
        with Wire(running) as wire:
            wire.send(HEAD + b"Content-Length: " + length + b"\r\n\r\n")
            assert status_of(wire.rest()) in (400, 413)


def test_a_body_that_does_not_say_its_size_is_refused_when_it_is_too_much(running: Daemon) -> None:
    with Wire(running) as wire:
        wire.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        try:
            for _ in range(1000):  # 16 MiB, of which 64 KiB are read
                wire.send(b"4000\r\n" + b" " * 0x4000 + b"\r\n")
        except (BrokenPipeError, ConnectionResetError):
            pass
        assert status_of(wire.rest()) == 413
    assert _resident_mib(running) < 300


def _resident_mib(running: Daemon) -> int:
    with open(f"/proc/{running.process.pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20


def test_a_body_of_the_largest_size_is_taken(running: Daemon) -> None:
    body = b'{"argv":["true"]}'
    raw = post(running, body + b" " * ((64 << 10) - len(body)))
    assert raw.status == 201
    running.wait(raw.json["run_id"])
    assert post(running, body + b" " * ((64 << 10) - len(body) + 1)).status == 413


def test_a_body_that_trickles_is_not_waited_for(running: Daemon) -> None:
    began = time.monotonic()
    with Wire(running) as wire:
        wire.send(HEAD + b"Content-Length: 1000\r\n\r\n{")
        assert status_of(wire.rest()) == 408
    assert time.monotonic() - began < BOUND_S


def test_a_body_that_ends_too_early_is_no_run(running: Daemon) -> None:
    before = fetch(running, "/v1/runs?limit=1").json
    with Wire(running) as wire:
        wire.send(HEAD + b'Content-Length: 1000\r\n\r\n{"argv":["true"]}')
        wire.socket.shutdown(socket.SHUT_WR)
        wire.rest()
    assert fetch(running, "/v1/runs?limit=1").json == before


def test_a_head_that_trickles_is_not_waited_for(running: Daemon) -> None:
    wires = [Wire(running) for _ in range(20)]
    for number, wire in enumerate(wires):
        wire.send(b"GET /v1/health HTTP/1.1\r\nHost: loc"[: number * 2])
    assert fetch(running, "/v1/health").status == 200  # beside them
    for wire in wires:
        answer = wire.rest()  # until the daemon closes
        assert answer == b"" or status_of(answer) == 408  # test_connection.py tests which, without a clock
        wire.socket.close()


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 50,  # a client speaks TLS
        b"GET\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 2_000_000 + b"\r\n\r\n",
        b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nContent-Length: 5\r\n\r\nabcde",
        b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nZZ\r\n",
    ],
)
def test_what_is_no_http_is_refused(running: Daemon, data: bytes) -> None:
    with Wire(running) as wire:
        try:
            wire.send(data)
            wire.socket.shutdown(socket.SHUT_WR)
        except (BrokenPipeError, OSError):
            pass
        assert b" 400 " in wire.rest().split(b"\r\n")[0]


@pytest.mark.parametrize("method", [b"BREW", b"get", b"Post", b"PATCHED"])
def test_what_is_no_method_is_told_what_is_expected(running: Daemon, method: bytes) -> None:
    with Wire(running) as wire:
        wire.send(method + b" /v1/runs HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = wire.rest()
    assert status_of(answer) == 400
    said = json.loads(answer.partition(b"\r\n\r\n")[2])
    assert (said["type"], said["detail"]) == (
        "urn:holdfast:problem:malformed",
        "it does not begin with a method of HTTP",
    )
    assert "`GET /v1/runs HTTP/1.1`, the method in capitals" in said["remedy"]


# Ids and paths.


@pytest.mark.parametrize(
    "run_id",
    [
        "..",
        "%2e%2e",
        "..%2f..%2fetc%2fpasswd",
        "%2e%2e%2f%2e%2e%2f",
        "a%00b",
        "a%2fb",
        "%2fetc%2fpasswd",
        ".new-x",
        ".gone-x",
        "a%0d%0aSet-Cookie:x",
        "x" * 65,
        "x" * 10_000,
        "UPPER",
        "%ff%fe",
        "caf%c3%a9",
        "-rf",
        "~root",
        "a;ls",
        "a%5cb",
    ],
)
def test_an_id_is_never_a_path(running: Daemon, run_id: str) -> None:
    for method, path in (("GET", ""), ("GET", "/output"), ("GET", "/wait"), ("GET", "/evidence"), ("POST", "/cancel")):
        raw = fetch(running, f"/v1/runs/{run_id}{path}", method=method)
        assert raw.status in (400, 404), (path, raw)
        assert "set-cookie" not in raw.headers
        assert b"root:" not in raw.body


def test_a_session_is_never_a_path(running: Daemon) -> None:
    before = sorted(os.listdir(running.state_dir))
    for name in ("..", "..%2f..%2fruns", "%2fetc", "a%2f..%2f..%2fb", "~x", "%2e%2e"):
        assert fetch(running, f"/v1/sessions/{name}", method="DELETE").status in (200, 404, 422)
    assert sorted(os.listdir(running.state_dir)) == before
    assert (running.state_dir / "runs").is_dir()


@pytest.mark.parametrize("cursor", ["9999999999999999999.a", "9223372036854775808.a", "-1.a", "1.", "a.b"])
def test_a_cursor_that_is_none_of_ours_is_refused(running: Daemon, cursor: str) -> None:
    raw = fetch(running, f"/v1/runs?cursor={cursor}")
    assert (raw.status, raw.json["field"]) == (422, "cursor")
    assert fetch(running, "/v1/runs?cursor=9223372036854775807.a").status == 200


# Who may ask.


def test_tcp_needs_the_token(running: Daemon) -> None:
    port, token = port_of(running), (running.state_dir / "token").read_text().strip()
    assert stat.S_IMODE((running.state_dir / "token").stat().st_mode) == 0o600
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {token}"}):
        for path in ("/v1/health", "/v1/runs", "/v1/events", "/metrics", "/openapi.json", "/nothing"):
            raw = fetch(port, path, headers=headers)
            assert (raw.status, raw.headers["content-type"]) == (401, "application/problem+json")
            assert raw.headers["www-authenticate"].startswith("Bearer")
            assert token.encode() not in raw.body
    bearer = {"Authorization": f"Bearer {token}"}
    assert fetch(port, "/v1/health", headers=bearer).status == 200
    raw = fetch(port, "/v1/runs", method="POST", body=b'{"argv":["true"]}', headers={**bearer, **JSON})
    assert raw.status == 201
    assert running.wait(raw.json["run_id"])["status"] == "succeeded"


def test_a_rebound_name_and_a_page_from_elsewhere_are_refused(running: Daemon) -> None:
    port, token = port_of(running), (running.state_dir / "token").read_text().strip()
    bearer = {"Authorization": f"Bearer {token}"}
    for host in ("attacker.example", f"attacker.example:{port}", "localhost.attacker.example"):
        assert fetch(port, "/v1/runs", headers={**bearer, "Host": host}).status == 403
    for origin in ("http://attacker.example", "null", f"http://localhost:{port + 1}"):
        raw = fetch(port, "/v1/runs", headers={**bearer, "Origin": origin})
        assert raw.status == 403
        assert not [name for name in raw.headers if name.startswith("access-control")]
    mine = {**bearer, "Host": f"localhost:{port}", "Origin": f"http://localhost:{port}"}
    assert fetch(port, "/v1/runs", headers=mine).status == 200


@pytest.mark.parametrize("path", ["/v1/runs", "/v1/events", "/v1/health", "/metrics", "/", "/v1/login/session"])
def test_a_rebound_name_through_a_tunnel_to_the_socket_reads_nothing(running: Daemon, path: str) -> None:
    raw = fetch(running, path, headers={"Host": "attacker.example:7300"})
    assert (raw.status, raw.json["type"]) == (403, "urn:holdfast:problem:forbidden")


def test_a_refused_client_cannot_make_the_daemon_read(running: Daemon) -> None:
    with socket.create_connection(("127.0.0.1", port_of(running)), timeout=BOUND_S) as wire:
        wire.sendall(b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\n")
        answer = b""
        while part := wire.recv(65536):
            answer += part
        assert status_of(answer) == 401


ASKS = """
import socket, sys
asking = socket.socket(socket.AF_UNIX)
try:
    asking.connect(sys.argv[1])
    asking.sendall(b"GET /v1/health HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n")
    print("answer", asking.recv(100))
except OSError as error:
    print("refused", type(error).__name__)
"""


@pytest.mark.root
def test_another_user_is_refused_by_the_file_system_and_by_the_kernels_word(running: Daemon, tmp_path: Path) -> None:
    assert stat.S_IMODE(os.stat(running.socket).st_mode) == 0o600
    assert stat.S_IMODE(running.state_dir.stat().st_mode) == 0o700
    command = [sys.executable, "-c", ASKS, running.socket]
    as_other = subprocess.run(as_nobody(command), capture_output=True, text=True, check=True, timeout=BOUND_S)
    assert as_other.stdout == "refused PermissionError\n"
    # Remove the first wall, and the second one holds: open every directory on the way and the socket to all.
    opened: list[tuple[str, int]] = []
    place = running.socket
    try:
        while place != "/":
            opened.append((place, stat.S_IMODE(os.stat(place).st_mode)))
            os.chmod(place, opened[-1][1] | (0o666 if place == running.socket else 0o711))
            place = os.path.dirname(place)
        as_other = subprocess.run(as_nobody(command), capture_output=True, text=True, check=True, timeout=BOUND_S)
    finally:
        for path, mode in opened:
            os.chmod(path, mode)
    assert as_other.stdout in ("answer b''\n", "refused ConnectionResetError\n", "refused BrokenPipeError\n")
    running.until_line("refused user 65534")
    # The wall does not stop users who may connect.
    as_self = subprocess.run(command, capture_output=True, text=True, check=True, timeout=BOUND_S)
    assert as_self.stdout.startswith("answer b'HTTP/1.1 200")
    del tmp_path


def test_too_many_connections_are_told_so(tmp_path: Path) -> None:
    with daemon(tmp_path / "state", "--max-connections", "3") as running:
        held = [Wire(running) for _ in range(3)]
        for wire in held:
            wire.send(b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert wire.socket.recv(100).startswith(b"HTTP/1.1 200")
        with Wire(running) as wire:
            wire.send(b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answer = wire.rest()
        assert status_of(answer) == 503
        assert b"retry-after" in answer.lower()
        held[0].send(b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"200 OK" in held[0].socket.recv(4096) + held[0].socket.recv(4096)  # these connections were there first
        for wire in held:
            wire.socket.close()


# The disk.


@contextmanager
def tiny_disk(place: Path, size: str) -> Iterator[Path]:
    """A file system with this much room."""
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "holdfast-test", place], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


@pytest.mark.root
def test_a_full_disk_is_said_and_nothing_is_lost(tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    with tiny_disk(tmp_path / "disk", "4m") as disk, daemon(disk / "state") as running:
        done = running.submit(["echo", "kept"])["run_id"]
        running.wait(done)
        live = running.submit(gate.waits("exit 7"))["run_id"]
        running.until_output(live)
        filler = disk / "filler"
        with filler.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(b"\0" * 4096)
            except OSError:
                pass
        refused = [running.request("POST", "/v1/runs", {"argv": ["true"], "name": "x" * 200}) for _ in range(30)]
        last = refused[-1]
        assert last.status == 503, last
        assert last.headers["content-type"] == "application/problem+json"
        assert last.headers["retry-after"]
        assert "space" in json.dumps(last.body)
        assert running.request("GET", "/v1/health").status == 200
        assert running.report(done)["status"] == "succeeded"
        assert fetch(running, f"/v1/runs/{done}/output").body == b"kept\n"
        filler.unlink()
        gate.open()
        assert running.wait(live)["exit_code"] == 7
        again = running.submit(["echo", "again"])["run_id"]
        assert running.wait(again)["status"] == "succeeded"
        listed = {report["run_id"] for report in running.request("GET", "/v1/runs?status=succeeded").body["runs"]}
        assert listed >= {done, again}
        for answer in refused:
            if answer.status == 201:  # taken before the disk was quite full: then the run ended, in some way
                assert running.wait(answer.body["run_id"])["state"] == "settled"


@pytest.mark.root
def test_a_read_only_disk_is_said_and_nothing_is_lost(tmp_path: Path) -> None:
    with tiny_disk(tmp_path / "disk", "8m") as disk:
        with daemon(disk / "state") as running:
            done = running.submit(["echo", "kept"])["run_id"]
            running.wait(done)
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        refused = start(disk / "state")
        try:
            assert refused.exit_code() == 125
            assert any("read-only" in line.lower() for line in refused.lines), refused.lines
        finally:
            refused.end()
        subprocess.run(["mount", "-o", "remount,rw", disk], check=True)
        with daemon(disk / "state") as running:
            assert running.report(done)["status"] == "succeeded"


@pytest.mark.root
def test_a_state_directory_that_becomes_read_only_loses_nothing(shared_directory: Path) -> None:
    # As an ordinary user: nothing is read-only for root.
    state = shared_directory / "becomes-read-only"
    state.mkdir(mode=0o700)
    os.chown(state, NOBODY, NOBODY)
    parts = [state, state / "runs", state / "live"]
    with daemon_of_nobody(state) as running:
        done = running.submit(["echo", "kept"])["run_id"]
        running.wait(done)
        for part in parts:
            part.chmod(0o500)
        answer = running.request("POST", "/v1/runs", {"argv": ["echo", "later"]})
        assert answer.status in (201, 503)  # queued for later, or refused: never both or neither
        if answer.status == 201:
            running.until_line(f"could not be started.*{answer.body['run_id']}.*you may not write there")
            assert running.report(answer.body["run_id"])["state"] == "queued"
        assert fetch(running, f"/v1/runs/{done}/output").body == b"kept\n"
        assert running.report(done)["status"] == "succeeded"
        for part in parts:
            part.chmod(0o700)
        if answer.status == 201:
            assert running.wait(answer.body["run_id"])["status"] == "succeeded"
        assert running.wait(running.submit(["true"])["run_id"])["status"] == "succeeded"


@contextmanager
def daemon_of_nobody(state: Path) -> Iterator[Daemon]:
    command = [sys.executable, "-m", "holdfast.cli.main", "serve", "--state-dir", str(state)]
    env = {**os.environ, "XDG_CONFIG_HOME": str(state / "none")}
    process = subprocess.Popen(as_nobody(command), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env=env)
    running = Daemon(state, process)
    try:
        running.until_line("^ready")
        yield running
    finally:
        running.end()


def test_a_daemon_out_of_descriptors_says_so_and_recovers(tmp_path: Path) -> None:
    import resource

    with daemon(tmp_path / "state") as running:
        done = running.submit(["echo", "kept"])["run_id"]
        running.wait(done)
        soft, hard = resource.prlimit(running.process.pid, resource.RLIMIT_NOFILE)
        used = len(os.listdir(f"/proc/{running.process.pid}/fd"))
        resource.prlimit(running.process.pid, resource.RLIMIT_NOFILE, (used + 2, hard))
        answers = [running.request("POST", "/v1/runs", {"argv": ["true"]}) for _ in range(5)]
        assert {answer.status for answer in answers} <= {201, 503}, answers
        resource.prlimit(running.process.pid, resource.RLIMIT_NOFILE, (soft, hard))
        assert running.report(done)["status"] == "succeeded"
        for answer in answers:
            if answer.status == 201:
                running.wait(answer.body["run_id"])
        assert running.wait(running.submit(["true"])["run_id"])["status"] == "succeeded"
        running.signal(signal.SIGTERM)
        assert running.exit_code() == 0
