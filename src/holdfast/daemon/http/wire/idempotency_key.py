"""Idempotency-Key of a request: the same key with the same body gives the same run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....web.problems import INVALID, ProblemError

if TYPE_CHECKING:
    from starlette.requests import Request

LONGEST_KEY = 255


def idempotency_key(request: Request) -> str | None:
    """The Idempotency-Key header; None when there is none. ProblemError: it is empty, too long or not printable."""
    key: str | None = request.headers.get("idempotency-key")
    if key is not None and not (1 <= len(key) <= LONGEST_KEY and key.isascii() and key.isprintable()):
        remedy = f"use 1 to {LONGEST_KEY} printable ASCII characters"
        raise ProblemError(INVALID, "the Idempotency-Key is not usable", field="Idempotency-Key", remedy=remedy)
    return key
