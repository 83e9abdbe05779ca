"""Bytes to lines, as they arrive in pieces, with a bound on what one line may take."""

from __future__ import annotations

LONGEST_LINE = 8 << 20


class LineSplitter:
    """Feed it bytes and get the lines that are complete; None stands for one that was too long and is not kept."""

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._longest = longest
        self._begun = bytearray()
        self._is_skipping = False

    def feed(self, data: bytes) -> list[bytes | None]:
        """The lines these bytes complete, without their line ends."""
        found: list[bytes | None] = []
        *complete, rest = data.split(b"\n")
        for piece in complete:
            self._add(piece)
            found.append(None if self._is_skipping else bytes(self._begun).removesuffix(b"\r"))
            self._begun.clear()
            self._is_skipping = False
        self._add(rest)
        return found

    @property
    def is_begun(self) -> bool:
        """Whether there is the beginning of a line whose end has not come."""
        return bool(self._begun) or self._is_skipping

    def _add(self, piece: bytes) -> None:
        if len(self._begun) + len(piece) > self._longest:
            self._is_skipping = True
            self._begun.clear()
        if not self._is_skipping:
            self._begun += piece
