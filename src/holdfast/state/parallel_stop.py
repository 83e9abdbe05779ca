"""Stopping many runs side by side: ask each guard, then wait for all of them together.

Every run is asked first, in the order given, and only then waited for: their ladders run side by side. Each wait is
bounded by the run's own ladder as its journal has it. When the bound passes, the answer is `unknown`, because nobody
saw the end.
"""

from __future__ import annotations

import select
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from ..guard import packets
from ..values.errors import HoldfastError, RequestError, RunNotFoundError
from .guard_connection import RETRY_S, GuardConnection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from .directory import StateDirectory

_IN_ORDER_S = 0.1  # how long the next run waits until this one has taken its request
_AT_ONCE = 200  # runs that are asked side by side: each takes two descriptors
OF_TREE = {"gone": "confirmed", "survivors": "survivors"}


class StopResult(NamedTuple):
    """What is known of one run that was to end. `how`: confirmed (its tree is gone, on record), survivors, unknown."""

    run_id: str
    how: str
    asked: bool  # False: it was over before it could be asked
    report: dict[str, Any] | None
    problem: str | None = None


def stop_all(
    state: StateDirectory, run_ids: Sequence[str], *, cause: str = "user", reason: str = "", now: bool = False
) -> list[StopResult]:
    """End these runs, asked in the order given; one result each, in that order. Whatever fails is in its result."""

    def request(ticket: int) -> bytes:
        return packets.stop(ticket, cause, reason, now=now)

    results: dict[str, StopResult] = {}
    for first in range(0, len(run_ids), _AT_ONCE):
        _ParallelStop(state, request, now=now).run(run_ids[first : first + _AT_ONCE], results)
    return [results[run_id] for run_id in run_ids]


class _ParallelStop:
    """Some runs that are being ended side by side."""

    def __init__(self, state: StateDirectory, request: Callable[[int], bytes], *, now: bool) -> None:
        self.state = state
        self.request = request
        self.now = now
        self.poll = select.poll()
        self.waiting: dict[GuardConnection, float] = {}  # until when
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
            for asking in self.waiting:
                asking.close()

    def _begin(self, run_id: str) -> StopResult | None:
        try:
            asking = GuardConnection(self.state, run_id)
        except RunNotFoundError as error:
            return StopResult(
                run_id, "confirmed" if self.state.is_missing(run_id) else "unknown", False, None, str(error)
            )
        except HoldfastError as error:
            return StopResult(run_id, "unknown", False, None, str(error))
        self.waiting[asking] = 0.0
        done = self._step(asking)
        if done is None and asking.sent:
            # Its answer comes when the request is on record. So the order is kept, unless a guard does not react.
            asking.wait_readable(_IN_ORDER_S)
        return done

    def _turn(self) -> list[StopResult]:
        """Wait for news of any of them, or for a bound, and go on with those that are concerned."""
        lost = [asking for asking in self.waiting if not asking.is_connected]
        wait_s = RETRY_S if lost else max(0.0, min(self.waiting.values()) - time.monotonic())
        ready = [self.by_fd[fd] for fd, _ in self.poll.poll(wait_s * 1000 + 1)]
        late = [asking for asking, end in self.waiting.items() if time.monotonic() >= end]
        done = (self._step(asking) for asking in dict.fromkeys([*lost, *ready, *late]))
        return [stopped for stopped in done if stopped is not None]

    def _step(self, asking: GuardConnection) -> StopResult | None:
        """Go on with one run; its result when it is over, or its bound has passed."""
        try:
            if asking.is_connected and not asking.conversation.take_in():
                self._leave(asking)
            if asking.look() == "over":
                return self._finish(asking)
            end = self.waiting[asking] or time.monotonic() + asking.bound_s(now=self.now)
            self.waiting[asking] = end
            if time.monotonic() >= end:
                asking.problem = asking.problem or "it did not end within its bound; is its guard stopped?"
                return self._finish(asking)
            if not asking.is_connected:
                self._connect(asking)
        except HoldfastError as error:
            self._drop(asking)
            return StopResult(asking.run_id, "unknown", asking.sent, None, str(error))
        return None

    def _connect(self, asking: GuardConnection) -> None:
        if not asking.connect():
            return
        self.by_fd[asking.fileno()] = asking
        self.poll.register(asking.fileno(), select.POLLIN)
        if asking.is_answered:
            return  # asked a second time, the guard would climb to the next rung at once
        try:
            asking.send(self.request)
        except RequestError as error:
            asking.problem = error.message
            self._leave(asking)

    def _finish(self, asking: GuardConnection) -> StopResult:
        stopped = _result(asking)
        self._drop(asking)
        return stopped

    def _drop(self, asking: GuardConnection) -> None:
        self._leave(asking)
        asking.close()
        del self.waiting[asking]

    def _leave(self, asking: GuardConnection) -> None:
        if asking.is_connected:
            fd = asking.fileno()
            self.poll.unregister(fd)
            del self.by_fd[fd]
            asking.disconnect()


def _result(asking: GuardConnection) -> StopResult:
    """The result, from what is on record now."""
    if not asking.state.has(asking.run_id) and not asking.record.reader.facts:
        return StopResult(asking.run_id, "confirmed", False, None, "it was given up before it started")
    report = asking.record.report()
    how = OF_TREE.get(report["tree"], "unknown") if asking.record.reader.ended else "unknown"
    return StopResult(asking.run_id, how, asking.sent, report, asking.problem)
