"""One run as the daemon follows it: queued, live, or just ended. The facts of the run decide its state."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ...projections.report import report as project
from ...values.spec import public_spec
from ..engines.engine import NO_NEEDS

if TYPE_CHECKING:
    from ...journal.unstarted import Ending
    from ...values.spec import RunSpec
    from ..engines.engine import EngineRun, Needs
    from .admission import ConcurrencyKeys


class ScheduledRun:
    """A run that is queued, live, or has just ended. Its three events are set in order, and stay set."""

    __slots__ = (
        "_queued",
        "begun",
        "ending",
        "final",
        "has_waited",
        "holds",
        "keys",
        "managed",
        "needs",
        "outer",
        "priority",
        "queue_place",
        "run",
        "run_id",
        "settled",
        "spec",
        "timers",
        "verdict",
        "waits_for",
    )

    def __init__(
        self,
        run_id: str,
        keys: ConcurrencyKeys,
        *,
        spec: RunSpec | None = None,
        managed: bool = True,
        needs: Needs = NO_NEEDS,
    ) -> None:
        self.run_id = run_id
        self.keys = keys
        self.spec = spec  # while it is queued, with its environment
        self.managed = managed  # False: another process started it, and the daemon only follows it
        self.needs = needs  # of its host
        self.priority = 0
        self.waits_for: str | None = None  # why no host takes it now
        self.has_waited = True  # in the queue; False: it may start right after its post, which was judged
        self.outer: str | None = None  # the run that it ends with
        self.run: EngineRun | None = None
        self.ending: Ending | None = None  # asked for before the start: the run is never started
        self.holds: dict[str, str] = {}  # what must come before it has a place in the line, as phrases
        self.timers: list[asyncio.TimerHandle] = []  # of its delay and of its queue timeout
        self.final: dict[str, Any] | None = None
        self.queue_place: tuple[int, str] | None = None  # in lists of queued runs
        self._queued: dict[str, Any] | None = None
        self.begun = asyncio.Event()  # the run was started, or never will be
        self.verdict = asyncio.Event()
        self.settled = asyncio.Event()

    @property
    def report(self) -> dict[str, Any]:
        """The report as it is now, made from the facts so far."""
        if self.final is not None:
            return self.final
        if self.run is not None:
            return {**self.run.report, "waiting_for_input": self.run.input.is_waited_for()}
        if self._queued is None:
            assert self.spec is not None
            self._queued = queued_report(self.spec)  # nothing else in it changes while the run is queued
        return self._queued if self.waits_for is None else {**self._queued, "reason": self.waits_for}

    @property
    def session(self) -> str | None:
        """The session of the run; None: it has none. JournalError: it was adopted, and its journal cannot be read."""
        found: str | None = self.report["session"] if self.spec is None else self.spec.session
        return found

    @property
    def is_queued(self) -> bool:
        """Whether the run was not started and has not ended."""
        return self.run is None and self.final is None

    @property
    def state(self) -> str:
        """The state that the report would have."""
        if self.final is not None:
            return "settled"
        return "queued" if self.run is None else self.run.outcome.state

    @property
    def started_ns(self) -> float:
        """When its command started, for sorting; infinity if it has not started."""
        started = None if self.run is None else self.run.outcome.started
        return float("inf") if started is None else started.at_ns

    def end(self, report: dict[str, Any]) -> None:
        """Keep the last report of a run that is over, and set its three events."""
        self.final = report
        for event in (self.begun, self.verdict, self.settled):
            event.set()

    def forget_timers(self) -> None:
        """Stop the timers of the delay and of the queue timeout."""
        for timer in self.timers:
            timer.cancel()
        self.timers.clear()


def queued_report(spec: RunSpec) -> dict[str, Any]:
    """The report of a run that waits to be started."""
    return {**project(None, public_spec(spec), ()), "run_id": spec.run_id, "state": "queued"}
