"""The daemon's health: its state, how many runs it has, and what the doctor finds."""

from __future__ import annotations

import asyncio
import os
import time
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from ...values.timestamps import format_timestamp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ...config import Config
    from ...doctor.finding import Diagnosis, PlannedRepair, RepairResult
    from ...state.directory import StateDirectory
    from ..queue.intake import Intake
    from ..queue.scheduler import Scheduler
    from .input_watch import InputWatch

_STATES = ("queued", "starting", "running", "stopping")
_VERSION = version("holdfast")


class DaemonHealth:
    """What the daemon says about itself."""

    def __init__(
        self,
        state: StateDirectory,
        scheduler: Scheduler,
        intake: Intake,
        input_watch: InputWatch,
        settings: Callable[[], Config],
    ) -> None:
        self.started_at = format_timestamp(time.time_ns())
        self._state = state
        self._scheduler = scheduler
        self._intake = intake
        self._input_watch = input_watch
        self._settings = settings
        self._shortages: list[Callable[[], Iterable[str]]] = [scheduler.shortages]

    def watch(self, shortages: Callable[[], Iterable[str]]) -> None:
        """Let this function say what the daemon is short of; while it says anything, the daemon is degraded."""
        self._shortages.append(shortages)

    @property
    def draining(self) -> bool:
        """Whether the daemon takes no more runs because it is shutting down."""
        return self._intake.is_closed

    def show(self) -> dict[str, Any]:
        """`status` (ok, degraded, draining), `reasons` (why it is degraded), `version`, `pid`, `started_at`, `runs` (as
        `counts`); never fails."""
        reasons = [reason for shortages in self._shortages for reason in shortages()]
        return {
            "status": "draining" if self.draining else "degraded" if reasons else "ok",
            "reasons": reasons,
            "version": _VERSION,
            "pid": os.getpid(),
            "started_at": self.started_at,
            "runs": self.counts(),
        }

    def counts(self) -> dict[str, int]:
        """How many runs are `queued`, `starting`, `running`, `stopping`; how many of them are `waiting_for_input`; and
        the bounds `max_runs`, `queue_limit`."""
        found = dict.fromkeys(_STATES, 0)
        for scheduled in self._scheduler.runs.values():
            if scheduled.managed and scheduled.state in found:
                found[scheduled.state] += 1
        found["waiting_for_input"] = self._input_watch.count()
        config = self._settings()
        return {**found, "max_runs": config.max_runs, "queue_limit": config.queue_limit}

    async def examine(self) -> Diagnosis:
        """What the doctor finds in the state directory."""
        from ...doctor import examine

        return await asyncio.to_thread(examine, self._state.path, trial=False)

    async def repair(self, repairs: Sequence[PlannedRepair]) -> list[RepairResult]:
        """Carry out repairs that `examine` has proposed."""
        from ...doctor import carry_out

        return await asyncio.to_thread(carry_out, self._state, repairs)

    async def doctor(self) -> dict[str, Any]:
        """What `holdfast doctor --json` says, and the daemon's own state."""
        found = await self.examine()
        return {
            "healthy": found.healthy,
            "findings": [finding.as_dict() for finding in found.findings],
            "repairs": [repair.as_dict() for repair in found.repairs],
            "daemon": self.show(),
        }
