"""Stopping many runs side by side: ask each guard, then wait for all of them together.

We first ask every run to end, in the order given, and only then wait. So the ladders run side by side. The ladder in
the run's journal bounds each wait. A guard that is stopped is continued once a second. A run that has not ended shortly
before the bound is ended by force. If the bound passes all the same, the result is `unknown`: no process saw the end.
"""

from __future__ import annotations

import select
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from ..guard import packets
from ..values.errors import HoldfastError, RequestError, RunNotFoundError
from .forced_end import continue_guard, end_by_force
from .guard_connection import CONTINUE_S, RETRY_S, GuardConnection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from .directory import StateDirectory

_IN_ORDER_S = 0.1  # how long we wait for a guard to take its request before we ask the next one
_AT_ONCE = 200  # runs that are stopped side by side: each takes two descriptors
_FORCE_S = 2.0  # so long before the bound of the wait a run is ended by force
HOW_FROM_TREE = {"gone": "confirmed", "survivors": "survivors"}


class StopResult(NamedTuple):
    """The result of stopping one run. `how`: confirmed (its journal says that the tree is gone), survivors, unknown."""

    run_id: str
    how: str
    asked: bool  # False: the run was over before we could ask
    report: dict[str, Any] | None
    problem: str | None = None


def stop_all(
    state: StateDirectory,
    run_ids: Sequence[str],
    *,
    cause: str = "user",
    reason: str = "",
    now: bool = False,
    person: bool = False,
    grace_s: float | None = None,
) -> list[StopResult]:
    """Stop these runs, in the order given; one result each, in that order. A failure is in the run's result.

    `person`: a person asks, and the second such request climbs the ladder. `grace_s` may shorten the grace of the runs.
    """

    def request(ticket: int) -> bytes:
        return packets.stop(ticket, cause, reason, now=now, person=person, grace_s=grace_s)

    results: dict[str, StopResult] = {}
    for first in range(0, len(run_ids), _AT_ONCE):
        _ParallelStop(state, request, now=now).run(run_ids[first : first + _AT_ONCE], results)
    return [results[run_id] for run_id in run_ids]


class _ParallelStop:
    """Runs that are stopped side by side."""

    def __init__(self, state: StateDirectory, request: Callable[[int], bytes], *, now: bool) -> None:
        self.state = state
        self.request = request
        self.now = now
        self.poll = select.poll()
        self.continue_at = time.monotonic() + CONTINUE_S
        self.waiting: dict[GuardConnection, float] = {}  # the end of each wait; 0.0: not known yet
        self.by_fd: dict[int, GuardConnection] = {}

    def run(self, run_ids: Iterable[str], results: dict[str, StopResult]) -> None:
        try:
            for run_id in run_ids:
                if (done := self._begin(run_id)) is not None:
                    results[run_id] = done
            while self.waiting:
                for stopped in self._turn():
                    results[stopped.run_id] = stopped
        finally:
            for connection in self.waiting:
                connection.close()

    def _begin(self, run_id: str) -> StopResult | None:
        try:
            connection = GuardConnection(self.state, run_id)
        except RunNotFoundError as error:
            return StopResult(
                run_id, "confirmed" if self.state.is_missing(run_id) else "unknown", False, None, str(error)
            )
        except HoldfastError as error:
            return StopResult(run_id, "unknown", False, None, str(error))
        self.waiting[connection] = 0.0
        done = self._step(connection)
        if done is None and connection.sent:
            # The guard answers when it has recorded the request. So the order is kept, unless a guard does not react.
            connection.wait_readable(_IN_ORDER_S)
        return done

    def _turn(self) -> list[StopResult]:
        """Wait until a guard sends something or a bound passes; then step the runs concerned."""
        lost = [connection for connection in self.waiting if not connection.is_connected]
        wait_s = RETRY_S if lost else min(CONTINUE_S, max(0.0, min(self.waiting.values()) - time.monotonic()))
        ready = [self.by_fd[fd] for fd, _ in self.poll.poll(wait_s * 1000 + 1)]
        self._continue_guards()
        late = [connection for connection, end in self.waiting.items() if time.monotonic() >= end]
        done = (self._step(connection) for connection in dict.fromkeys([*lost, *ready, *late]))
        return [stopped for stopped in done if stopped is not None]

    def _continue_guards(self) -> None:
        if time.monotonic() >= self.continue_at:
            self.continue_at = time.monotonic() + CONTINUE_S
            for connection in self.waiting:
                continue_guard(connection.record)

    def _step(self, connection: GuardConnection) -> StopResult | None:
        """Do the next step for one run; returns its result when the run is over, or its bound has passed."""
        try:
            if connection.is_connected and not connection.conversation.take_in():
                self._leave(connection)
            if connection.look() == "over":
                return self._finish(connection)
            if connection.record.guard == "elsewhere":
                raise connection.elsewhere()
            end = self.waiting[connection] or time.monotonic() + connection.bound_s(now=self.now) - _FORCE_S
            self.waiting[connection] = end
            if time.monotonic() >= end:
                end_by_force(connection.record)
                if connection.look() == "over":
                    return self._finish(connection)
                connection.problem = connection.problem or "it did not end within its bound; is its guard stopped?"
                return self._finish(connection)
            if not connection.is_connected:
                self._connect(connection)
        except HoldfastError as error:
            self._drop(connection)
            return StopResult(connection.run_id, "unknown", connection.sent, None, str(error))
        return None

    def _connect(self, connection: GuardConnection) -> None:
        if not connection.connect():
            return
        self.by_fd[connection.fileno()] = connection
        self.poll.register(connection.fileno(), select.POLLIN)
        if connection.is_answered:
            return  # a second request would make the guard climb to the next rung at once
        try:
            connection.send(self.request)
        except RequestError as error:
            connection.problem = error.message
            self._leave(connection)

    def _finish(self, connection: GuardConnection) -> StopResult:
        stopped = _result(connection)
        self._drop(connection)
        return stopped

    def _drop(self, connection: GuardConnection) -> None:
        self._leave(connection)
        connection.close()
        del self.waiting[connection]

    def _leave(self, connection: GuardConnection) -> None:
        if connection.is_connected:
            fd = connection.fileno()
            self.poll.unregister(fd)
            del self.by_fd[fd]
            connection.disconnect()


def _result(connection: GuardConnection) -> StopResult:
    """The result, from what the journal says now."""
    if not connection.state.has(connection.run_id) and not connection.record.reader.facts:
        return StopResult(connection.run_id, "confirmed", False, None, "its start was given up")
    report = connection.record.report()
    how = HOW_FROM_TREE.get(report["tree"], "unknown") if connection.record.reader.ended else "unknown"
    return StopResult(connection.run_id, how, connection.sent, report, connection.problem)
