"""The listener: the daemon's Unix socket and TCP addresses, each with a connection pool, served by one web server.

The drain does the shutdown; the listener only opens and closes. Strangers can connect to TCP only. So a TCP address
gets no descriptor that is kept for the owner's socket or for runs, and its connections count only against itself. The
process that holds the owner lock of the state directory may replace the socket file, because no other daemon listens
there.

Over plain TCP every host on the way reads the token and the output. So an address beyond loopback needs TLS, or a
setting that names what it does.
"""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

from ..state.directory import DAEMON_SOCKET
from ..values.errors import ConfigError, StateError
from ..web.client_limits import ClientBounds, ClientLimits
from ..web.connection_pool import ConnectionPool
from ..web.server import BACKLOG, ListeningSocket, WebServer
from ..web.tls import ServerTls, TlsFiles

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.types import ASGIApp

    from ..config import Config
    from ..runs.descriptor_limit import DescriptorReserve
    from ..state.directory import StateDirectory
    from .process.log import Log

_LONGEST_ADDRESS = 107
_LOOPBACK = "127.0.0.1:0"  # any free port
_LAST_ANSWERS_S = 2  # for answers that are not complete when everything else is over


class Listener:
    """The open sockets and the server. `serve`, then `close`."""

    def __init__(self, state: StateDirectory, config: Config, reserve: DescriptorReserve, log: Log) -> None:
        """Bind all addresses. StateError, ConfigError: an address or a TLS file is not usable; nothing stays open."""
        self._tls = _tls_of(config, log)
        self._clients = ClientLimits(_client_bounds(config))
        self._config = config
        self._reserve = reserve
        self._path = os.path.join(state.path, DAEMON_SOCKET)
        self._sockets: list[socket.socket] = []
        self._server: WebServer | None = None
        try:
            self._sockets.append(_bind_unix(state.path, self._path))
            self._sockets += [_bind_tcp(address, config) for address in config.listen]
        except BaseException:
            self._close_sockets()
            raise
        self._pools = [self._pool(name) for name in self.addresses]

    @property
    def addresses(self) -> list[str]:
        """The addresses for people: the path of the Unix socket, then URLs."""
        scheme = "http" if self._tls is None else "https"
        return [self._path, *(_url(scheme, bound) for bound in self._sockets[1:])]

    def open_loopback(self) -> str:
        """Listen on a free port of loopback, too, and return its URL. ConfigError: there is none."""
        assert self._server is not None
        bound = _bind_tcp(_LOOPBACK, self._config)
        self._sockets.append(bound)
        address = self.addresses[-1]
        self._pools.append(self._pool(address))
        self._server.add(ListeningSocket(bound, self._pools[-1], self._tls))
        return address

    def _pool(self, name: str) -> ConnectionPool:
        is_own = name == self._path
        return ConnectionPool(
            self._config.max_connections,
            name=name,
            number_bound=self._reserve.owner_bound if is_own else self._reserve.stranger_bound,
            knows_peers=is_own,
            clients=self._clients,
        )

    def reload(self, config: Config) -> None:
        """Take the limits of clients from these settings, and read the TLS files again if one of them has changed."""
        self._clients.bounds = _client_bounds(config)
        if self._tls is not None:
            self._tls.refresh()

    def shortages(self) -> Iterator[str]:
        """What is wrong now, as sentences."""
        for pool in self._pools:
            yield from pool.shortages()

    async def serve(self, app: ASGIApp) -> None:
        """Begin to answer requests."""
        tls = [None, *[self._tls] * (len(self._sockets) - 1)]
        listeners = [ListeningSocket(*each) for each in zip(self._sockets, self._pools, tls, strict=True)]
        self._server = WebServer(app, listeners, last_answers_s=_LAST_ANSWERS_S)
        await self._server.start()

    async def close(self) -> None:
        """Take no more requests; answers that have begun get a moment to end."""
        if self._server is not None:
            await self._server.close()
        self._close_sockets()

    def _close_sockets(self) -> None:
        if not self._sockets:
            return
        for bound in self._sockets:
            bound.close()
        self._sockets = []
        try:
            os.unlink(self._path)
        except FileNotFoundError:
            pass


def _bind_unix(directory: str, path: str) -> socket.socket:
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    holder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    before = os.umask(0o177)  # only the owner may connect, from the first moment
    try:
        if os.path.lexists(path):
            os.unlink(path)  # a daemon that was killed left it
        # Through a descriptor if the path is longer than the address of a socket may be.
        bound.bind(path if len(os.fsencode(path)) <= _LONGEST_ADDRESS else f"/proc/self/fd/{holder}/{DAEMON_SOCKET}")
        bound.listen(BACKLOG)
    except OSError as error:
        bound.close()
        remedy = "look at the state directory, or name another one with --state-dir"
        raise StateError(f"cannot listen on {path}: {error.strerror}", remedy=remedy) from None
    finally:
        os.umask(before)
        os.close(holder)
    return bound


def _bind_tcp(address: str, config: Config) -> socket.socket:
    host, _, port = address.rpartition(":")
    try:
        family, _, _, _, place = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise ConfigError(f"cannot listen on {address}: {error.strerror}", name="listen") from None
    is_plain = config.tls_cert is None and not config.insecure_plain_tcp
    if is_plain and not _is_loopback(str(place[0])):
        remedy = (
            "give it a certificate (--tls-cert, --tls-key), or use 127.0.0.1 or [::1]; --insecure-plain-tcp sends "
            "the token and the output as they are"
        )
        raise ConfigError(f"{address} is not a loopback address, and there is no TLS", name="listen", remedy=remedy)
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(place)
        bound.listen(BACKLOG)
    except OSError as error:
        bound.close()
        remedy = "is another daemon there? choose another port"
        raise ConfigError(f"cannot listen on {address}: {error.strerror}", name="listen", remedy=remedy) from None
    return bound


def _is_loopback(host: str) -> bool:
    from ipaddress import ip_address

    return ip_address(host.partition("%")[0]).is_loopback


def _client_bounds(config: Config) -> ClientBounds:
    return ClientBounds(config.client_connections, config.client_rate, config.stranger_rate, config.client_bytes)


def _tls_of(config: Config, log: Log) -> ServerTls | None:
    if config.tls_cert is None:
        if config.tls_key is not None or config.tls_ca is not None:
            raise ConfigError("there is a TLS key or authority, and no certificate", name="tls_cert")
        return None
    files = TlsFiles(config.tls_cert, config.tls_key or config.tls_cert, config.tls_ca)
    return ServerTls(files, log.info, log.warning)


def _url(scheme: str, bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
