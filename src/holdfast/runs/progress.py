"""Progress of a live run, for a user interface: how long it runs, and how much it has written."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple, Protocol

import anyio

from ..values.durations import parse_duration

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from typing import Any

    from ..outcome import Outcome
    from ..values.fields import Duration


class Progress(NamedTuple):
    """A run at one moment. `elapsed_s` counts from the start of the command, and stands still after the verdict."""

    state: str
    elapsed_s: float
    stdout_bytes: int | None  # None: the stream is the caller's own, and nobody counts it
    stderr_bytes: int | None


class _Followed(Protocol):
    """What is asked of a run here."""

    @property
    def outcome(self) -> Outcome: ...

    @property
    def report(self) -> Mapping[str, Any]: ...

    async def settled(self) -> Mapping[str, Any]: ...


async def progress_of(run: _Followed, every: Duration) -> AsyncIterator[Progress]:
    """The progress at once, then after each interval, and a last time when the run is settled."""
    pause_s = parse_duration(every, field="every")
    while (now := _look_at(run)).state != "settled":
        yield now
        with anyio.move_on_after(pause_s):
            await run.settled()
    yield now


def _look_at(run: _Followed) -> Progress:
    report, outcome = run.report, run.outcome
    until_ns = time.monotonic_ns() if outcome.decided_by is None else outcome.decided_by.at_ns
    elapsed_s = 0.0 if outcome.started is None else max(0.0, (until_ns - outcome.started.at_ns) / 1e9)
    output = report["output"]
    return Progress(outcome.state, elapsed_s, output["stdout_bytes"], output["stderr_bytes"])
