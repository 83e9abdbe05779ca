"""One request to a server on loopback: whether it answers with a status from 200 to 399, within a bound."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..values.ready_condition import HttpTarget

WITHIN_S = 1.0
_LONGEST_LINE = 1024


def problem_of(target: HttpTarget) -> str | None:
    """Why the target is not ready, in words; None: it is. A redirection counts, and is not followed."""
    # No name is looked up: `localhost` is tried on both families.
    hosts = ("127.0.0.1", "::1") if target.host == "localhost" else (target.host,)
    deadline = time.monotonic() + WITHIN_S
    problems = [_ask(host, target, deadline) for host in hosts]
    return None if None in problems else problems[0]


def _ask(host: str, target: HttpTarget, deadline: float) -> str | None:
    question = f"GET {target.path} HTTP/1.1\r\nHost: {target.authority}\r\nUser-Agent: holdfast\r\nAccept: */*\r\n"
    try:
        with socket.create_connection((host, target.port), timeout=_left(deadline)) as connection:
            connection.sendall(f"{question}Connection: close\r\n\r\n".encode())
            line = _first_line(connection, deadline)
    except TimeoutError:
        return f"{target.authority} does not answer within {WITHIN_S:.0f}s"
    except OSError as error:
        return f"{target.authority}: {error.strerror or error}"
    words = line.split(b" ", 2)
    if not line.startswith(b"HTTP/1.") or len(words) < 2 or not words[1].isdigit():
        return f"{target.authority} does not answer in HTTP"
    return None if 200 <= int(words[1]) < 400 else f"{target.authority} answers {int(words[1])}"


def _first_line(connection: socket.socket, deadline: float) -> bytes:
    data = b""
    while b"\n" not in data and len(data) < _LONGEST_LINE:
        connection.settimeout(_left(deadline))
        part = connection.recv(_LONGEST_LINE)
        if not part:
            break
        data += part
    return data.partition(b"\n")[0].rstrip(b"\r")


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
