"""The connection of a request, from its ASGI scope: whether it is a Unix socket, its peer, and how to cut it.

`connection.py` adds the entries below; a server with another protocol class has none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import Scope

ABORT = "holdfast.abort"  # in `scope["state"]`: a function that cuts the connection and drops unsent data
ADMIT = "holdfast.admit"  # in `scope["state"]`: a function that says that the client is known
PEER_UID = "holdfast.peer_uid"  # in `scope["state"]`: the user at the other end of a Unix socket; None for TCP
CROWDED = "holdfast.crowded"  # in `scope["state"]`: a function that says whether this connection is one too many


def is_unix(scope: Scope) -> bool:
    """Whether the request came through the Unix socket: the server's address is a path and has no port."""
    server = scope.get("server")
    return server is not None and server[1] is None and bool(server[0])
