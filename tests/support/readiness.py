"""Wait for the line in which a child says that it is in position, and read the names in it."""

from __future__ import annotations

import os
import select
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast import Run

_BOUND_S = 60.0


def names_in(output: bytes, word: str = "ready") -> dict[str, int]:
    """The `name=number` pairs of the first line that begins with `word`. AssertionError if there is none."""
    for line in output.splitlines():
        first, *pairs = line.decode(errors="replace").split(" ")
        if first == word:
            return {name: int(value) for name, _, value in (pair.partition("=") for pair in pairs)}
    raise AssertionError(f"no line begins with {word!r} in {output[:2000]!r}")


def read_ready(fd: int) -> dict[str, int]:
    """Read a descriptor until the whole ready line is there; for children that were started without Holdfast."""
    seen = b""
    end = time.monotonic() + _BOUND_S
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    while not is_ready(seen):
        if not poll.poll(max(0.0, end - time.monotonic()) * 1000):
            raise AssertionError(f"not ready after {_BOUND_S} s: {seen[:2000]!r}")
        part = os.read(fd, 65536)
        if not part:
            raise AssertionError(f"ended before it was ready: {seen[:2000]!r}")
        seen += part
    return names_in(seen)


async def until_ready(run: Run) -> dict[str, int]:
    """Follow a supervised run's output until its ready line."""
    seen = b""
    async for chunk in run.output():
        seen += chunk.data
        if is_ready(seen):
            return names_in(seen)
    raise AssertionError(f"ended before it was ready: {seen[:2000]!r}")


def is_ready(output: bytes) -> bool:
    """Whether a complete line of it begins with `ready`."""
    return any(line.startswith(b"ready") and line.endswith(b"\n") for line in output.splitlines(keepends=True))
