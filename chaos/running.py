"""One run under attack: what the driver has seen of it, and its kills."""

from __future__ import annotations

import os
import random
import time
from typing import TYPE_CHECKING, NamedTuple

from . import killing
from .frames import Journal

if TYPE_CHECKING:
    from .crew import Member
    from .plan import Plan

VERDICTS = ("exited", "spawn_failed", "oom", "limit", "deadline", "idle", "stop_asked", "lost")


class Hit(NamedTuple):
    """One SIGKILL: its target, the last fact before it, and the length of the journal at that moment."""

    target: str
    after: str
    position: int
    verdict: str | None


class Running:
    """A run from its dispatch to its checks."""

    def __init__(self, plan: Plan, owner: Member, state_path: str) -> None:
        self.plan = plan
        self.owner = owner
        self.path = os.path.join(state_path, "runs", plan.run_id)
        self.journal = Journal(os.path.join(self.path, "journal"))
        self.dispatched_at = time.monotonic()
        self.guard_pid: int | None = None
        self.hits: list[Hit] = []
        self.said: list[str] | None = None  # the owner's words about its end
        self.refused = False
        self.error: str | None = None
        self.owner_killed = False
        self.cancelled = False
        self.due: float | None = None
        self.chance = random.Random(plan.number)

    @property
    def over(self) -> bool:
        """Whether the run is over, as far as the driver can tell."""
        if self.refused or self.error is not None or self.journal.ended:
            return True
        return self.guard_was_hit or self.never_made  # the last sweep may be the one that writes its end

    @property
    def never_made(self) -> bool:
        """Whether its owner was killed before it started the run."""
        return self.owner.killed and self.owner.gone and not os.path.lexists(self.path)

    @property
    def guard_was_hit(self) -> bool:
        """Whether the driver sent SIGKILL to its guard."""
        return any(hit.target == "guard" for hit in self.hits)

    def watch(self) -> None:
        """Read new facts of its journal, and kill when the moment has come."""
        if not self.journal.ended:
            self.journal.take()
        kill = self.plan.kill
        if kill is None or self.hits or self.journal.ended:
            return
        if self.due is None and self._has_come(kill.moment):
            self.due = time.monotonic() + kill.delay_s
        if self.due is not None and time.monotonic() >= self.due:
            self._strike(kill.target)

    def _has_come(self, moment: str) -> bool:
        names = self.journal.names
        if moment == "launch":
            return True
        if moment == "begun":
            return self.guard_pid is not None
        if moment == "output":
            return bool(self.journal.stdout)
        if moment == "verdict":
            return any(name in VERDICTS for name in names)
        return moment in names

    def _strike(self, target: str) -> None:
        if (pid := self._guard()) is None:
            return
        before = self._hit(target)
        if killing.kill_guard(pid, self.plan.run_id) if target == "guard" else self._strike_inside(target, pid):
            self.hits.append(before)

    def _strike_inside(self, target: str, guard_pid: int) -> bool:
        started = self.journal.first("started")
        if started is None:
            return False
        leader = started.number(0)
        if target == "leader":
            return killing.kill_leader(leader, guard_pid)
        found = [(pid, leader) for pid in killing.children_of(leader)]
        found += [(pid, guard_pid) for pid in killing.children_of(guard_pid) if pid != leader]
        return bool(found) and killing.kill_child(*self.chance.choice(found))

    def _guard(self) -> int | None:
        if self.guard_pid is None:
            started = self.journal.first("started")
            if started is not None:
                self.guard_pid = started.number(1)
            else:
                return killing.find_guard(self.owner.pid, self.plan.run_id) if not self.owner.gone else None
        return self.guard_pid

    def _hit(self, target: str) -> Hit:
        self.journal.take()
        names = self.journal.names
        verdict = next((str(fact) for fact in self.journal.facts if fact.name in VERDICTS), None)
        return Hit(target, names[-1] if names else "nothing", self.journal.position, verdict)
