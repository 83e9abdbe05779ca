"""One run as the daemon follows it, from the queue to its end. What it is comes from its facts; this only waits."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ...projections.report import report as project
from ...values.spec import public_spec

if TYPE_CHECKING:
    from ...journal.unstarted import Ending
    from ...values.spec import RunSpec
    from ..engines.engine import EngineRun
    from .admission import ConcurrencyKeys


class ScheduledRun:
    """A run that waits, takes place, or has just ended. The three events are set in this order, and stay set."""

    __slots__ = (
        "_queued",
        "begun",
        "ending",
        "expiry",
        "final",
        "keys",
        "managed",
        "outer",
        "run",
        "run_id",
        "settled",
        "spec",
        "verdict",
    )

    def __init__(
        self, run_id: str, keys: ConcurrencyKeys, *, spec: RunSpec | None = None, managed: bool = True
    ) -> None:
        self.run_id = run_id
        self.keys = keys
        self.spec = spec  # as long as it waits: with its environment
        self.managed = managed  # False: somebody else started it, and it is only looked at
        self.outer: str | None = None  # the run it ends with
        self.run: EngineRun | None = None
        self.ending: Ending | None = None  # asked for before the start: then it is never started
        self.expiry: asyncio.TimerHandle | None = None
        self.final: dict[str, Any] | None = None
        self._queued: dict[str, Any] | None = None
        self.begun = asyncio.Event()  # it was started, or never will be
        self.verdict = asyncio.Event()
        self.settled = asyncio.Event()

    @property
    def report(self) -> dict[str, Any]:
        """The report as it is now."""
        if self.final is not None:
            return self.final
        if self.run is not None:
            return {**self.run.report, "waiting_for_input": self.run.input.is_waited_for()}
        if self._queued is None:
            assert self.spec is not None
            self._queued = _queued_report(self.spec)  # nothing in it changes as long as it waits
        return self._queued

    @property
    def is_queued(self) -> bool:
        """Whether the run was not started and has not ended."""
        return self.run is None and self.final is None

    @property
    def state(self) -> str:
        """As in the report, without making one."""
        if self.final is not None:
            return "settled"
        return "queued" if self.run is None else self.run.outcome.state

    @property
    def started_ns(self) -> float:
        """When its command was started, for comparing; later than all others when that is still to come."""
        started = None if self.run is None else self.run.outcome.started
        return float("inf") if started is None else started.at_ns

    def end(self, report: dict[str, Any]) -> None:
        """It is over, and this is all there is to say."""
        self.final = report
        for event in (self.begun, self.verdict, self.settled):
            event.set()

    def forget_expiry(self) -> None:
        """It does not wait any more."""
        if self.expiry is not None:
            self.expiry.cancel()
            self.expiry = None


def _queued_report(spec: RunSpec) -> dict[str, Any]:
    """The report of a run that waits to be started."""
    return {**project(None, public_spec(spec), ()), "run_id": spec.run_id, "state": "queued"}
