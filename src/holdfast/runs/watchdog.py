"""The owner's watchdog: continues a guard that was stopped, and ends a run that its guard does not end in time.

Theory of operation. Sentinel and guard continue each other. While both are stopped, only another process can help. So
the owner sends SIGCONT to the sentinel once a second, without looking; the sentinel continues its guard. A run whose
guard does not end it all the same has a bound: the deadline, the request to stop or the verdict, whichever is on record
or was sent, then the ladder, kill-wait and the drain. One second past this bound the owner kills every process below
the sentinel. That also ends a command that stops both in a loop, so the guard then goes on and records the end itself.
If the journal does not grow after that, the owner kills sentinel and guard, and finishes the run as one that is lost.
If not even that helps (a guard that waits for a device cannot be killed), the owner goes on without them.

A run without a deadline has no bound until it is asked to stop or has a verdict. `stragglers="wait"` without a deadline
has none after the exit, either.

Time in which the owner itself did not run does not count: perhaps guard and sentinel were frozen with it. Times are
CLOCK_MONOTONIC, as the guard's. The journal's times are CLOCK_BOOTTIME, which goes on while the machine is suspended;
so a fact is never taken to be older than our own start, or than our last look.

`Watchdog` only says what to do; `guard_watch` does it.
"""

from __future__ import annotations

import time

from ..values.fast_imports import TYPE_CHECKING

if TYPE_CHECKING:
    from ..journal.facts import Fact
    from ..outcome import Outcome
    from ..values.spec import RunSpec

EVERY_S = 1.0  # how often a stopped sentinel is continued; not more than LATE_S, so that each bound is seen in time
LATE_S = 1.0  # how long after its bound a run may end by itself
PATIENCE_S = 0.3  # how long sentinel and guard may take to react to each step
_OVERSLEPT_S = 1.0
_CONTAINER_S = 3.0  # what a runtime may add to the end of a run in a container
_ENTERING_S = 30.0  # how long a guard waits until a container lets its agent in
_NEVER = float("inf")

END_TREE, KILL, ABANDON = "end the tree", "kill the guard", "go on without the guard"


class Watchdog:
    """When one run has to be over, and what to do next about a guard that has not ended it. Pure: it only computes."""

    __slots__ = (
        "_asked_at",
        "_begun_at",
        "_due",
        "_last_step",
        "_looked_at",
        "_not_before",
        "_position",
        "_slept_s",
        "_spec",
        "_verdict_at",
        "next_at",
    )

    def __init__(self, spec: RunSpec, now: float, *, not_before: float | None = None) -> None:
        """`not_before`: the earliest time at which the run can have started, if it is not `now`."""
        self._spec = spec
        self._begun_at = self._looked_at = now
        self._not_before = now if not_before is None else not_before
        self._asked_at = self._verdict_at = _NEVER
        self._slept_s = 0.0
        self._last_step: str | None = None  # of the steps past the bound
        self._position = -1
        self._due = _NEVER if spec.timeout_s is None else self._not_before + spec.timeout_s + self._settle_s + LATE_S
        self.next_at = _next_second(now)  # when to look again

    def stop_was_asked(self, now: float) -> None:
        """Note that this owner has asked for the end: from now on the run has a bound, also without a deadline."""
        self._asked_at = min(self._asked_at, now)
        if self._last_step is None:
            self._due = min(self._due, self._asked_at + self._settle_s + LATE_S)

    def is_due(self, now: float, outcome: Outcome) -> bool:
        """Whether to read the journal and ask for the `next_step`; else look again at `next_at`."""
        window = self._due - self._settle_s - LATE_S  # the deadline, or the time of the request
        if (overslept := now - max(self.next_at, window)) > _OVERSLEPT_S and self._last_step is None:
            self._slept_s += overslept
            self._due += overslept
        self._note_verdict(now, outcome)
        if self._due == _NEVER and self._verdict_at != _NEVER:
            self._due = self._bound(now, outcome, None) + LATE_S
        self._looked_at = now
        self.next_at = min(_next_second(now), self._due)
        return now >= self._due

    def next_step(self, now: float, outcome: Outcome, extended: Fact | None, position: int) -> str | None:
        """The next step past the bound; None when there is nothing to do yet. `position`: what was read so far."""
        self._note_verdict(now, outcome)
        if self._last_step is None and now < (due := self._bound(now, outcome, extended) + LATE_S):
            self._due, self.next_at = due, min(_next_second(now), due)
            return None
        has_grown, self._position = position != self._position, position
        self._due = self.next_at = now + PATIENCE_S
        if self._last_step is None:
            self._last_step = END_TREE
        elif self._last_step == END_TREE:
            if has_grown:
                return None
            self._last_step = KILL
        else:
            self._last_step, self._due, self.next_at = ABANDON, _NEVER, _NEVER
        return self._last_step

    @property
    def _settle_s(self) -> float:  # on demand: most runs are over before anybody needs it
        return settle_s(self._spec)

    @property
    def has_acted(self) -> bool:
        """Whether the run did not end in time by itself. Its guard may still be replaced or killed."""
        return self._last_step is not None

    @property
    def has_given_up(self) -> bool:
        """Whether the last step was to go on without sentinel and guard."""
        return self._last_step == ABANDON

    def _note_verdict(self, now: float, outcome: Outcome) -> None:
        if self._verdict_at == _NEVER and outcome.decided_by is not None:
            self._verdict_at = max(_time_of(now, outcome.decided_by), self._not_before, min(self._looked_at, now))

    def _bound(self, now: float, outcome: Outcome, extended: Fact | None) -> float:
        """When the run has to be settled, as far as it is known now; infinite when nothing bounds it."""
        deadline, verdict_at = self._deadline(now, outcome, extended), self._verdict_at
        lingers = outcome.decided_by is not None and outcome.decided_by.kind == "exited"
        if lingers and self._spec.stragglers == "wait":
            verdict_at = max(verdict_at, deadline)
        # A guard that records its verdict late does not get more time.
        return min(self._asked_at, verdict_at, deadline + LATE_S) + self._settle_s + self._slept_s

    def _deadline(self, now: float, outcome: Outcome, extended: Fact | None) -> float:
        if self._spec.timeout_s is None:
            return _NEVER
        limit_s = self._spec.timeout_s if extended is None else extended.detail["limit_ns"] / 1e9
        if outcome.started is not None:
            return max(_time_of(now, outcome.started), self._not_before) + limit_s
        return self._begun_at + limit_s + (0.0 if self._spec.in_container is None else _ENTERING_S)


def settle_s(spec: RunSpec) -> float:
    """How long a guard that is well takes from the verdict to the end, at most."""
    container_s = 0.0 if spec.in_container is None else spec.drain_s + _CONTAINER_S
    ladder_s = sum(rung.wait_s for rung in spec.ladder)
    return ladder_s + spec.kill_wait_s + max(spec.drain_s, spec.drain_idle_s) + container_s


def _next_second(now: float) -> float:
    """The next whole second: a supervisor looks at all its runs at the same moment."""
    return now // EVERY_S * EVERY_S + EVERY_S


def _time_of(now: float, fact: Fact) -> float:
    return now - max(0, time.clock_gettime_ns(time.CLOCK_BOOTTIME) - fact.at_ns) / 1e9


def watchdog_of(spec: RunSpec, *, is_ours: bool) -> Watchdog:
    """A watchdog for a run that this process has just started (`is_ours`), or found running."""
    now = time.monotonic()
    # Was the machine ever suspended? Then the journal does not tell how long ago, by our clock, the run began.
    begins_now = is_ours or time.clock_gettime(time.CLOCK_BOOTTIME) - now > _OVERSLEPT_S
    return Watchdog(spec, now, not_before=now if begins_now else 0.0)
