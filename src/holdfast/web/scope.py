"""What the scope of a request says about its connection: by which socket it came, and how to cut it.

`connection.py` puts the two entries there; servers that use another protocol class have neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import Scope

ABORT = "holdfast.abort"  # in the state of each request's scope: cuts the connection, whatever is still to be sent
CROWDED = "holdfast.crowded"  # there, too: this one came when there were too many


def is_unix(scope: Scope) -> bool:
    """Whether this came through the Unix socket: its address is a path and has no port."""
    server = scope.get("server")
    return server is not None and server[1] is None and bool(server[0])
