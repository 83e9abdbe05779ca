"""The names of sessions as names of files."""

from __future__ import annotations

from ..values.errors import SpecError

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")
_LONGEST = 200  # a file name has 255 bytes, and a temporary one needs room for its ending
_KEPT = 150
BUDGET_ENDING = ".budget"  # of the file beside the mark that has the budget of the session


def file_name(session: str) -> str:
    """The file name of the session's mark: percent-encoded, and when that is too long, shortened with a digest."""
    # Dots and tildes are encoded, too: so no mark is a hidden file, and `~` can separate the digest.
    encoded = "".join(
        character if character in _PLAIN else "".join(f"%{byte:02X}" for byte in character.encode())
        for character in session
    )
    if not encoded:
        raise SpecError("the session has no name", field="session", remedy="give the name it was started with")
    if len(encoded) <= _LONGEST:
        return encoded
    from hashlib import sha256

    return f"{encoded[:_KEPT]}~{sha256(session.encode()).hexdigest()[:32]}"
