"""Drive one run by hand, below the library's surface, for tests that need their own journal or their own moment."""

from __future__ import annotations

import select
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast import Result
    from holdfast.runs.live import LiveRun

_BOUND_MS = 60_000


def settle(live: LiveRun) -> Result:
    """Wait for the end of a run and free all its resources. AssertionError if it does not end."""
    poll = select.poll()
    poll.register(live.control.fileno(), select.POLLIN)
    try:
        while not live.ended:
            assert poll.poll(_BOUND_MS), "the run does not end"
            live.on_readable()
            assert not live.guard_lost, "the guard died"
        live.reap(wait=True)
        return live.result()
    finally:
        live.close()
