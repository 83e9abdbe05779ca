"""Whether a run is ready, with real runs, real listeners and a real server."""

from __future__ import annotations

import os
import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from holdfast.guard import packets
from holdfast.readiness import http_probe
from holdfast.readiness.check import ReadyCheck
from holdfast.state import run_directory
from holdfast.state.directory import StateDirectory

from ..support.durable import DurableRun
from ..support.listening import listens

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.guard


@pytest.fixture
def state(tmp_path: Path) -> StateDirectory:
    return StateDirectory.open(str(tmp_path / "state"))


class Looked:
    """A run and one check of it."""

    def __init__(self, run: DurableRun, *conditions: str) -> None:
        self.run = run
        journal = run_directory.open_journal(run.record_path())
        self.check = ReadyCheck(run.run_id, conditions, journal)

    def is_ready(self) -> bool:
        with self.run.record() as record:
            return self.check.is_ready(record.tree)


@contextmanager
def looked(state: StateDirectory, argv: list[str], *conditions: str) -> Iterator[Looked]:
    with DurableRun(state, argv, stdin="pipe") as run:
        run.until_ready()
        found = Looked(run, *conditions)
        with found.check:
            yield found
        run.handle.control.send(packets.stop(1, "user", "", now=True))
        run.until_ended()


class TestPort:
    def test_a_process_of_the_run_listens_there(self, state: StateDirectory) -> None:
        with looked(state, listens("daemon"), "port:1") as found:
            port = found.run.until_ready()["port"]
            again = Looked(found.run, f"port:{port}")
            with again.check:
                assert again.is_ready()
            assert not found.is_ready()
            assert found.check.missing() == "none of its processes listens on port 1"

    def test_the_listener_of_a_stranger_does_not_count_and_is_named(self, state: StateDirectory) -> None:
        with socket.create_server(("127.0.0.1", 0)) as stranger:
            port = stranger.getsockname()[1]
            with looked(state, ["sh", "-c", "echo ready; exec sleep 600"], f"port:{port}") as found:
                assert not found.is_ready()
                assert f"port {port} belongs to process {os.getpid()} (" in found.check.missing()


class TestLog:
    def test_a_line_that_comes_in_pieces_with_colours_and_before_its_end(self, state: StateDirectory) -> None:
        says = "printf 'ready\\nVITE \\033[32m\\033[1mrea'; read x; printf 'dy\\033[0m in 3'; read x; exec sleep 600"
        with looked(state, ["sh", "-c", says], r"log:^VITE ready in \d+$") as found:
            assert not found.is_ready()
            assert "no line of its output matches" in found.check.missing()
            os.write(found.run.handle.input or -1, b"\n")
            until(found)
            assert found.is_ready()  # and again

    def test_stderr_counts_and_two_streams_are_not_mixed(self, state: StateDirectory) -> None:
        says = "printf 'on'; printf 'ready\\nup\\n' >&2; echo ready; exec sleep 600"
        with looked(state, ["sh", "-c", says], "log:^up$") as found:
            until(found)
            other = Looked(found.run, "log:^(onup|upon|onready)$")
            with other.check:
                other.is_ready()
                assert other.is_ready()  # `on` and `ready` are one line of stdout

    def test_all_conditions_must_hold(self, state: StateDirectory) -> None:
        with looked(state, listens(), "log:^ready", "port:1") as found:
            assert not found.is_ready()


def until(found: Looked) -> None:
    """Look until it is ready: the run has been told to go on, and the test's own bound ends a run that is not."""
    while not found.is_ready():
        os.sched_yield()


@contextmanager
def server(answer: bytes, *, hangs: bool = False) -> Iterator[int]:
    """A server on loopback that gives one answer, or none; the port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with listener.accept()[0] as connection:
                asked.append(connection.recv(4096))
                connection.sendall(answer)
                if hangs:
                    connection.recv(1)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            thread.join()


asked: list[bytes] = []


class TestHttp:
    @pytest.mark.parametrize(
        ("answer", "why"),
        [
            (b"HTTP/1.1 200 OK\r\n\r\n", None),
            (b"HTTP/1.0 204 \r\n\r\n", None),
            (b"HTTP/1.1 302 Found\r\nLocation: http://10.0.0.1/\r\n\r\n", None),  # and it is not followed
            (b"HTTP/1.1 503 Starting\r\n\r\n", "answers 503"),
            (b"HTTP/1.1 404 Not Found\r\n\r\n", "answers 404"),
            (b"SSH-2.0-OpenSSH\r\n", "does not answer in HTTP"),
            (b"", "does not answer in HTTP"),
            (b"x" * 4096, "does not answer in HTTP"),
        ],
    )
    def test_the_status_decides(self, state: StateDirectory, answer: bytes, why: str | None) -> None:
        asked.clear()
        with server(answer) as port:
            url = f"http://127.0.0.1:{port}/health?x=1"
            with looked(state, ["sh", "-c", "echo ready; exec sleep 600"], url) as found:
                assert found.is_ready() is (why is None)
                assert why is None or found.check.missing() == f"127.0.0.1:{port} {why}"
        assert asked[0].startswith(f"GET /health?x=1 HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n".encode())

    def test_a_server_that_does_not_answer_holds_nobody(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from holdfast.values.ready_condition import http_target

        monkeypatch.setattr(http_probe, "WITHIN_S", 0.1)
        with server(b"HTTP/1.1 2", hangs=True) as port:
            assert "does not answer within" in str(http_probe.problem_of(http_target(f"http://127.0.0.1:{port}/")))

    def test_nobody_listens(self) -> None:
        from holdfast.values.ready_condition import http_target

        assert "Connection refused" in str(http_probe.problem_of(http_target("http://localhost:1/")))
