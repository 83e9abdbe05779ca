"""The connection of a request, from its ASGI scope: whether it is a Unix socket, its peer, and how to cut it.

`connection.py` adds the entries below; a server with another protocol class has none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import Scope

ABORT = "holdfast.abort"  # in `scope["state"]`: a function that cuts the connection and drops unsent data
ADMIT = "holdfast.admit"  # in `scope["state"]`: a function that counts a request of the client that it is given
CLIENT = "holdfast.client"  # in `scope["state"]`: the client for its limits, set by the access checks; None: a stranger
UNLIMITED = ""  # as a client: the request counts for nobody
PEER_UID = "holdfast.peer_uid"  # in `scope["state"]`: the user at the other end of a Unix socket; None for TCP
PEER_PID = "holdfast.peer_pid"  # in `scope["state"]`: the process that connected to a Unix socket; None for TCP
PEER_SOCKET = "holdfast.peer_socket"  # in `scope["state"]`: the connected socket, for questions about its peer
CROWDED = "holdfast.crowded"  # in `scope["state"]`: a function that says whether this connection is one too many


def is_unix(scope: Scope) -> bool:
    """Whether the request came through the Unix socket: the server's address is a path and has no port."""
    server = scope.get("server")
    return server is not None and server[1] is None and bool(server[0])
