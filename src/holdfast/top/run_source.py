"""The source of the runs that `top` shows: a protocol, kept by directory_source.py and daemon_source.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

Report = dict[str, Any]
MOST_LIVE = 1000
MOST_ENDED = 200
TAIL_BYTES = 64 << 10


class Snapshot(NamedTuple):
    """The runs as they are now, newest first; `note` tells the user about the source, such as a daemon that left."""

    runs: list[Report]
    note: str = ""


class LogTail(NamedTuple):
    """The last output of a run; `cut` is True when there is older output."""

    data: bytes
    cut: bool


class RunSource(Protocol):
    """Runs to read and requests to send. Every method may raise HoldfastError; `top` shows it and goes on."""

    where: str

    async def runs(self) -> Snapshot:
        """The live runs, and the runs that ended last."""
        ...

    def changes(self) -> AsyncGenerator[None, None]:
        """Yield whenever the runs should be read again; never end."""
        ...

    async def tail(self, run_id: str) -> LogTail:
        """The last output of a run; empty when it has none yet."""
        ...

    def output_changes(self, run_id: str) -> AsyncGenerator[None, None]:
        """Yield whenever the run may have new output; never end."""
        ...

    async def cancel(self, run_id: str, *, now: bool) -> None:
        """Ask a run to end; return when the request is on record."""
        ...

    async def extend(self, run_id: str, seconds: float) -> None:
        """Move the deadline of a run."""
        ...

    async def close(self) -> None:
        """Close files, connections and threads."""
        ...
