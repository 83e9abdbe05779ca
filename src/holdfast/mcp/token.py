"""The bearer token of the HTTP transport: whoever may read the state directory may use the server."""

from __future__ import annotations

import hmac
import os
import secrets
from typing import TYPE_CHECKING

from ..errors import HoldfastError, StateError
from ..state.directory import state_error

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

_SHORTEST = 16


def read_token(path: str) -> str:
    """The token in this file, made when there is none. StateError when it cannot be read, or others can read it."""
    try:
        if not os.path.exists(path):
            _make(path)
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_mode & 0o077:
                raise StateError(f"others may read the token in {path}", remedy=f"chmod 600 {path}, with a new token")
            token = file.read(4096).decode("ascii", "replace").strip()
    except OSError as error:
        raise state_error(error, path) from None
    if len(token) < _SHORTEST:
        raise HoldfastError(f"the token in {path} is too short", remedy="remove the file, and a new one is made")
    return token


def _make(path: str) -> None:
    temporary = f"{path}.{os.getpid()}.new"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "w") as file:
            file.write(f"{secrets.token_urlsafe(32)}\n")
        os.link(temporary, path)  # unlike a rename: the first of two makers wins, and both read the same
    except FileExistsError:
        pass
    finally:
        os.unlink(temporary)


class RequireToken:
    """Lets a request through that carries the token, and answers 401 to every other."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As ASGI has it."""
        if scope["type"] == "http":
            given = dict(scope["headers"]).get(b"authorization", b"")
            if not hmac.compare_digest(given, self._expected):
                await _refuse(send)
                return
        await self._app(scope, receive, send)


async def _refuse(send: Send) -> None:
    headers = [(b"www-authenticate", b"Bearer"), (b"content-type", b"text/plain")]
    await send({"type": "http.response.start", "status": 401, "headers": headers})
    await send({"type": "http.response.body", "body": b"the bearer token is missing or wrong\n"})
