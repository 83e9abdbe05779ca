"""One row: an adversarial child, the task for the peer, and the expectation; and the shapes that several rows have."""

from __future__ import annotations

from typing import NamedTuple

from .expectation import Expect
from .task import Task


class Row(NamedTuple):
    """One fixture. `interfere` names the interference from outside, see interference.py and surroundings.py."""

    name: str
    number: int
    child: str
    holds: str
    task: Task
    expect: Expect
    needs: tuple[str, ...] = ()
    interfere: str | None = None
    program: str | None = None  # the program that the interference waits for
    repeats: int = 1  # at most, and only while the cell holds: the race does not happen each time
    alone: bool = False  # its cells run one by one: a peer that does not end it leaves others no processor


TIMED_OUT = Expect(("timed_out",))
SUCCEEDED = Expect(("succeeded",), "exit")
CANCELLED = Expect(("cancelled",))
SPAWN = Expect(("failed",), "spawn", begins=None)
NOBODY = Expect(within_s=4.0)


def run_of(*argv: object) -> tuple[tuple[str, ...], ...]:
    """One command."""
    return (tuple(map(str, argv)),)


def bound_s(task: Task) -> float:
    """The end of a command with this task, whatever one process of it does, or the machine around it."""
    return task.timeout_s + task.grace_s + task.drain_s + task.kill_wait_s + 2


def starving(name: str, child: str, *argv: object) -> Row:
    """A command that leaves its supervisor next to nothing of the processor, from before its deadline on."""
    task = Task(run_of(*argv), timeout_s=1.0, grace_s=0.5)
    expect = TIMED_OUT._replace(within_s=bound_s(task))
    return Row(name, 49, child, "ended in time, nobody left", task, expect)
