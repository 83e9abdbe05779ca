"""The TLS files of a server: which are refused, and what a renewal does."""

from __future__ import annotations

import os
import shutil
import ssl
from typing import TYPE_CHECKING

import pytest

from holdfast.values.errors import ConfigError
from holdfast.web.tls import ServerTls, TlsFiles, load

from ..support.certificates import Authority, Certificate
from ..support.unprivileged import NOBODY

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "certificates")


@pytest.fixture
def made(authority: Authority) -> Certificate:
    return authority.issue("server")


def refusal(files: TlsFiles) -> str:
    with pytest.raises(ConfigError) as raised:
        load(files)
    return str(raised.value)


def test_a_context_speaks_tls_1_2_or_newer_and_asks_nobody_for_a_certificate(made: Certificate) -> None:
    context = load(TlsFiles(*made.pair))
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert context.verify_mode == ssl.CERT_NONE


def test_with_an_authority_a_certificate_is_required(authority: Authority, made: Certificate) -> None:
    assert load(TlsFiles(*made.pair, str(authority.ca))).verify_mode == ssl.CERT_REQUIRED


def test_certificate_and_key_may_be_in_one_file(tmp_path: Path, made: Certificate) -> None:
    both = tmp_path / "both.pem"
    both.write_bytes(made.cert.read_bytes() + made.key.read_bytes())
    both.chmod(0o600)
    load(TlsFiles(str(both), str(both)))
    both.chmod(0o644)
    assert "others may read this key" in refusal(TlsFiles(str(both), str(both)))


@pytest.mark.parametrize("mode", [0o604, 0o644, 0o666, 0o602])
def test_a_key_that_others_can_use_is_refused(made: Certificate, mode: int) -> None:
    load(TlsFiles(*made.pair))  # control: as it was made, it is taken
    made.key.chmod(mode)
    assert "others may" in refusal(TlsFiles(*made.pair))


@pytest.mark.root
def test_a_key_for_a_group_must_belong_to_root(made: Certificate) -> None:
    made.key.chmod(0o640)
    load(TlsFiles(*made.pair))
    os.chown(made.key, NOBODY, -1)
    assert "it belongs to user" in refusal(TlsFiles(*made.pair))


@pytest.mark.parametrize("which", [0, 2])
def test_a_certificate_or_authority_that_others_can_write_is_refused(
    authority: Authority, made: Certificate, which: int
) -> None:
    files = TlsFiles(*made.pair, str(authority.ca))
    os.chmod(files[which] or "", 0o664)
    assert "others may write to it" in refusal(files)


def test_files_that_cannot_be_used_are_named(tmp_path: Path, authority: Authority, made: Certificate) -> None:
    other = authority.issue("other")
    assert "key values mismatch" in refusal(TlsFiles(made.pair[0], other.pair[1]))
    assert "No such file" in refusal(TlsFiles(str(tmp_path / "none.pem"), made.pair[1]))
    assert "it is no file" in refusal(TlsFiles(str(tmp_path), made.pair[1]))
    text = tmp_path / "text.pem"
    text.write_text("this is no certificate\n")
    text.chmod(0o600)
    assert str(text) in refusal(TlsFiles(str(text), str(text)))
    assert str(text) in refusal(TlsFiles(*made.pair, str(text)))


def test_an_encrypted_key_is_refused_and_nobody_is_asked(tmp_path: Path, made: Certificate) -> None:
    import subprocess

    locked = tmp_path / "locked.key"
    words = ["openssl", "pkcs8", "-topk8", "-in", made.pair[1], "-out", str(locked), "-passout", "pass:secret"]
    subprocess.run(words, check=True, capture_output=True)
    locked.chmod(0o600)
    assert "the key is encrypted" in refusal(TlsFiles(made.pair[0], str(locked)))


class Renewal:
    """A server's files, which a test replaces, and what was said about them."""

    def __init__(self, directory: Path, first: Certificate) -> None:
        self.live = Certificate(directory / "live.pem", directory / "live.key")
        self.notes: list[str] = []
        self.warnings: list[str] = []
        self.put(first)
        self.tls = ServerTls(TlsFiles(*self.live.pair), self.notes.append, self.warnings.append)

    def put(self, made: Certificate, *, with_key: bool = True) -> None:
        """Replace the files, as a renewal does."""
        pairs = ((made.cert, self.live.cert), (made.key, self.live.key))
        for source, target in pairs if with_key else pairs[:1]:
            shutil.copy2(source, target.with_suffix(".new"))
            os.replace(target.with_suffix(".new"), target)


def test_a_renewed_certificate_is_read_and_a_half_renewed_one_is_not(tmp_path: Path, authority: Authority) -> None:
    old, new = authority.issue("old"), authority.issue("new")
    renewal = Renewal(tmp_path, old)
    before = renewal.tls.context()
    renewal.tls.refresh()
    assert renewal.tls.context() is before  # control: nothing has changed, nothing is read
    renewal.put(new, with_key=False)
    renewal.tls.refresh()
    assert renewal.tls.context() is before
    assert ["the old certificate stays in use" in line for line in renewal.warnings] == [True]
    renewal.tls.refresh()
    assert len(renewal.warnings) == 1  # once for each change
    renewal.put(new)
    renewal.tls.refresh()
    assert renewal.tls.context() is not before
    assert len(renewal.notes) == 1
