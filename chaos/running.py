"""One run under attack: what the driver has seen of it, and the blows against it."""

from __future__ import annotations

import os
import random
import time
from typing import TYPE_CHECKING, NamedTuple

from . import weapons
from .frames import Journal

if TYPE_CHECKING:
    from .crew import Member
    from .plan import Blow, Plan

VERDICTS = ("exited", "spawn_failed", "oom", "limit", "deadline", "idle", "stop_asked", "lost", "guard_lost")
_HAMMERING_S = 0.5


class Hit(NamedTuple):
    """One blow: its target and weapon, the last fact before it, and the length of the journal at that moment."""

    target: str
    weapon: str
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
        self.again_until = 0.0  # how long the guard is stopped again and again
        self.release_at: float | None = None  # when the driver continues what it stopped, if the owner is dead then
        self.pair: tuple[int, int] = (0, 0)
        self.chance = random.Random(plan.number)

    @property
    def over(self) -> bool:
        """Whether the run is over, as far as the driver can tell."""
        if self.release_at is not None and self.owner.killed:
            return False
        if self.refused or self.error is not None or self.journal.ended:
            return True
        if self.never_made or self.was_hit("both", "kill"):
            return True  # the last sweep may be the one that writes its end
        return self.was_hit("sentinel", "kill") and "started" not in self.journal.names and self.owner.gone

    @property
    def never_made(self) -> bool:
        """Whether its owner was killed before it started the run."""
        return self.owner.killed and self.owner.gone and not os.path.lexists(self.path)

    def was_hit(self, target: str, weapon: str) -> bool:
        """Whether the driver struck this target of the run with this weapon."""
        return any((hit.target, hit.weapon) == (target, weapon) for hit in self.hits)

    @property
    def guard_may_die(self) -> bool:
        """Whether the driver killed its guard, or stopped it so often that its sentinel replaces it."""
        return self.was_hit("guard", "kill") or self.was_hit("both", "kill") or self.was_hit("guard", "hammer")

    def watch(self) -> None:
        """Read new facts of its journal, and strike when the moment has come."""
        if not self.journal.ended:
            self.journal.take()
        now, blow = time.monotonic(), self.plan.blow
        if self.release_at is not None and now >= self.release_at:
            self.release()
        if blow is None or self.journal.ended:
            return
        if self.hits:
            if now < self.again_until and (pid := self._guard()) is not None:
                weapons.strike_guard(pid, self.plan.run_id, blow.weapon)
            return
        if self.due is None and self._has_come(blow.moment):
            self.due = now + blow.delay_s
        if self.due is not None and now >= self.due:
            self._strike(blow)

    def release(self) -> None:
        """Continue its sentinel, and its guard, if the driver has stopped them and the owner is dead.

        A living owner does it. A sentinel that is stopped after its guard's last word has only its owner, too.
        """
        if self.release_at is not None and self.owner.killed:
            self.release_at = None
            weapons.continue_both(*self.pair, self.plan.run_id)

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

    def _strike(self, blow: Blow) -> None:
        before, sentinel_pid = self._hit(blow), self._sentinel(self._guard())
        stops = blow.stops_writer and sentinel_pid is not None and weapons.strike_writer(sentinel_pid, "stop")
        if not self._land(blow):
            return
        self.hits += [before, before._replace(target="writer", weapon="stop")][: 2 if stops else 1]
        now = time.monotonic()
        self.again_until = now + _HAMMERING_S if blow.weapon == "hammer" else 0.0
        if blow.weapon == "stop" and blow.target in ("sentinel", "both"):
            self.release_at = now + blow.hold_s

    def _land(self, blow: Blow) -> bool:
        """Strike; False if the target is not there, not yet or no longer."""
        guard_pid, run_id = self._guard(), self.plan.run_id
        sentinel_pid = self._sentinel(guard_pid)
        match blow.target:
            case "sentinel":
                self.pair = (sentinel_pid or 0, guard_pid or 0)
                return sentinel_pid is not None and weapons.strike_sentinel(
                    sentinel_pid, guard_pid, run_id, blow.weapon
                )
            case "writer":
                return sentinel_pid is not None and weapons.strike_writer(sentinel_pid, blow.weapon)
            case _ if guard_pid is None:
                return False
            case "guard":
                return weapons.strike_guard(guard_pid, run_id, blow.weapon)
            case "both":
                self.pair = (sentinel_pid or 0, guard_pid)
                return sentinel_pid is not None and weapons.strike_both(*self.pair, run_id, blow.weapon)
            case target:
                return self._strike_inside(target, guard_pid)

    def _strike_inside(self, target: str, guard_pid: int) -> bool:
        started = self.journal.first("started")
        if started is None:
            return False
        leader = started.number(0)
        if target == "leader":
            return weapons.kill_leader(leader, guard_pid)
        found = [(pid, leader) for pid in weapons.children_of(leader)]
        found += [(pid, guard_pid) for pid in weapons.children_of(guard_pid) if pid != leader]
        return bool(found) and weapons.kill_child(*self.chance.choice(found))

    def _guard(self) -> int | None:
        if self.guard_pid is None:
            started = self.journal.first("started")
            if started is not None:
                self.guard_pid = started.number(1)
            elif (sentinel_pid := self._sentinel(None)) is not None:
                return next((pid for pid in weapons.children_of(sentinel_pid) if not weapons.is_writer(pid)), None)
        return self.guard_pid

    def _sentinel(self, guard_pid: int | None) -> int | None:
        if guard_pid is not None:
            found = weapons.parent_of(guard_pid)
            return found if weapons.is_sentinel(found, guard_pid, self.plan.run_id) else None
        return weapons.find_sentinel(self.owner.pid, self.plan.run_id) if not self.owner.gone else None

    def _hit(self, blow: Blow) -> Hit:
        self.journal.take()
        names = self.journal.names
        verdict = next((str(fact) for fact in self.journal.facts if fact.name in VERDICTS), None)
        return Hit(blow.target, blow.weapon, names[-1] if names else "nothing", self.journal.position, verdict)
