"""A request to the daemon of a state directory: one HTTP/1.0 request per connection, each with a bound.

Why no HTTP library: importing one takes longer than most commands, and on a Unix socket with a server of our own a
request of HTTP/1.0 is a few lines. A stopped daemon still has its socket, and the kernel still connects to it. So
nothing here waits for an answer without a bound, and commands that can do without the daemon go on without it.
"""

from __future__ import annotations

import os
import select
import time
from _socket import AF_UNIX, SOCK_STREAM, socket
from typing import TYPE_CHECKING, Any, TypeVar

from ...client.endpoint import connect, unreachable
from ...state.directory import DAEMON_SOCKET
from ...values.errors import DaemonError

if TYPE_CHECKING:
    from collections.abc import Generator

    from ...client.calls import ClientCall
    from ...state.directory import StateDirectory

    T = TypeVar("T")

ANSWER_S = 3.0
_PIECE = 1 << 16
_SOCK_CLOEXEC = 0o2000000


def ask(state: StateDirectory, call: ClientCall, *, within_s: float = ANSWER_S) -> Any:
    """Send a request and return the daemon's answer; an answer that is an error is raised as a HoldfastError.

    DaemonUnreachableError: no answer comes in time.
    """
    deadline = time.monotonic() + within_s + (call.patience_s or 0.0)
    with DaemonRequest(state, call) as request:
        while not request.done:
            request.wait(deadline)
        return request.answer()


def drive(state: StateDirectory, asking: Generator[ClientCall, Any, T]) -> T:
    """Send the requests of a generator one by one, until it returns its result."""
    try:
        call = next(asking)
        while True:
            call = asking.send(ask(state, call))
    except StopIteration as done:
        value: T = done.value
        return value


class DaemonRequest:
    """A request on its connection. Poll `fd` for input and call `on_ready`, or call `wait`; when `done`, call `answer`.

    The constructor sends the request. DaemonUnreachableError: no daemon accepts it.
    """

    def __init__(self, state: StateDirectory, call: ClientCall) -> None:
        self.path = os.path.join(state.path, DAEMON_SOCKET)
        self.done = False
        self._answer = bytearray()
        self._socket = socket(AF_UNIX, SOCK_STREAM | _SOCK_CLOEXEC)
        try:
            self._socket.settimeout(ANSWER_S)  # for sending a body; connecting never waits
            connect(self._socket, state.path)
            self._socket.sendall(_request(call))
            self._socket.setblocking(False)
        except OSError as error:
            self._socket.close()
            raise unreachable(self.path, _why(error)) from None

    @property
    def fd(self) -> int:
        """The descriptor to poll for input."""
        return self._socket.fileno()

    @property
    def has_body(self) -> bool:
        """Whether the first bytes of the answer's body have arrived, or all of the answer."""
        head, blank, body = bytes(self._answer).partition(b"\r\n\r\n")
        # A chunked body of HTTP/1.1 would begin with the size of its first chunk; that counts, too.
        return self.done or bool(head and blank and body)

    def on_ready(self) -> None:
        """Read the bytes that have arrived; at the end of the answer, set `done`."""
        try:
            data = self._socket.recv(_PIECE)
        except BlockingIOError:
            return
        except OSError as error:
            raise unreachable(self.path, _why(error)) from None
        self._answer += data
        self.done = not data

    def wait(self, deadline: float | None = None) -> None:
        """Wait for bytes and read them. DaemonUnreachableError: none came before the deadline (monotonic clock)."""
        poll = select.poll()
        poll.register(self.fd, select.POLLIN)
        if not poll.poll(None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000):
            raise unreachable(self.path, "it does not answer")
        self.on_ready()

    def answer(self) -> Any:
        """The decoded JSON of the answer. An answer that is an error is raised as a HoldfastError."""
        import json

        body = self.check()
        try:
            return json.loads(body)
        except ValueError:
            raise DaemonError("the daemon's answer is not JSON", remedy="look at its log") from None

    def check(self) -> bytes:
        """The body of the answer. An answer that is an error is raised as a HoldfastError."""
        head, _, body = bytes(self._answer).partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        words = lines[0].split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        complete = len(body) >= int(headers.get("content-length", "0"))
        if len(words) < 2 or not words[1].isdigit() or not complete:
            raise unreachable(self.path, "it went away in the middle of its answer")
        if (status := int(words[1])) >= 300:
            from ...client.problems import error_of

            raise error_of(status, body, headers)
        return body

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def __enter__(self) -> DaemonRequest:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _request(call: ClientCall) -> bytes:
    import json
    from urllib.parse import urlencode

    body = call.content or (b"" if call.json is None else json.dumps(call.json).encode())
    path = f"{call.path}?{urlencode(dict(call.params), doseq=True)}" if call.params else call.path
    headers = {"Host": "localhost", "Connection": "close", "Accept": "application/json", **call.headers}
    if call.method != "GET":
        headers = {"Content-Type": "application/json", **headers, "Content-Length": str(len(body))}
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"{call.method} {path} HTTP/1.0\r\n{head}\r\n".encode("latin-1") + body


def _why(error: OSError) -> str:
    return "it does not answer" if isinstance(error, TimeoutError) else error.strerror or str(error)
