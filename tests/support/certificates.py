"""Certificates for tests of TLS: an authority made by the command `openssl`, and what it signs."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")


class Certificate(NamedTuple):
    """The files of a certificate and its key."""

    cert: Path
    key: Path

    @property
    def pair(self) -> tuple[str, str]:
        """Both paths as text."""
        return str(self.cert), str(self.key)


class Authority:
    """An authority with files in a directory; `ca` is its own certificate."""

    def __init__(self, directory: Path, name: str = "authority") -> None:
        directory.mkdir(exist_ok=True)
        self._directory = directory
        self._own = self._files(name)
        self._make(self._own, name, "-addext", "basicConstraints=critical,CA:TRUE")
        self.ca = self._own.cert

    def issue(self, name: str, *, names: str = "IP:127.0.0.1,DNS:localhost") -> Certificate:
        """A certificate for this name; the file of its key is for its owner only."""
        made = self._files(name)
        signed_by = ("-CA", str(self._own.cert), "-CAkey", str(self._own.key))
        plain = ("-addext", "basicConstraints=critical,CA:FALSE", "-addext", f"subjectAltName={names}")
        self._make(made, name, *signed_by, *plain)
        return made

    def _files(self, name: str) -> Certificate:
        return Certificate(self._directory / f"{name}.pem", self._directory / f"{name}.key")

    def _make(self, files: Certificate, name: str, *words: str) -> None:
        paths = ("-keyout", str(files.key), "-out", str(files.cert), "-subj", f"/CN={name}")
        subprocess.run(["openssl", "req", "-x509", *_NEW_KEY, *paths, *words], check=True, capture_output=True)
        files.key.chmod(0o600)
