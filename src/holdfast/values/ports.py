"""TCP port numbers as people write them."""

from __future__ import annotations

from .errors import SpecError

LARGEST_PORT = 65535


def parse_port(text: str, *, field: str) -> int:
    """The port that this text names. SpecError: it is not a number from 1 to 65535."""
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and 1 <= int(text) <= LARGEST_PORT):
        raise SpecError(f"{field} {text[:40]!r} is not a port", field=field, remedy="give a number from 1 to 65535")
    return int(text)
