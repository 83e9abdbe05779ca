"""One round: some hundred runs, started, attacked, swept and checked."""

from __future__ import annotations

import math
import os
import random
import select
import time
from typing import TYPE_CHECKING

from holdfast.state.upkeep.sweep import Sweeper
from holdfast.values.run_id import new_run_id

from .crew import Member
from .inspection import Violation, inspect
from .running import Running

if TYPE_CHECKING:
    from holdfast.state.directory import StateDirectory

    from .plan import Plan, Planner
    from .tally import Tally

_OWNERS = 4
_READERS = 2
_RUNS_PER_OWNER = 10
_TICK_MS = 1


class Round:
    """Drive one round; `violations` lists the broken rules."""

    def __init__(self, state: StateDirectory, planner: Planner, tally: Tally, *, bound_s: float) -> None:
        """`bound_s`: for the round to come to rest after its last start; all deadlines are below two seconds."""
        self.state = state
        self.bound_s = bound_s
        self.planner = planner
        self.tally = tally
        self.plans: list[Plan] = []
        self.runs: dict[str, Running] = {}
        self.live: dict[str, Running] = {}
        self.owners: list[Member] = []
        self.readers: list[Member] = []
        self.buried: list[Member] = []
        self.cancels: list[tuple[float, str]] = []
        self.blows: list[tuple[float, str]] = []
        self.violations: list[Violation] = []
        self.chance = random.Random(planner.seed)

    def run(self, numbers: range) -> None:
        """Run the whole round. Nothing of the round is left afterwards; every leftover was a violation or a leak."""
        self.chance = random.Random(f"{self.planner.seed}/round/{numbers.start}")
        self.plans = [self.planner.plan(number) for number in reversed(numbers)]
        self.owners = [self._new_owner(index) for index in range(_OWNERS)]
        self.readers = [self._new_reader() for _ in range(_READERS)]
        end = time.monotonic() + self.bound_s
        while self.plans or self.live:
            while self.plans and (owner := self._free_owner()) is not None:
                self._dispatch(self.plans.pop(), owner)
                end = time.monotonic() + self.bound_s
            self._turn()
            if time.monotonic() > end:
                break  # a run that is not over by now is not terminal, and the inspection says so
        self._send_home()
        self._sweep()
        self.violations += inspect(self.state, self.runs.values(), self.tally)

    # Driving.

    def _new_owner(self, index: int) -> Member:
        return Member("chaos.owner", ("live", "supervisor")[index % 2], self.state.path)

    def _new_reader(self) -> Member:
        return Member("chaos.reader", self.state.path)

    def _free_owner(self) -> Member | None:
        there = [owner for owner in self.owners if owner.ready and not owner.gone and owner.stopped_until is None]
        loads = {owner: sum(run.owner is owner for run in self.live.values()) for owner in there}
        owner = min(loads, key=lambda owner: loads[owner], default=None)
        return owner if owner is not None and loads[owner] < _RUNS_PER_OWNER else None

    def _dispatch(self, plan: Plan, owner: Member) -> None:
        run = Running(plan, owner, self.state.path)
        self.runs[plan.run_id] = self.live[plan.run_id] = run
        run.owner_killed = not owner.order(plan.command.argv, {"run_id": plan.run_id, **plan.options})
        if plan.cancel_after_s is not None:
            self.cancels.append((time.monotonic() + plan.cancel_after_s, plan.run_id))
        if plan.then == "session" and (session := plan.options.get("session")) is not None:
            self.chance.choice(self.readers).tell(f"close {session}")
            self.tally.sessions_closed += 1
        elif plan.then is not None:
            self.blows.append((time.monotonic() + self.chance.choice((0.0, self.chance.uniform(0, 0.4))), plan.then))

    def _kill_owner(self, index: int) -> None:
        owner = self.owners[index]
        owner.kill()
        self.tally.kills["owner"] += 1
        for run in self.runs.values():
            run.owner_killed = run.owner_killed or run.owner is owner
        self.buried.append(owner)
        self.owners[index] = self._new_owner(index)

    def _stop_owner(self, index: int) -> None:
        """Stop an owner for a while: its runs' deadlines pass meanwhile, and hold."""
        owner = self.owners[index]
        if owner.ready and owner.stopped_until is None:
            owner.stop(time.monotonic() + self.chance.uniform(0.2, 1.5))
            self.tally.stops["owner"] += 1

    def _kill_reader(self, index: int) -> None:
        self.readers[index].kill()
        self.tally.kills["reader"] += 1
        self.buried.append(self.readers[index])
        self.readers[index] = self._new_reader()

    def _turn(self) -> None:
        poll = select.poll()
        members = {member.output: member for member in (*self.owners, *self.readers, *self.buried) if not member.gone}
        for fd in members:
            poll.register(fd, select.POLLIN)
        for fd, _events in poll.poll(_TICK_MS):
            self._hear(members[fd])
        now = time.monotonic()
        for _at, run_id in [due for due in self.cancels if due[0] <= now]:
            self.runs[run_id].cancelled = True
            self.chance.choice(self.readers).tell(f"cancel {run_id}")
            self.tally.cancels += 1
        self.cancels = [due for due in self.cancels if due[0] > now]
        for _at, whom in [due for due in self.blows if due[0] <= now]:
            if whom == "owner":
                self._kill_owner(self.chance.randrange(_OWNERS))
            elif whom == "stop":
                self._stop_owner(self.chance.randrange(_OWNERS))
            elif whom == "reader":
                self._kill_reader(self.chance.randrange(_READERS))
        self.blows = [due for due in self.blows if due[0] > now]
        for owner in self.owners:
            owner.go_on(now)
        for run in list(self.live.values()):
            run.watch()
            if run.over:
                del self.live[run.plan.run_id]
            if run.never_made and not run.refused:
                self.plans.append(run.plan._replace(run_id=new_run_id(), then=None))
        self._reap()

    def _hear(self, member: Member) -> None:
        for word, *rest in member.hear():
            match word:
                case "ready":
                    member.ready = True
                case "begun":
                    self.runs[rest[0]].guard_pid = int(rest[1])
                case "settled":
                    self.runs[rest[0]].said = rest[1:]
                case "refused":
                    self.runs[rest[0]].refused = True
                case "error":
                    self.runs[rest[0]].error = " ".join(rest[1:])
                case "swept":
                    self.tally.recoveries += int(rest[0])
                    self.tally.orphans += int(rest[1])
                case "answered":
                    self.tally.answers[rest[1]] += 1
                case "defect":
                    self.violations.append(Violation("-", "a sweep found a defect", " ".join(rest)))
        if member.gone and not member.killed:
            self.violations.append(Violation("-", f"{' '.join(member.words)} ended by itself", "see its stderr"))

    def _reap(self) -> None:
        """Reap guards whose owner was killed: they are our children now, and nobody else takes their status."""
        ours = {member.pid for member in (*self.owners, *self.readers, *self.buried)}
        while True:
            try:
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if found is None:
                return
            if found.si_pid in ours:
                self._bury(found.si_pid)
                ours.discard(found.si_pid)
                continue
            os.waitid(os.P_PID, found.si_pid, os.WEXITED)

    def _bury(self, pid: int) -> None:
        for member in (*self.owners, *self.readers, *self.buried):
            if member.pid == pid:
                member.process.poll()

    # The end of a round.

    def _send_home(self) -> None:
        staff = [*self.owners, *self.readers, *self.buried]
        for member in staff:
            member.go_on(math.inf)
            if not member.killed:
                member.dismiss()
        end = time.monotonic() + self.bound_s
        while any(not member.gone for member in staff) and time.monotonic() < end:
            for member in staff:
                if not member.gone:
                    self._hear_last(member)
            for run in self.runs.values():
                run.watch()
            self._reap()
            time.sleep(0.002)
        for run in self.runs.values():
            run.release()
        for member in staff:
            if not member.gone:
                self.violations.append(Violation("-", f"{' '.join(member.words)} does not end", f"pid {member.pid}"))
                member.kill()
            code = member.bury()
            if code and not member.killed:
                self.violations.append(Violation("-", f"{' '.join(member.words)} failed", f"exit status {code}"))

    def _hear_last(self, member: Member) -> None:
        was_killed, member.killed = member.killed, True  # the process may end now
        self._hear(member)
        member.killed = was_killed

    def _sweep(self) -> None:
        swept = Sweeper(self.state, age_s=0.0).sweep()
        self.tally.recoveries += len(swept.finished)
        self.tally.orphans += len(swept.reaped)
        for problem in swept.problems:
            if "defect in Holdfast" in problem or "could not" in problem:
                self.violations.append(Violation("-", "the last sweep had a problem", problem))
