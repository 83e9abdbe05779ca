"""TLS of a server: certificate, key, and the authority of client certificates, read again when a file changes.

Certificates are renewed every few weeks, and a daemon lives longer than that. So every new connection may find a new
certificate, and a connection that is open keeps the old one. A renewal replaces two files, one after the other: between
the two they do not fit together, and the old pair stays in use.

The key proves to every client that the server is ours, so nobody else may be able to read its file. A client
certificate says that the authority vouches for the client. It is asked for in addition to the token, and before it:
without one, a stranger never sees a byte of HTTP.
"""

from __future__ import annotations

import os
import ssl
import stat
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

from ..values.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

_LOOK_S = 1.0


class TlsFiles(NamedTuple):
    """The files in PEM: the certificate with its chain, its key, and the authority that signs client certificates."""

    cert: str
    key: str
    ca: str | None = None


class ServerTls:
    """The TLS context for new connections. ConfigError: a file cannot be used."""

    def __init__(self, files: TlsFiles, note: Callable[[str], None], warn: Callable[[str], None]) -> None:
        """`note` and `warn` get a sentence when the files were read again, and when they could not be used."""
        self._files = files
        self._note = note
        self._warn = warn
        self._seen = _stamps(files)
        self._context = load(files)
        self._look_at = time.monotonic() + _LOOK_S

    def context(self) -> ssl.SSLContext:
        """The context for a new connection; looks at the files once a second at most."""
        if time.monotonic() >= self._look_at:
            self.refresh()
        return self._context

    def refresh(self) -> None:
        """Read the files again if one of them has changed; files that cannot be used leave everything as it is."""
        self._look_at = time.monotonic() + _LOOK_S
        stamps = _stamps(self._files)  # before they are read: a change in between is seen the next time
        if stamps == self._seen:
            return
        self._seen = stamps
        try:
            self._context = load(self._files)
        except ConfigError as error:
            self._warn(f"the old certificate stays in use: {error}")
        else:
            self._note("the TLS certificate was read again")


def load(files: TlsFiles) -> ssl.SSLContext:
    """Make the context for these files. ConfigError: a file is missing, not PEM, or open to others."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    with ExitStack() as closing:
        cert = _checked(closing, files.cert, is_key=files.key == files.cert)
        key = cert if files.key == files.cert else _checked(closing, files.key, is_key=True)
        _try(files.key, lambda: context.load_cert_chain(cert, key, _no_password(files.key)))
        if files.ca is not None:
            authority = _checked(closing, files.ca, is_key=False)
            _try(files.ca, lambda: context.load_verify_locations(authority))
            context.verify_mode = ssl.CERT_REQUIRED
    return context


def _checked(closing: ExitStack, path: str, *, is_key: bool) -> str:
    """Open a file and check who else can use it; returns a path to the very file that was checked."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise ConfigError(f"{path}: it cannot be read: {error.strerror}", file=path) from None
    closing.callback(os.close, fd)
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode):
        raise ConfigError(f"{path}: it is no file", file=path, remedy="name a file in PEM")
    if found.st_uid not in (os.geteuid(), 0):
        remedy = "make a copy that is yours"
        raise ConfigError(f"{path}: it belongs to user {found.st_uid}", file=path, remedy=remedy)
    if found.st_mode & 0o022:
        raise ConfigError(f"{path}: others may write to it", file=path, remedy=f"look at it, then chmod go-w {path}")
    # A key that root keeps for a group of servers has the mode 0640.
    if is_key and found.st_mode & (0o007 if found.st_uid == 0 else 0o077):
        remedy = f"chmod 600 {path}; if others may have read it, make a new key"
        raise ConfigError(f"{path}: others may read this key", file=path, remedy=remedy)
    return f"/proc/self/fd/{fd}"


def _try(path: str, act: Callable[[], None]) -> None:
    try:
        act()
    except ssl.SSLError as error:
        what = (error.reason or str(error)).lower().replace("_", " ")
        remedy = "name a certificate in PEM, its chain behind it, and the key that belongs to it"
        raise ConfigError(f"{path}: it cannot be used: {what}", file=path, remedy=remedy) from None
    except OSError as error:
        raise ConfigError(f"{path}: it cannot be read: {error.strerror}", file=path) from None


def _no_password(path: str) -> Callable[[], str]:
    def ask() -> str:  # OpenSSL would ask on the terminal
        raise ConfigError(f"{path}: the key is encrypted", file=path, remedy="store it without a passphrase, mode 600")

    return ask


def _stamps(files: TlsFiles) -> tuple[tuple[int, ...], ...]:
    return tuple(_stamp(path) for path in files if path is not None)


def _stamp(path: str) -> tuple[int, ...]:
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_mode, found.st_uid
