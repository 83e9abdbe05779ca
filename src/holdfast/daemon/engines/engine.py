"""The engine that starts and adopts runs for the daemon; `LocalEngine` does it with this host's supervisor.

The interface is small on purpose: start, adopt, and the requests that a live run takes. An engine starts a run of a
given id at most once: a second start of the same id is a RunExistsError. `tests/daemon/engines/contract.py` holds what
every engine promises.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ...values.errors import ResourceError, SpecError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...outcome import Outcome
    from ...proc.input_wait import Stdin
    from ...proc.run_tree import RunTree
    from ...runs.supervisor import Supervisor
    from ...values.spec import RunSpec


class NoRoomError(ResourceError):
    """No host takes the run now, and nothing of it was started: it stays queued, and the message says why."""


class Needs(NamedTuple):
    """What a run needs of its host. `host` is a node id, a host name or an address."""

    cpus: float = 0.0
    gpus: float = 0.0
    resources: Mapping[str, float] = {}
    node_labels: Mapping[str, str] = {}
    host: str | None = None
    no_wait: bool = False  # refuse the run at once if no host can take it, instead of queueing it


NO_NEEDS = Needs()


class EngineRun(Protocol):
    """A run that was started: `holdfast.Run` is one."""

    run_id: str

    @property
    def outcome(self) -> Outcome: ...
    @property
    def settle_bound_s(self) -> float: ...
    @property
    def report(self) -> Mapping[str, Any]: ...
    @property
    def takes_input(self) -> bool: ...
    @property
    def input(self) -> Stdin: ...
    @property
    def tree(self) -> RunTree: ...
    async def wait(self) -> Outcome: ...
    async def settled(self) -> Mapping[str, Any]: ...
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

    name: str

    async def check(self, needs: Needs) -> None:
        """Look at the needs of a posted run. SpecError: no run can have them. NoRoomError: `no_wait`, and no room."""
        ...

    async def start(self, spec: RunSpec, needs: Needs) -> EngineRun:
        """Start a run. RunExistsError, SessionClosedError, ResourceError, GuardError, StateError: nothing is left.

        NoRoomError: the same, and a later try may succeed.
        """
        ...

    async def hosts(self) -> list[dict[str, Any]]:
        """The hosts on which runs can start, or were lost: their names, loads and leases."""
        ...

    async def adopt(self, run_id: str) -> EngineRun:
        """Follow a run that was started before, or read a run that is over. RunNotFoundError, JournalError."""
        ...


class LocalEngine:
    """Runs on this host, started by a supervisor that stays open while the engine is used."""

    name = "local"

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor

    async def check(self, needs: Needs) -> None:
        """As Engine.check: there is one host, and nothing to choose."""
        if needs._replace(no_wait=False) != NO_NEEDS:
            field = next(name for name, value in needs._asdict().items() if value)
            remedy = "leave it out, or let the daemon place runs on several hosts (holdfast serve --engine ray)"
            raise SpecError(f"{field} chooses a host, and this daemon has only its own", field=field, remedy=remedy)

    async def start(self, spec: RunSpec, needs: Needs) -> EngineRun:  # noqa: ARG002 - checked when it was posted
        """As Engine.start."""
        return await self._supervisor.start_spec(spec)

    async def hosts(self) -> list[dict[str, Any]]:
        """As Engine.hosts: this host."""
        resources = {"CPU": float(os.cpu_count() or 1)}
        runs = [run.run_id for run in self._supervisor.runs]
        return [host_entry(os.uname().nodename, "alive", resources=resources, live=len(runs), runs=runs)]

    async def adopt(self, run_id: str) -> EngineRun:
        """As Engine.adopt."""
        return await self._supervisor.adopt(run_id)


def host_entry(host: str, state: str, **known: Any) -> dict[str, Any]:
    """One entry of `Engine.hosts`; what is not known is null."""
    return {
        "host": host,
        "node_id": None,
        "address": None,
        "state": state,
        "problem": None,
        "version": None,
        "resources": {},
        "labels": {},
        "slots": None,
        "live": None,
        "lease_s": None,
        "lease_left_s": None,
        "epoch": None,
        "runs": [],
        **known,
    }
