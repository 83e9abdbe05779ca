"""HTTP as bytes, for tests of the wire: one request on one connection, over the socket or TCP."""

from __future__ import annotations

import http.client
import re
import socket
from typing import TYPE_CHECKING, Any, NamedTuple

from .daemons import BOUND_S, UnixConnection

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .daemons import Daemon


class Raw(NamedTuple):
    """A raw answer; names of headers in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body, decoded."""
        import json

        return json.loads(self.body)


def port_of(running: Daemon) -> int:
    """The TCP port of a daemon that was started with `--listen 127.0.0.1:0`."""
    found = re.search(r":(\d+)$", running.until_line(r"^listening on http"))
    assert found is not None
    return int(found[1])


def fetch(
    place: Daemon | int,
    path: str,
    *,
    method: str = "GET",
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
) -> Raw:
    """One request to a daemon's socket, or to a port; exactly these headers beside Host and Content-Length."""
    connection = connect(place)
    try:
        connection.request(method, path, body, dict(headers or {}))
        response = connection.getresponse()
        found = {name.lower(): value for name, value in response.getheaders()}
        return Raw(response.status, found, response.read())
    finally:
        connection.close()


def connect(place: Daemon | int) -> http.client.HTTPConnection:
    """A connection; the first request opens it."""
    if isinstance(place, int):
        return http.client.HTTPConnection("127.0.0.1", place, timeout=BOUND_S)
    return UnixConnection(place.socket)


class Wire:
    """A bare connection: any bytes, and the answer. Use it as a context manager."""

    def __init__(self, running: Daemon) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(BOUND_S)
        self.socket.connect(running.socket)

    def send(self, data: bytes) -> None:
        """Send everything, unless the daemon has gone."""
        self.socket.sendall(data)

    def rest(self) -> bytes:
        """Everything until the daemon closes the connection; it does, or this fails."""
        seen = b""
        try:
            while part := self.socket.recv(65536):
                seen += part
        except ConnectionResetError:
            pass
        return seen

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()
