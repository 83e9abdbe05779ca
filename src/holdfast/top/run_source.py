"""Where `top` gets what it shows from: a small protocol, and two who keep it (directory.py, daemon.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

Report = dict[str, Any]
MOST_LIVE = 1000
MOST_ENDED = 200
TAIL_BYTES = 64 << 10


class Snapshot(NamedTuple):
    """The runs as they are now, newest first; `note` is what people should know about where this comes from."""

    runs: list[Report]
    note: str = ""


class LogTail(NamedTuple):
    """The end of what a run wrote; `cut`: there is more before it."""

    data: bytes
    cut: bool


class RunSource(Protocol):
    """What can be seen and asked. Every method may raise HoldfastError, which is shown and does not end anything."""

    where: str

    async def runs(self) -> Snapshot:
        """Live runs, and those that ended last."""
        ...

    def changes(self) -> AsyncGenerator[None, None]:
        """An item whenever the runs should be looked at again; without an end."""
        ...

    async def tail(self, run_id: str) -> LogTail:
        """The end of its output. Empty when it has none yet."""
        ...

    def output_changes(self, run_id: str) -> AsyncGenerator[None, None]:
        """An item whenever it may have written something; without an end."""
        ...

    async def cancel(self, run_id: str, *, now: bool) -> None:
        """Ask it to end; returns when that is on record."""
        ...

    async def extend(self, run_id: str, seconds: float) -> None:
        """Move its deadline."""
        ...

    async def close(self) -> None:
        """Let go of everything."""
        ...
