"""The connection of a request, from its ASGI scope: whether it is a Unix socket, and how to cut it.

`connection.py` adds the entries ABORT and CROWDED; a server with another protocol class has neither of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import Scope

ABORT = "holdfast.abort"  # in `scope["state"]`: a function that cuts the connection and drops unsent data
CROWDED = "holdfast.crowded"  # in `scope["state"]`: True when there were too many connections already


def is_unix(scope: Scope) -> bool:
    """Whether the request came through the Unix socket: the server's address is a path and has no port."""
    server = scope.get("server")
    return server is not None and server[1] is None and bool(server[0])
