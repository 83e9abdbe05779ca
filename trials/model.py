"""The scripted model: a server on loopback that plays the turns of a script and keeps what a harness sent."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self

from .wires.wire import Call, Say

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    from .wires.wire import Turn, Wire

_LAST_WORD = Say("done")


@dataclass(frozen=True, slots=True)
class Request:
    """A request of a harness for a turn of the model, and when it came (monotonic)."""

    at_s: float
    body: Any
    results: list[str]
    answer: Turn


class Model:
    """A model that gives one turn of its script for each request with tools, and a last word when none is left.

    Requests without tools (titles, summaries, classifications) get the last word and leave the script alone.
    """

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.requests: list[Request] = []
        self.others: list[str] = []  # the paths of everything else that the harness asked for
        self.unknown: list[str] = []  # tools of the script that the harness did not offer
        self.asked = threading.Event()  # set by the first request for a turn
        self._turns: list[Turn] = []
        self._number = 0
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    @property
    def url(self) -> str:
        """The address, without a path."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def play(self, turns: Iterable[Turn]) -> None:
        """Start a new script. Requests that came before are forgotten."""
        with self._lock:
            self._turns = list(turns)
            self.requests = []
            self.asked.clear()

    def respond(self, path: str, body: Any) -> bytes | None:
        """The answer to a request, or None if it is not for a turn of the model."""
        if not self.wire.is_turn(path):
            self.others.append(path)
            return None
        offered = self.wire.tools(body)
        with self._lock:
            self._number += 1
            number = self._number
            turn = self._turns.pop(0) if offered and self._turns else _LAST_WORD
            turn = self._named(turn, offered)
            if offered:
                self.requests.append(Request(time.monotonic(), body, self.wire.results(body), turn))
                self.asked.set()
        return self.wire.stream(turn, number)

    def _named(self, turn: Turn, offered: list[str]) -> Turn:
        """The turn with the whole name of its tool: a harness puts its own words before the name of a server's tool."""
        if isinstance(turn, Say):
            return turn
        whole = [name for name in offered if name.endswith(turn.tool)]
        if turn.tool in whole:
            return turn
        if not whole:
            self.unknown.append(f"{turn.tool} is not among {' '.join(offered)}")
            return _LAST_WORD
        return Call(whole[0], turn.arguments)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _handler(model: Model) -> type[BaseHTTPRequestHandler]:
    """A handler class of this model's server."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            try:
                body = json.loads(raw)
            except ValueError:
                body = {}
            answer = model.respond(self.path.partition("?")[0], body)
            if answer is None:
                self._send("application/json", b"{}")
            else:
                self._send("text/event-stream", answer)

        def do_GET(self) -> None:
            model.others.append(self.path)
            self._send("application/json", b"{}")

        def do_HEAD(self) -> None:
            self._send("application/json", b"")

        def _send(self, kind: str, data: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Stay silent: the table is the only thing that is printed."""

    return Handler
