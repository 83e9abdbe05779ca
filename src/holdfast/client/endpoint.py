"""The address of a daemon: the socket in its state directory, or a URL with a token."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from ..state.directory import DAEMON_SOCKET, default_path
from ..values.environment import START
from ..values.errors import DaemonUnreachableError, SpecError

if TYPE_CHECKING:
    from _socket import socket
    from typing import Self

_YES = ("1", "true", "yes", "on")
_LONGEST_ADDRESS = 107  # bytes that fit in a socket's address


class Endpoint(NamedTuple):
    """An address as an HTTP library needs it. Call `close`: for a long socket path it holds an open directory."""

    base_url: str
    socket: str | None
    token: str | None
    shown: str
    directory: int = -1

    @classmethod
    def of(cls, url: str | None, token: str | None, state_dir: str | None) -> Self:
        """The daemon at a URL, or of a state directory.

        SpecError: both are given, the URL or the token is malformed. DaemonUnreachableError: no such directory.
        """
        if token is not None and not (token and token.isascii() and token.isprintable() and " " not in token):
            remedy = "give what is in the file `token` of the daemon's state directory"
            raise SpecError("the token is empty or has characters no token has", field="token", remedy=remedy)
        if url is None:
            return cls._local(os.path.abspath(state_dir or default_path()), token)
        if state_dir is not None:
            raise SpecError("url and state_dir were both given", field="url", remedy="leave one of them out")
        if not url.startswith(("http://", "https://")):
            raise SpecError(f"{url!r} is not a URL", field="url", remedy="write http://HOST:PORT")
        return cls(url.rstrip("/"), None, token, url)

    @classmethod
    def _local(cls, state_dir: str, token: str | None) -> Self:
        path = os.path.join(state_dir, DAEMON_SOCKET)
        if len(os.fsencode(path)) <= _LONGEST_ADDRESS:
            return cls("http://localhost", path, token, path)
        try:
            directory = os.open(state_dir, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise unreachable(path, error.strerror or str(error)) from None
        return cls("http://localhost", f"/proc/self/fd/{directory}/{DAEMON_SOCKET}", token, path, directory)

    def __repr__(self) -> str:
        # The generated repr would show the token.
        return f"Endpoint({self.shown!r})"

    def headers(self) -> dict[str, str]:
        """The headers of every request."""
        return {} if self.token is None else {"Authorization": f"Bearer {self.token}"}

    def close(self) -> None:
        """Close the directory, if one is open."""
        if self.directory >= 0:
            os.close(self.directory)


def wants_daemon(start: bool | None) -> bool:
    """Whether to start a daemon when there is none: as the caller says, else by HOLDFAST_START."""
    return os.environ.get(START, "").lower() in _YES if start is None else start


def connect(connection: socket, state_path: str) -> None:
    """Connect to the daemon's socket. OSError as usual.

    By descriptor: the address of a Unix socket holds 108 bytes, and the path of a state directory may be longer.
    """
    directory = os.open(state_path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        connection.connect(f"/proc/self/fd/{directory}/{DAEMON_SOCKET}")
    finally:
        os.close(directory)


def unreachable(shown: str, why: str) -> DaemonUnreachableError:
    """The error for a daemon that does not answer."""
    remedy = "start it (holdfast serve), or name another state directory or address"
    return DaemonUnreachableError(f"no daemon answers at {shown}: {why}", remedy=remedy)
