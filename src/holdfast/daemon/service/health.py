"""The daemon's health: its state, how many runs it has, and what the doctor finds."""

from __future__ import annotations

import asyncio
import os
import time
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from ...values.errors import HoldfastError
from ...values.timestamps import format_timestamp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ...config import Config
    from ...doctor.finding import Diagnosis, DoctorFinding, PlannedRepair, RepairResult
    from ...state.directory import StateDirectory
    from ..queue.intake import Intake
    from ..queue.scheduled_run import ScheduledRun
    from ..queue.scheduler import Scheduler
    from .input_watch import InputWatch

_STATES = ("queued", "starting", "running", "stopping")
_VERSION = version("holdfast")


def _host_finding(host: dict[str, Any]) -> DoctorFinding | None:
    """What the doctor says about a host of the cluster; None for this host, which it examines itself."""
    from ...doctor.finding import OK, PROBLEM, DoctorFinding

    if host["node_id"] is None:
        return None
    name = f"{host['host']} (node {host['node_id'][:12]})"
    if host["state"] != "alive":
        remedy = "look at that host; `ray status` shows what the cluster knows"
        return DoctorFinding(PROBLEM, "host", f"{name} takes no runs: {host['problem']}", remedy=remedy)
    if not host["lease_left_s"]:
        remedy = "the host has no contact with the cluster's store: look at its network"
        return DoctorFinding(PROBLEM, "host", f"the lease of {name} is over: it takes no runs", remedy=remedy)
    return DoctorFinding(OK, "host", f"{name}: {host['live']} live runs, lease {host['lease_left_s']:.0f} s")


def _is_of(scheduled: ScheduledRun, session: str) -> bool:
    try:
        return scheduled.session == session
    except HoldfastError:
        return False  # nobody can say whose it is


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
        self._shortages: list[Callable[[], Iterable[str]]] = []
        self._start_shortages: list[Callable[[], Iterable[str]]] = []
        self.watch(scheduler.shortages, stops_runs=True)

    def watch(self, shortages: Callable[[], Iterable[str]], *, stops_runs: bool) -> None:
        """Let this function say what the daemon is short of; while it says anything, the daemon is degraded.

        With `stops_runs`, no new run starts meanwhile, so the daemon is not ready either.
        """
        self._shortages.append(shortages)
        if stops_runs:
            self._start_shortages.append(shortages)

    @property
    def draining(self) -> bool:
        """Whether the daemon takes no more runs because it is shutting down."""
        return self._intake.is_closed

    @property
    def ready(self) -> bool:
        """Whether the daemon takes a new run, and nothing is short that its start needs."""
        return not self.draining and not any(reason for found in self._start_shortages for reason in found())

    def show(self, session: str | None = None) -> dict[str, Any]:
        """`status` (ok, degraded, draining), `reasons` (why it is degraded), `version`, `pid`, `started_at`, `runs` (as
        `counts`); never fails. With a `session`: its own counts, and no reasons, which may name runs of others."""
        reasons = [reason for shortages in self._shortages for reason in shortages()]
        return {
            "status": "draining" if self.draining else "degraded" if reasons else "ok",
            "reasons": reasons if session is None else [],
            "version": _VERSION,
            "pid": os.getpid(),
            "started_at": self.started_at,
            "runs": self.counts(session),
        }

    def counts(self, session: str | None = None) -> dict[str, int]:
        """How many runs are `queued`, `starting`, `running`, `stopping`; how many of them are `waiting_for_input`; and
        the bounds `max_runs`, `queue_limit`. With a `session`, only its runs are counted."""
        found = dict.fromkeys(_STATES, 0)
        for scheduled in self._scheduler.runs.values():
            if scheduled.managed and scheduled.state in found and (session is None or _is_of(scheduled, session)):
                found[scheduled.state] += 1
        found["waiting_for_input"] = self._input_watch.count(session)
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

    async def doctor(self, hosts: Iterable[dict[str, Any]] = ()) -> dict[str, Any]:
        """What `holdfast doctor --json` says, other hosts (as Engine.hosts), and the daemon's own state."""
        found = await self.examine()
        others = [finding for host in hosts if (finding := _host_finding(host)) is not None]
        return {
            "healthy": found.healthy and not any(finding.needs_action for finding in others),
            "findings": [finding.as_dict() for finding in (*found.findings, *others)],
            "repairs": [repair.as_dict() for repair in found.repairs],
            "daemon": self.show(),
        }
