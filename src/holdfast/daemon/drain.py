"""The drain: the daemon's shutdown as one state machine, driven by signals, time, and runs that end.

    serving ──signal──▶ draining ──idle──▶ done
                 │          │ budget used up, or second signal
                 │ cancel   ▼
                 ├─────▶ cancelling ──idle──▶ done
                 │          │ third signal, or the ladders' own bound
                 │ handoff  ▼
                 └─────▶ leaving: the runs go on in their guards

A signal never begins a second shutdown: signals are counted, and the one task that shuts down checks the count. The
first signal closes the intake and publishes the shutdown. The second ends the wait and cancels the runs. The third
leaves at once; a run that was asked to end is then ended by its guard. Queued runs stay queued, for the next daemon.

Guaranteed orders: the intake is closed before the runs are counted, so none is missed; `service.shutdown` is published
before the drain waits for anything; runs are asked to end newest first, each after the stop of the one before is on
record (or that run does not answer); the listener stays open until everything is over.
"""

from __future__ import annotations

import asyncio
import time
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ..values.errors import HoldfastError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from ..config import Config
    from ..service_manager.notifier import Notifier
    from .events.event_log import EventLog
    from .process.log import Log
    from .queue.intake import Intake
    from .queue.scheduled_run import ScheduledRun
    from .queue.scheduler import Scheduler

T = TypeVar("T")
REASON = "the daemon is shutting down"
_IN_ORDER_S = 2.0  # for asking all runs one after the other; later runs are asked without waiting
_MARGIN_S = 5.0  # for the steps after the runs: deliveries, streams, files
_LEAST_RETRY_S = 1.0


class DrainPhase(Enum):
    """The phases of the shutdown."""

    SERVING = "serving"
    DRAINING = "draining"
    CANCELLING = "cancelling"
    LEAVING = "leaving"
    DONE = "done"


class DrainEvent(Enum):
    """The events that lead from one phase to another."""

    SIGNAL = "signal"
    IDLE = "idle"
    TIME_UP = "time up"


_FIRST = {"drain": DrainPhase.DRAINING, "cancel": DrainPhase.CANCELLING, "handoff": DrainPhase.LEAVING}


def next_phase(phase: DrainPhase, event: DrainEvent, *, signals: int, policy: str) -> DrainPhase:
    """The phase after this event; the same phase if the event changes nothing. `signals` includes this signal."""
    match phase, event:
        case DrainPhase.SERVING, DrainEvent.SIGNAL:
            return _FIRST[policy]
        case DrainPhase.DRAINING | DrainPhase.CANCELLING, DrainEvent.IDLE:
            return DrainPhase.DONE
        case DrainPhase.DRAINING, DrainEvent.SIGNAL if signals < 3:
            return DrainPhase.CANCELLING
        case DrainPhase.DRAINING, DrainEvent.TIME_UP:
            return DrainPhase.CANCELLING
        case DrainPhase.DRAINING | DrainPhase.CANCELLING, DrainEvent.SIGNAL if signals >= 3:
            return DrainPhase.LEAVING
        case DrainPhase.CANCELLING, DrainEvent.TIME_UP:
            return DrainPhase.LEAVING
        case _:
            return phase


class ShutdownPolicy(NamedTuple):
    """What the shutdown does with live runs, and how long it waits for them."""

    on_shutdown: str
    drain_s: float
    stop_limit_s: float | None


def drain_budget_s(drain_s: float, stop_limit_s: float | None, ladders_s: float) -> float:
    """How long the drain may wait for runs, so that it and the ladders after it fit the manager's stop limit.

    Runs then end by their ladders before the manager kills the daemon, and in a container everything with it. A service
    manager that takes EXTEND_TIMEOUT_USEC needs no limit here: it moves its own.
    """
    if stop_limit_s is None:
        return drain_s
    return min(drain_s, max(0.0, stop_limit_s - ladders_s - min(_MARGIN_S, stop_limit_s / 5)))


def grace_left_s(stop_limit_s: float | None, passed_s: float) -> float | None:
    """The longest grace that a run can get before the manager kills the daemon; None: there is no such limit."""
    if stop_limit_s is None:
        return None
    return max(0.0, stop_limit_s - passed_s - min(_MARGIN_S, stop_limit_s / 5))


class Drain:
    """Shuts the daemon down, once. `signal` may be called at any moment, from the loop's signal handlers."""

    def __init__(self, scheduler: Scheduler, intake: Intake, events: EventLog, log: Log, notifier: Notifier) -> None:
        self.phase = DrainPhase.SERVING
        self._scheduler = scheduler
        self._intake = intake
        self._events = events
        self._log = log
        self._notifier = notifier
        self._signals = 0
        self._seen = 0
        self.signalled = asyncio.Event()
        self._began = 0.0

    def signal(self, times: int = 1) -> None:
        """Count a SIGTERM or SIGINT that has arrived, or several."""
        self._signals += times
        self.signalled.set()

    async def run(self, settings: Callable[[], Config]) -> None:
        """Wait for the first signal, then shut down. Returns when no run is left to wait for."""
        await self.signalled.wait()
        self._take_signal()
        budget_s = drain_budget_s(settings().drain_s, settings().stop_limit_s, self._ladders_s())
        policy = ShutdownPolicy(settings().on_shutdown, budget_s, settings().stop_limit_s)
        self._began = time.monotonic()
        self._enter(next_phase(self.phase, DrainEvent.SIGNAL, signals=1, policy=policy.on_shutdown))
        self._close_admission(policy)
        busy = self._scheduler.busy
        self._announce(policy, busy)
        self._warn_of_limit(settings().stop_limit_s)
        self._scheduler.on_settled.append(self._settled)
        if self.phase is DrainPhase.DRAINING:
            await self._wait(policy, policy.drain_s)
        if self.phase is DrainPhase.CANCELLING:
            await self._cancel(policy)
        if self.phase is DrainPhase.LEAVING and (left := self._scheduler.busy):
            self._log.info(f"leaving {_runs(len(left))} to their guards", runs=[run.run_id for run in left])

    def _close_admission(self, policy: ShutdownPolicy) -> None:
        self._intake.close(max(_LEAST_RETRY_S, policy.drain_s if self.phase is DrainPhase.DRAINING else 0.0))
        self._scheduler.close()

    def _announce(self, policy: ShutdownPolicy, busy: list[ScheduledRun]) -> None:
        takes_s = _MARGIN_S + self._ladders_s() + (policy.drain_s if self.phase is DrainPhase.DRAINING else 0.0)
        self._notifier.stopping(f"draining {len(busy)} runs", takes_s)
        run_ids = [run.run_id for run in busy]
        budget_s = policy.drain_s if self.phase is DrainPhase.DRAINING else 0.0
        self._log.info(f"draining {len(busy)} runs", policy=policy.on_shutdown, budget_s=budget_s, runs=run_ids)
        data = {
            "policy": policy.on_shutdown,
            "budget_s": budget_s,
            "busy": run_ids,
            "queued": self._scheduler.waiting,
        }
        self._events.publish("service.shutdown", None, data)

    def _warn_of_limit(self, stop_limit_s: float | None) -> None:
        if stop_limit_s is not None and self.phase is not DrainPhase.LEAVING and self._ladders_s() > stop_limit_s:
            text = (
                f"the ladders of the runs take up to {self._ladders_s():g} s, and the stop limit is {stop_limit_s:g} s"
            )
            self._log.warning(f"{text}: their grace is shortened; give the manager a longer limit to keep it")

    async def _cancel(self, policy: ShutdownPolicy) -> None:
        busy = self._scheduler.busy
        bound_s = self._ladders_s()
        if busy:
            self._notifier.stopping(f"cancelling {_runs(len(busy))}", bound_s + _MARGIN_S)
            self._log.info(f"force-abort after {self._ms()}", runs=[run.run_id for run in busy])
        grace_s = grace_left_s(policy.stop_limit_s, time.monotonic() - self._began)
        asking = asyncio.ensure_future(_ask_all(list(reversed(busy)), self._log, grace_s))
        try:
            await self._wait(policy, bound_s)
        finally:
            if not asking.done():
                asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)

    async def _wait(self, policy: ShutdownPolicy, within_s: float) -> None:
        """Stay in this phase until an event leads to another one, or the time is up."""
        phase, end = self.phase, time.monotonic() + within_s
        while self.phase is phase:
            event = await self._next_event(end)
            self._enter(next_phase(self.phase, event, signals=self._seen, policy=policy.on_shutdown))

    async def _next_event(self, end: float) -> DrainEvent:
        if self._signals > self._seen:
            self._take_signal()
            return DrainEvent.SIGNAL
        if not self._scheduler.busy:
            return DrainEvent.IDLE
        await _first(self.signalled.wait(), self._scheduler.wait_idle(), within_s=end - time.monotonic())
        if self._signals > self._seen:
            self._take_signal()
            return DrainEvent.SIGNAL
        return DrainEvent.TIME_UP if self._scheduler.busy else DrainEvent.IDLE

    def _take_signal(self) -> None:
        self._seen += 1
        if self._seen == self._signals:
            self.signalled.clear()

    def _enter(self, phase: DrainPhase) -> None:
        self.phase = phase

    def _settled(self, scheduled: ScheduledRun) -> None:
        self._log.info(f"run {scheduled.run_id} settled after {self._ms()}", run_id=scheduled.run_id)
        self._notifier.status(f"draining {len(self._scheduler.busy)} runs")

    def _ladders_s(self) -> float:
        """How long the live runs may take to end after they are asked to."""
        found = [run.run.settle_bound_s for run in self._scheduler.busy if run.run is not None]
        return max(found, default=0.0)

    def _ms(self) -> str:
        return f"{round((time.monotonic() - self._began) * 1000)}ms"


async def _ask_all(runs: list[ScheduledRun], log: Log, grace_s: float | None) -> None:
    """Ask the runs to end, in this order, within this grace. Each is asked after the one before has taken its request.

    This order has a bounded time. When the time is over, the rest are asked at once.
    """
    in_order_until = time.monotonic() + _IN_ORDER_S
    asked = []
    for scheduled in runs:
        asked.append(asyncio.ensure_future(_ask(scheduled, log, grace_s)))
        await asyncio.wait(asked[-1:], timeout=max(0.0, in_order_until - time.monotonic()))
    await asyncio.gather(*asked)


async def _ask(scheduled: ScheduledRun, log: Log, grace_s: float | None) -> None:
    if scheduled.run is None or (scheduled.verdict.is_set() and grace_s is None):
        return  # the run is already ending, and nothing bounds its grace
    try:
        await scheduled.run.cancel(REASON, cause="shutdown", grace=grace_s)
    except HoldfastError as error:
        log.warning(f"the run cannot be asked to end: {error}", run_id=scheduled.run_id)


async def _first(*works: Coroutine[Any, Any, object], within_s: float) -> None:
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.wait(tasks, timeout=max(0.0, within_s), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _runs(count: int) -> str:
    return f"{count} run{'' if count == 1 else 's'}"
