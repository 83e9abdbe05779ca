"""The address of a daemon: the socket in its state directory, or a URL with a token and TLS."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from ..state.directory import DAEMON_SOCKET, default_path
from ..values.environment import START
from ..values.errors import DaemonUnreachableError, SpecError

if TYPE_CHECKING:
    import ssl
    from _socket import socket
    from typing import Self

_YES = ("1", "true", "yes", "on")
_LONGEST_ADDRESS = 107  # bytes that fit in a socket's address


class ClientTls(NamedTuple):
    """What a client trusts and shows: a file of authorities (None: those of the host), and its own certificate.

    `cert` is a file with certificate and key, or a file for each.
    """

    ca: str | None = None
    cert: str | tuple[str, str] | None = None

    def context(self) -> ssl.SSLContext:
        """The context for connections. SpecError: a file cannot be used."""
        import ssl

        try:
            # Without a file, OpenSSL takes SSL_CERT_FILE and SSL_CERT_DIR, or the authorities of the host.
            context = ssl.create_default_context(cafile=self.ca)
        except OSError as error:
            raise _unusable("ca", self.ca, error) from None
        if self.cert is not None:
            pair = (self.cert,) if isinstance(self.cert, str) else self.cert
            try:
                context.load_cert_chain(*pair)
            except OSError as error:
                raise _unusable("cert", pair[0], error) from None
        return context


def _unusable(field: str, path: str | None, error: OSError) -> SpecError:
    remedy = "name a file in PEM that you can read"
    return SpecError(f"{field} {path!r} cannot be used: {error.strerror or error}", field=field, remedy=remedy)


class Endpoint(NamedTuple):
    """An address as an HTTP library needs it. Call `close`: for a long socket path it holds an open directory."""

    base_url: str
    socket: str | None
    token: str | None
    shown: str
    directory: int = -1
    tls: ssl.SSLContext | None = None

    @classmethod
    def of(cls, url: str | None, token: str | None, state_dir: str | None, tls: ClientTls | None = None) -> Self:
        """The daemon at a URL, or of a state directory.

        SpecError: both are given, the URL, the token or a TLS file is unusable. DaemonUnreachableError: no such
        directory.
        """
        if tls is not None and tls != ClientTls() and not (url or "").startswith("https://"):
            raise SpecError("ca and cert are for https:// only", field="ca", remedy="leave them out, or give the URL")
        if token is not None and not (token and token.isascii() and token.isprintable() and " " not in token):
            remedy = "give what is in the file `token` of the daemon's state directory"
            raise SpecError("the token is empty or has characters no token has", field="token", remedy=remedy)
        if url is None:
            return cls._local(os.path.abspath(state_dir or default_path()), token)
        if state_dir is not None:
            raise SpecError("url and state_dir were both given", field="url", remedy="leave one of them out")
        if not url.startswith(("http://", "https://")):
            raise SpecError(f"{url!r} is not a URL", field="url", remedy="write http://HOST:PORT or https://HOST:PORT")
        context = (tls or ClientTls()).context() if url.startswith("https://") else None
        return cls(url.rstrip("/"), None, token, url, tls=context)

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
