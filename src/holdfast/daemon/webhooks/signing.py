"""Signatures of webhook posts, in the form of Standard Webhooks, for which receivers find libraries.

The secret is `whsec_` and base64, or any text; the signature is HMAC-SHA256 over `ID.TIMESTAMP.BODY`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import secrets

from ...state.directory import state_error
from ...state.owned_files import write_atomically
from ...values.errors import StateError

_PREFIX = "whsec_"
_BYTES = 32
_FEWEST = 16


def load_secret(path: str) -> bytes:
    """The secret in this file, made if it is missing. StateError: it cannot be read or made, or is no secret."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            text = file.read(1024)
            mode = os.fstat(file.fileno()).st_mode
    except FileNotFoundError:
        return _make(path)
    except OSError as error:
        raise state_error(error, path) from None
    if mode & 0o077:
        raise StateError(f"others may read the webhook secret {path}", remedy="chmod 600 it, or remove it")
    return decode(text.strip(), path)


def decode(text: str, where: str) -> bytes:
    """The bytes of a secret in its text form: `whsec_` and base64, or any other text. StateError: it is too short."""
    if not text.startswith(_PREFIX):
        secret = text.encode()
    else:
        try:
            secret = base64.b64decode(text.removeprefix(_PREFIX), validate=True)
        except (binascii.Error, ValueError):
            secret = b""
    if len(secret) < _FEWEST:
        raise StateError(
            f"{where} holds no webhook secret",
            remedy=f"it is {_PREFIX} and the base64 of {_FEWEST} bytes or more, or any text as long; or leave it out",
        )
    return secret


def _make(path: str) -> bytes:
    secret = secrets.token_bytes(_BYTES)
    try:
        write_atomically(path, f"{_PREFIX}{base64.b64encode(secret).decode()}\n".encode())
    except OSError as error:
        raise state_error(error, path) from None
    return secret


def sign(secret: bytes, delivery_id: str, timestamp: int, body: bytes) -> str:
    """The value of the header `webhook-signature`."""
    signed = b"%s.%d.%s" % (delivery_id.encode(), timestamp, body)
    return "v1," + base64.b64encode(hmac.digest(secret, signed, hashlib.sha256)).decode()
