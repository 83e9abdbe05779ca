"""A real daemon in a process of its own, for tests: started, asked over its socket, signalled, killed.

    with daemon(state_dir, "--max-runs", "2") as running:
        report = running.submit(["true"])
        running.wait(report["run_id"], until="settled")

Leaving ends the daemon, with all of its runs, whatever happened before. Nothing here sleeps: each wait is for a line, a
byte or an exit, and is bounded.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.state import owner_lock
from holdfast.state.directory import StateDirectory

from .processes import wait_exited

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

BOUND_S = 60.0


class Answer(NamedTuple):
    """The daemon's answer; `body` is its JSON, or None."""

    status: int
    headers: Mapping[str, str]
    body: Any


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str, timeout_s: float = BOUND_S) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        """As HTTPConnection."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class EventStream:
    """An open `GET /v1/events`, read event by event."""

    def __init__(self, connection: UnixConnection, response: http.client.HTTPResponse) -> None:
        self._connection = connection
        self._response = response

    def next(self) -> tuple[str, dict[str, Any]] | None:
        """Type and data of the next event; None when the daemon has ended the stream."""
        type_, data = "", ""
        while True:
            try:
                line = self._response.readline()
            except (http.client.IncompleteRead, ConnectionError):
                return None
            if not line:
                return None
            text = line.decode().rstrip("\r\n")
            if text.startswith("event:"):
                type_ = text[6:].strip()
            elif text.startswith("data:"):
                data = text[5:].strip()
            elif not text and data:
                return type_, json.loads(data)

    def until(self, type_: str, run_id: str | None = None) -> dict[str, Any]:
        """The data of the next event of this type (and run). AssertionError if the stream ends before."""
        while (found := self.next()) is not None:
            if found[0] == type_ and run_id in (None, found[1].get("run_id")):
                return found[1]
        raise AssertionError(f"the stream ended without {type_}")

    def close(self) -> None:
        """Close the connection."""
        self._response.close()
        self._connection.close()


class Daemon:
    """A started daemon. `lines` is its log so far, without the `holdfast: ` in front."""

    def __init__(self, state_dir: Path, process: subprocess.Popen[bytes]) -> None:
        self.state_dir = state_dir
        self.process = process
        self.socket = str(state_dir / "holdfast.sock")
        self.lines: list[str] = []
        self._unread = b""

    # Requests.

    def request(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Answer:
        """One request on a connection of its own."""
        connection = UnixConnection(self.socket)
        try:
            sent = {"Connection": "close", **(headers or {})}
            content = None
            if body is not None:
                content = json.dumps(body).encode()
                sent["Content-Type"] = "application/json"
            connection.request(method, path, content, sent)
            response = connection.getresponse()
            text = response.read()
            is_json = "json" in (response.getheader("content-type") or "")
            found = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, found, json.loads(text) if is_json and text else None)
        finally:
            connection.close()

    def submit(self, argv: Sequence[str], *, key: str | None = None, **fields: Any) -> dict[str, Any]:
        """Post a run and return its report. AssertionError if the daemon refused it."""
        headers = {} if key is None else {"Idempotency-Key": key}
        answer = self.request("POST", "/v1/runs", {"argv": list(argv), **fields}, headers)
        assert answer.status in (200, 201), answer
        report: dict[str, Any] = answer.body
        return report

    def report(self, run_id: str) -> dict[str, Any]:
        """The report as it is now."""
        return self._get(f"/v1/runs/{run_id}")

    def wait(self, run_id: str, until: str = "settled") -> dict[str, Any]:
        """The report when the run has come this far. AssertionError if it does not."""
        report = self._get(f"/v1/runs/{run_id}/wait?until={until}&timeout_s={BOUND_S:.0f}")
        assert report["status"] is not None, report
        assert until == "verdict" or report["state"] == "settled", report
        return report

    def cancel(self, run_id: str, **body: Any) -> dict[str, Any]:
        """Cancel the run."""
        answer = self.request("POST", f"/v1/runs/{run_id}/cancel", body)
        assert answer.status == 200, answer
        report: dict[str, Any] = answer.body
        return report

    def until_output(self, run_id: str, text: bytes = b"ready", stream: str = "stdout") -> bytes:
        """Follow a stream of the run until this text; returns what was read. AssertionError if it ends before that."""
        connection = UnixConnection(self.socket)
        try:
            connection.request("GET", f"/v1/runs/{run_id}/output?stream={stream}&follow=true")
            response = connection.getresponse()
            assert response.status == 200, response.status
            seen = b""
            while text not in seen:
                part = response.read1(65536)
                assert part, f"{text!r} is not in {seen!r}"
                seen += part
            return seen
        finally:
            connection.close()

    def events(self, after: int | None = None) -> EventStream:
        """Open the event stream: from now on, or after this id."""
        connection = UnixConnection(self.socket)
        connection.request("GET", "/v1/events", headers={} if after is None else {"Last-Event-ID": str(after)})
        response = connection.getresponse()
        assert response.status == 200, response.status
        response.readline()  # the beginning of the stream: from here on nothing is missed
        return EventStream(connection, response)

    def _get(self, path: str) -> dict[str, Any]:
        answer = self.request("GET", path)
        assert answer.status == 200, answer
        body: dict[str, Any] = answer.body
        return body

    # Its log.

    def until_line(self, pattern: str) -> str:
        """The first line that matches, now or soon. AssertionError if the daemon ends before, or is silent."""
        end = time.monotonic() + BOUND_S
        looked = 0
        while True:
            for line in self.lines[looked:]:
                if re.search(pattern, line):
                    return line
            looked = len(self.lines)
            assert self._read(end - time.monotonic()), f"{pattern!r} is not in {self.lines}"

    def _read(self, within_s: float) -> bool:
        assert self.process.stderr is not None
        fd = self.process.stderr.fileno()
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        if not poll.poll(max(0.0, within_s) * 1000):
            return False
        part = os.read(fd, 65536)
        *lines, self._unread = (self._unread + part).split(b"\n")
        self.lines += [line.decode(errors="replace").removeprefix("holdfast: ") for line in lines]
        return bool(part)

    # Its end.

    def signal(self, number: int = signal.SIGTERM) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL, and its exit."""
        self.process.kill()
        self.process.wait(BOUND_S)

    def exit_code(self) -> int:
        """Wait for its exit; the log is complete then."""
        code = self.process.wait(BOUND_S)
        while self._read(BOUND_S):
            pass
        return code

    def end(self) -> None:
        """End it with all of its runs."""
        if self.process.poll() is None:
            try:
                self.process.send_signal(signal.SIGTERM)
                self.until_line("draining")  # two signals at once would count as one
                self.process.send_signal(signal.SIGTERM)
                self.process.wait(BOUND_S)
            except (AssertionError, subprocess.TimeoutExpired):  # it has exited by itself, or does not react
                self.process.kill()
                self.process.wait()
        assert self.process.stderr is not None
        self.process.stderr.close()


@contextmanager
def daemon(
    state_dir: Path, *options: str, env: Mapping[str, str] | None = None, through: Sequence[str] = (), before: str = ""
) -> Iterator[Daemon]:
    """A daemon that is ready. AssertionError with its log if it does not become ready."""
    running = start(state_dir, *options, env=env, through=through, before=before)
    try:
        running.until_line('^ready|"message": "ready"')
        yield running
    finally:
        running.end()


def start(
    state_dir: Path, *options: str, env: Mapping[str, str] | None = None, through: Sequence[str] = (), before: str = ""
) -> Daemon:
    """Start a daemon without waiting: `through` another program, and with Python code that runs `before` it."""
    how = ["-c", f"{before}\nfrom holdfast.cli.main import main\nraise SystemExit(main())"]
    words = how if before else ["-m", "holdfast.cli.main"]
    command = [*through, sys.executable, *words, "serve", "--state-dir", str(state_dir), *options]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_CONFIG")}
    clean |= {"XDG_CONFIG_HOME": str(state_dir.parent / "no-config"), **(env or {})}
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env=clean)
    return Daemon(state_dir, process)


class Gate:
    """A FIFO at which commands wait: `waits` is the shell command, `open` lets one of them through."""

    def __init__(self, path: Path) -> None:
        self.path = path
        os.mkfifo(path)

    def waits(self, then: str = "exit 0") -> list[str]:
        """The argv of a run that prints `ready`, waits, and then does this."""
        return ["sh", "-c", f'echo ready; read -r _ < "$0"; {then}', str(self.path)]

    def open(self) -> None:
        """Let it through."""
        with open(self.path, "w") as gate:
            gate.write("go\n")


def end_daemon(state_dir: Path) -> None:
    """End the daemon of a state directory that was started on demand, if there is one."""
    owner = owner_lock.look(StateDirectory.open(str(state_dir))).owner
    if owner is not None:
        os.kill(owner.pid, signal.SIGTERM)
        assert wait_exited(owner.pid, BOUND_S)
