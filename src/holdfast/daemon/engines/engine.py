"""The engine that starts and adopts runs for the daemon; `LocalEngine` does it with this host's supervisor.

The interface is small on purpose: start, adopt, and the requests that a live run takes. An engine starts a run of a
given id at most once: a second start of the same id is a RunExistsError.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from ...outcome import Outcome
    from ...proc.input_wait import Stdin
    from ...runs.supervisor import Supervisor
    from ...values.spec import RunSpec


class EngineRun(Protocol):
    """A run that was started: `holdfast.Run` is one."""

    run_id: str

    @property
    def outcome(self) -> Outcome: ...
    @property
    def settle_bound_s(self) -> float: ...
    @property
    def report(self) -> dict[str, Any]: ...
    @property
    def takes_input(self) -> bool: ...
    @property
    def input(self) -> Stdin: ...
    async def wait(self) -> Outcome: ...
    async def settled(self) -> dict[str, Any]: ...
    async def started(self) -> None: ...
    async def more_output(self, seen: int) -> bool: ...
    async def cancel(
        self, reason: str = "", *, cause: str = "user", now: bool = False, grace: float | None = None
    ) -> None: ...
    async def extend(self, seconds: float) -> None: ...
    async def signal(self, signal: str | int, *, tree: bool = False) -> None: ...
    async def write_stdin(self, data: bytes) -> bool: ...
    async def close_stdin(self) -> None: ...
    async def resize(self, rows: int, columns: int) -> None: ...
    def close(self) -> None: ...


class Engine(Protocol):
    """Starts runs, and adopts runs that were started before."""

    async def start(self, spec: RunSpec) -> EngineRun:
        """Start a run. RunExistsError, SessionClosedError, ResourceError, GuardError, StateError: nothing is left."""
        ...

    async def adopt(self, run_id: str) -> EngineRun:
        """Follow a run that was started before, or read a run that is over. RunNotFoundError, JournalError."""
        ...


class LocalEngine:
    """Runs on this host, started by a supervisor that stays open while the engine is used."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor

    async def start(self, spec: RunSpec) -> EngineRun:
        """As Engine.start."""
        return await self._supervisor.start_spec(spec)

    async def adopt(self, run_id: str) -> EngineRun:
        """As Engine.adopt."""
        return await self._supervisor.adopt(run_id)
