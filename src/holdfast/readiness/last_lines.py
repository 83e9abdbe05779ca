"""The last lines that a run has written, for the message about a run that ended before it was ready."""

from __future__ import annotations

import os

from ..journal.reader import JournalReader
from ..values.errors import JournalError

_LINES = 10
_BYTES = 8192


def last_lines(journal: int) -> list[str]:
    """The last ten lines of both streams, in the order of writing, from this descriptor, which is then closed."""
    reader, data = JournalReader(journal), b""
    try:
        while chunks := reader.read(1 << 20):
            data = (data + b"".join(chunk.data for chunk in chunks))[-_BYTES:]
    except JournalError:
        pass  # the outcome is told all the same
    finally:
        os.close(journal)
    return data.decode("utf-8", "replace").splitlines()[-_LINES:]
