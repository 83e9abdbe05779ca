"""The search for a line in the output of a run, as the output comes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..journal.reader import JournalReader

if TYPE_CHECKING:
    from ..journal.reader import Chunk

_AT_ONCE = 1 << 20
_LONGEST_LINE = 16384  # of a longer line only this much is looked at in one piece
_CONTROL = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[@-_]")  # colours and the like, which would hide words


class LogSearch:
    """Searches the output for a line that matches, from the beginning. A line that was found stays found.

    The last line counts before its end is written: a prompt has none.
    """

    def __init__(self, pattern: str, journal: int, run_id: str) -> None:
        self._pattern = re.compile(pattern)
        self._reader = JournalReader(journal, run_id=run_id)
        self._unfinished: dict[str, bytes] = {}
        self._found = False

    def is_found(self) -> bool:
        """Whether a line has matched; reads what is new. JournalError: the journal cannot be read."""
        while not self._found and (chunks := self._reader.read(_AT_ONCE)):
            self._found = any(self._matches(chunk) for chunk in chunks if not chunk.late)
        return self._found

    def _matches(self, chunk: Chunk) -> bool:
        lines = (self._unfinished.pop(chunk.stream, b"") + chunk.data).split(b"\n")
        self._unfinished[chunk.stream] = lines[-1][-_LONGEST_LINE:]
        return any(self._pattern.search(_plain(line)) for line in lines)


def _plain(line: bytes) -> str:
    return _CONTROL.sub(b"", line[:_LONGEST_LINE]).rstrip(b"\r").decode("utf-8", "replace")
