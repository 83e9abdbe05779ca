"""A receiver of webhooks in a thread, for tests that are not async: it accepts deliveries, or refuses them."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any

from .daemons import BOUND_S

if TYPE_CHECKING:
    from typing import Self


class Hook:
    """It listens while entered; `taken` has id and body of every delivery, `answer` is the next answer."""

    def __init__(self) -> None:
        self.taken: SimpleQueue[tuple[str, dict[str, Any]]] = SimpleQueue()
        self.answer = 204
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                hook.taken.put((self.headers["webhook-id"], body))
                self.send_response(hook.answer)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook?token=very-secret"
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})

    def next(self) -> dict[str, Any]:
        """The body of the next delivery; queue.Empty if none comes."""
        return self.taken.get(timeout=BOUND_S)[1]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
