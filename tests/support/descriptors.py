"""A process that runs out of descriptors at a chosen moment."""

from __future__ import annotations

import os
import resource
from contextlib import contextmanager
from typing import TYPE_CHECKING

from .leftovers import open_descriptors

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def room_for(descriptors: int) -> Iterator[None]:
    """Leave this process exactly this many more descriptors."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    fillers = []
    highest = max(open_descriptors())
    while (filler := os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)) < highest:
        fillers.append(filler)  # no holes below: the limit is on the number, not on the count
    os.close(filler)
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1 + descriptors, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        for filler in fillers:
            os.close(filler)
