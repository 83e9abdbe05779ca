"""The plan, drawn from the seed: one plan for each run, the same for the same seed and number."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.values.run_id import new_run_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.children import Children

INT, TERM, KILL, SEGV = 2, 15, 9, 11
ANY = -1  # an exit status that the plan does not know
MOMENTS = ("launch", "begun", "started", "output", "verdict", "signalled", "exited", "tree")
_NESTED = "import sys; from holdfast.cli.main import main; sys.exit(main())"


class Command(NamedTuple):
    """A misbehaving command: how it ends by itself (a raw wait status, None: never) and on SIGTERM."""

    kind: str
    argv: list[str]
    by_itself: int | None
    on_term: int = TERM
    needs_deadline: bool = False
    lines: str | None = None  # the writer's file
    nested_id: str | None = None


class Blow(NamedTuple):
    """A signal against a process of a run, and its moment: a delay after an event was seen."""

    target: str  # guard, sentinel, both, writer, leader, child
    weapon: str  # kill; stop; hammer: stop again and again
    moment: str
    delay_s: float
    hold_s: float = 0.0  # how long both stand still before the driver continues them, if their owner is dead
    stops_writer: bool = False  # the writer of the journal is stopped before the blow


class Plan(NamedTuple):
    """One run."""

    number: int
    run_id: str
    command: Command
    options: dict[str, Any]
    cancel_after_s: float | None
    blow: Blow | None
    then: str | None  # when this run is dispatched: kill an "owner" or "reader", "stop" an owner, close a "session"


class Planner:
    """Makes plans. `directory` is for the files that some commands share with the driver."""

    def __init__(
        self, seed: int, child: Children, directory: Path, state_path: str, *, with_cgroup: bool = True
    ) -> None:
        self.seed = seed
        self.with_cgroup = with_cgroup
        self.child = child
        self.directory = directory
        self.state_path = state_path

    def plan(self, number: int) -> Plan:
        """The plan of this run; its id is new each time, because ids sort by time."""
        chance = random.Random(f"{self.seed}/{number}")
        make = chance.choices(_KINDS, weights=[weight for _make, weight in _WEIGHTED])[0]
        command = make(self, chance, number)
        options = _options(chance, command)
        if options["lifetime"] == "session" or chance.random() < 0.1:
            options["session"] = f"session-{number // 100}-{chance.randrange(3)}"
        cancel = chance.uniform(0.0, 0.3) if chance.random() < 0.15 else None
        dice = chance.random()
        ends = ((0.02, "owner"), (0.03, "reader"), (0.05, "session"), (0.08, "stop"))
        then = next((what for below, what in ends if dice < below), None)
        return Plan(number, new_run_id(), command, options, cancel, self._blow(chance, command), then)

    def _blow(self, chance: random.Random, command: Command) -> Blow | None:
        target, weapon = chance.choices([blow for blow, _weight in _BLOWS], weights=[weight for _, weight in _BLOWS])[0]
        if target is None:
            return None
        # Nothing but a cgroup or a living parent can find these then.
        if (target, weapon) == ("both", "kill") and command.kind in _HIDING and not self.with_cgroup:
            target = "guard"
        moment = chance.choices(MOMENTS, weights=(3, 3, 5, 2, 4, 3, 2, 1))[0]
        if target in ("leader", "child") and moment in ("launch", "begun", "exited", "tree"):
            moment = "started"
        elif weapon != "kill" and moment == "launch":
            moment = "begun"  # the owner's look at a new run waits for the guard
        delay_s = chance.choice((0.0, 0.0, chance.uniform(0, 0.001), chance.uniform(0, 0.02), chance.uniform(0, 0.3)))
        return Blow(target, weapon, moment, delay_s, chance.uniform(0.1, 1.5), chance.random() < 0.2)

    def shared_file(self, number: int) -> str:
        """A file of zeros, 16 bytes, for a command to count in."""
        path = self.directory / f"shared-{number}"
        path.write_bytes(bytes(16))
        return str(path)

    def exits(self, chance: random.Random, _number: int) -> Command:
        """Print a line and exit with a known code."""
        code = chance.choice((0, 0, 1, 7, 124, 137, 143, 255))
        return Command("exits", self.child("exits.sh", code), code << 8)

    def works(self, chance: random.Random, _number: int) -> Command:
        """Exit after some milliseconds."""
        code = chance.choice((0, 3))
        return Command("works", self.child("exits_at", f"+{chance.randrange(1, 250) * 1_000_000}", code), code << 8)

    def sleeps(self, _chance: random.Random, _number: int) -> Command:
        """Sleep for a minute."""
        return Command("sleeps", ["/bin/sleep", "60"], None, needs_deadline=True)

    def ignores(self, _chance: random.Random, _number: int) -> Command:
        """Ignore SIGTERM."""
        return Command("ignores TERM", self.child("ignores_term"), None, KILL, needs_deadline=True)

    def late_zero(self, chance: random.Random, _number: int) -> Command:
        """Exit with 0 or 1 at SIGTERM: a late 0 is no success."""
        code = chance.choice((0, 1))
        return Command("exits on TERM", self.child("exits_on_term", code), None, code << 8, needs_deadline=True)

    def daemon(self, chance: random.Random, _number: int) -> Command:
        """A double-forked daemon with a cleared environment."""
        how = chance.choice(("stay", "exit", "crash"))
        by_itself = {"stay": None, "exit": 0, "crash": SEGV}[how]
        return Command("daemon", self.child("daemonises", how), by_itself, needs_deadline=how == "stay")

    def writer(self, chance: random.Random, number: int) -> Command:
        """Write numbered lines."""
        path, code = self.shared_file(number), chance.choice((0, 0, 5))
        count, pace_us = chance.choice(((20, 0), (2000, 0), (400, 500), (5000, 20)))
        return Command("writes", self.child("writes_lines", path, count, pace_us, code), code << 8, lines=path)

    def reforks(self, chance: random.Random, number: int) -> Command:
        """A chain that re-forks every millisecond."""
        how = chance.choice(("stay", "exit"))
        by_itself = 0 if how == "exit" else None
        return Command("re-forks", self.child("reforks", self.shared_file(number), how), by_itself, needs_deadline=True)

    def holder(self, chance: random.Random, _number: int) -> Command:
        """Exit and leave another process behind."""
        words = (chance.choice(("silent", "writes", "null")), chance.choice((0, 100_000)))
        return Command("stragglers", self.child("leaves_holder", *words, *chance.choice(((), ("stubborn",)))), 0)

    def family(self, chance: random.Random, _number: int) -> Command:
        """Trees that resist the end in different ways."""
        argv, on_term = chance.choice(
            (
                (self.child("leader_exits_on_term", 4), 4 << 8),
                (self.child("forks_on_term", 3), 0),
                (self.child("grows_tree", 4, "stubborn"), KILL),
                (self.child("stops_itself", 2), 2 << 8),
            )
        )
        return Command("family", argv, None, on_term, needs_deadline=True)

    def missing(self, _chance: random.Random, _number: int) -> Command:
        """A command that does not exist."""
        return Command("missing", ["/nonexistent/command"], None)

    def nested(self, chance: random.Random, number: int) -> Command:
        """A nested run, started by the command line."""
        inner = chance.choice((self.works, self.daemon, self.ignores, self.writer))(chance, number)
        run_id = new_run_id()
        words = ["run", "--state-dir", self.state_path, "--id", run_id, "--quiet", "--grace", "100ms"]
        words += ["--timeout", f"{chance.randrange(100, 400)}ms", "--drain", "200ms", "--"]
        return Command("nested", [sys.executable, "-c", _NESTED, *words, *inner.argv], ANY, ANY, True, None, run_id)


def _options(chance: random.Random, command: Command) -> dict[str, Any]:
    options: dict[str, Any] = {"drain": 0.3, "drain_idle": 0.05, "lifetime": "owner"}
    ladder = {"ladder": chance.choice(("INT:40ms,TERM:80ms,KILL", "KILL"))}
    options |= {"grace": chance.uniform(0.03, 0.2)} if chance.random() < 0.8 else ladder
    if command.needs_deadline or chance.random() < 0.3:
        options["timeout"] = chance.uniform(0.8, 1.4) if command.nested_id else chance.uniform(0.05, 0.5)
    elif chance.random() < 0.1:
        options["idle_timeout"] = 0.1
    options["lifetime"] = chance.choice(("owner", "owner", "session", "detached", "detached"))
    return options


def ladder_s(options: dict[str, Any]) -> float:
    """How long the ladder of a run waits before its last rung."""
    rungs = str(options.get("ladder", "")).split(",")
    return float(options.get("grace", 0.0)) + sum(float(rung[:-2].partition(":")[2]) / 1000 for rung in rungs[:-1])


# Kinds of commands that a list of processes does not show: without the mark of their run, or too fast for a list.
_HIDING = ("daemon", "nested", "re-forks")
_BLOWS: list[tuple[tuple[str | None, str], int]] = [
    ((None, ""), 30),
    (("guard", "kill"), 20),
    (("sentinel", "kill"), 7),
    (("both", "kill"), 4),
    (("guard", "stop"), 8),
    (("sentinel", "stop"), 5),
    (("both", "stop"), 4),
    (("guard", "hammer"), 2),
    (("writer", "kill"), 3),
    (("writer", "stop"), 3),
    (("leader", "kill"), 9),
    (("child", "kill"), 5),
]
_WEIGHTED: list[tuple[Callable[[Planner, random.Random, int], Command], int]] = [
    (Planner.exits, 12),
    (Planner.works, 14),
    (Planner.sleeps, 10),
    (Planner.ignores, 10),
    (Planner.late_zero, 8),
    (Planner.daemon, 12),
    (Planner.writer, 16),
    (Planner.reforks, 4),
    (Planner.holder, 6),
    (Planner.family, 8),
    (Planner.missing, 2),
    (Planner.nested, 3),
]
_KINDS = [make for make, _weight in _WEIGHTED]


def expected_lines(length: int) -> bytes:
    """The first bytes of the writer's output."""
    text, line = bytearray(), 0
    while len(text) < length:
        line += 1
        text += line_of(line)
    return bytes(text[:length])


def line_of(line: int) -> bytes:
    """One line of the writer."""
    return b"%08d " % line + bytes([97 + line % 26]) * (line * 7919 % 97) + b"\n"


def lines_reported(path: str) -> int:
    """How many lines the writer reported as written."""
    with open(path, "rb") as file:
        return int.from_bytes(file.read(8), sys.byteorder)


def remove_shared(plan: Plan) -> None:
    """Remove the file that the command of this plan shared."""
    for word in plan.command.argv:
        if os.path.basename(word).startswith("shared-"):
            Path(word).unlink(missing_ok=True)  # a plan that was dispatched twice shares one file
