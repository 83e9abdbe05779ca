"""Facts to outcome: pure, and the only place where a fact gets a meaning.

Theory of operation. A journal is a list of facts. Some are decisive: the first of them, in the order below, gives the
run its status and cause. All others add detail (exit code, signal, whether SIGKILL was needed, how far the end has
come). `decide` folds any collection of facts; `join` merges what several observers know. Nobody else maps facts to a
status; every surface is a projection of the `Outcome`.

The order. Facts are sorted by time, then by their place in the journal (the guard's own order, which is the truth at
equal times: it reaps before it lets a timer or a stop count). Facts that no journal holds come after those of the same
time, an exit before timers before stops among them. LOST is last whatever its time: it says that nobody saw the end,
which is wrong as soon as anything decisive was seen. What is still equal is ordered by its content.

Invariants.
- `join` is set union in a total order: commutative, associative, idempotent; `decide(join(...))` is one answer,
  whatever the order of arrival.
- Adding a fact later in the order than the decisive one changes detail only, never `status`, `cause`, `decided_by`.
- `status` and `cause` are None together, and exactly as long as no fact is decisive.
- `exit_code` and `signal` come from EXITED alone: an exit nobody observed is never reported.
"""

from __future__ import annotations

import errno
import os
from itertools import pairwise

from .values.durations import format_duration, format_size
from .values.fast_imports import TYPE_CHECKING, NamedTuple
from .values.signals import signal_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from .journal.facts import Fact
    from .values.report import Cause, State, Status

_SIGKILL = 9


# Every status, and what can have led to it.
STATUSES: dict[Status, tuple[Cause, ...]] = {
    "succeeded": ("exit",),
    "failed": ("exit", "signal", "spawn", "oom", "limit"),
    "timed_out": ("deadline", "idle", "queue"),
    "cancelled": ("user", "shutdown", "parent", "session", "owner", "superseded"),
    "lost": ("guard", "host", "unseen"),
}


class Outcome(NamedTuple):
    """What is known about a run, with the facts behind it. A fact is None as long as it has not happened."""

    status: Status | None
    cause: Cause | None
    reason: str | None
    exit_code: int | None
    signal: int | None
    escalated: bool
    state: State
    decided_by: Fact | None
    started: Fact | None
    exited: Fact | None
    stragglers: Fact | None
    drained: Fact | None
    tree: Fact | None
    ended: Fact | None


class LostOutput(NamedTuple):
    """Output that the journal could not take: the errno of its write, and how many bytes; None when that is unknown."""

    error: int
    size: int | None

    def __str__(self) -> str:
        size = "it is not known how much is" if self.size is None else f"{self.size} bytes are"
        return f"{os.strerror(self.error)}; {'1 byte is' if self.size == 1 else size} lost"


def exit_of(wait_status: int) -> tuple[int | None, int | None]:
    """Exit code and signal of a raw wait status; one of the two is None."""
    signal = wait_status & 0x7F
    return ((wait_status >> 8) & 0xFF, None) if signal == 0 else (None, signal)


def _of_exit(fact: Fact) -> tuple[Status, Cause]:
    code, _signal = exit_of(fact.detail["wait_status"])
    if code is None:
        return "failed", "signal"
    return ("succeeded" if code == 0 else "failed"), "exit"


# The decisive facts, and what each one means when it is the first.
DECISIVE: dict[str, Callable[[Fact], tuple[Status, Cause]]] = {
    "exited": _of_exit,
    "spawn_failed": lambda _fact: ("failed", "spawn"),
    "oom": lambda _fact: ("failed", "oom"),
    "limit": lambda _fact: ("failed", "limit"),
    "deadline": lambda _fact: ("timed_out", "deadline"),
    "idle": lambda _fact: ("timed_out", "idle"),
    "queue_expired": lambda _fact: ("timed_out", "queue"),
    "stop_asked": lambda fact: ("cancelled", fact.detail["cause"]),
    # The container is the command's host. If it could not be entered, the command never ran.
    "container_lost": lambda fact: ("failed", "spawn") if fact.detail["why"] == "refused" else ("lost", "host"),
    # A process that another program started has ended, and nobody here could see how.
    "vanished": lambda _fact: ("lost", "unseen"),
    # The guard died or had to be killed, and its sentinel ended the run.
    "guard_lost": lambda _fact: ("lost", "guard"),
    "lost": lambda fact: ("lost", fact.detail["why"]),
}
# The order of facts that have the same time and are in no journal: an exit first, then a failed start, spent budgets,
# timers, stops, and losses.
_RANK = {kind: rank for rank, kind in enumerate(DECISIVE)}
# The first line that applies gives the state of a run. LOST means settled, because nothing more will be recorded.
_STATES: tuple[tuple[str, State], ...] = (
    ("end", "settled"),
    ("lost", "settled"),
    ("queue_expired", "settled"),
    ("*", "stopping"),  # any decisive fact
    ("started", "running"),
    ("", "starting"),
)


def order(fact: Fact) -> tuple[Any, ...]:
    """The sort key of the total order over facts."""
    kind, at_ns, offset, detail = fact
    return kind == "lost", at_ns, offset < 0, offset, _RANK.get(kind, 99), kind, _content(detail)


def lost_output(facts: Iterable[Fact]) -> LostOutput | None:
    """The output that the journal could not take; None when it took all, but for output that the spec drops."""
    kinds = {fact.kind: fact.detail for fact in facts}
    failed, drained = kinds.get("recording_failed"), kinds.get("drained")
    if failed is None or (drained is not None and not drained["dropped_bytes"]):
        return None
    return LostOutput(failed["error"], None if drained is None else drained["dropped_bytes"])


def _content(detail: Mapping[str, Any]) -> str:
    # Equal details must have equal text, whatever order their fields were put in.
    return repr(
        [(name, detail[name] if name != "survivors" else tuple(map(_content, detail[name]))) for name in sorted(detail)]
    )


def join(*observations: Iterable[Fact]) -> tuple[Fact, ...]:
    """All facts of all observers, each once, in the total order."""
    if len(observations) == 1 and _is_in_order(only := tuple(observations[0])):
        return only
    facts: frozenset[Fact] = frozenset().union(*observations)
    return tuple(sorted(facts, key=order))


def _in_order(facts: Iterable[Fact]) -> list[Fact]:
    found = list(facts)
    return found if _is_in_order(found) else sorted(found, key=order)


def _is_in_order(found: Sequence[Fact]) -> bool:
    """Whether the facts are in order already, each once, as those of one journal are: cheaper to check than to sort."""
    return all(a[1] <= b[1] and 0 <= a[2] < b[2] and a[0] != "lost" for a, b in pairwise(found))


def decide(facts: Iterable[Fact]) -> Outcome:
    """The outcome of the facts, in whatever order they come; kinds of facts it does not know are ignored."""
    ordered = _in_order(facts)
    kinds = {fact.kind: fact for fact in reversed(ordered)}
    decided_by = next((fact for fact in ordered if fact.kind in DECISIVE), None)
    status, cause = (None, None) if decided_by is None else DECISIVE[decided_by.kind](decided_by)
    exited = kinds.get("exited")
    exit_code, signal = (None, None) if exited is None else exit_of(exited.detail["wait_status"])
    return Outcome(
        status=status,
        cause=cause,
        reason=None if decided_by is None else _reason(decided_by, ordered),
        exit_code=exit_code,
        signal=signal,
        escalated=any(rung.detail["signal"] == _SIGKILL for rung in _rungs(ordered)),
        state=next(state for kind, state in _STATES if kind in kinds or (kind == "*" and decided_by) or not kind),
        decided_by=decided_by,
        started=kinds.get("started"),
        exited=exited,
        stragglers=kinds.get("stragglers"),
        drained=kinds.get("drained"),
        # The last TREE fact counts: a survivor that the guard recorded may be gone by the time of the recovery.
        tree=next((fact for fact in reversed(ordered) if fact.kind == "tree"), None),
        ended=kinds.get("end"),
    )


def _rungs(ordered: list[Fact]) -> list[Fact]:
    """The rungs of the ladder that were climbed. A signal that a caller asked for is not a rung."""
    return [fact for fact in ordered if fact.kind == "signalled" and fact.detail["rung"] >= 0]


# --- reasons: the verdict as a sentence for people. Nothing is decided below this line. ---

_STOPPED = {
    "user": "cancelled",
    "shutdown": "cancelled by the shutdown of its supervisor",
    "parent": "cancelled by the run it was started in",
    "session": "cancelled with its session",
    "owner": "cancelled because its owner went away",
    "superseded": "cancelled because a newer run replaces it",
}
_NOT_SPAWNED = {
    "setup": "could not be prepared: ",
    "fork": "no process could be made: ",
    "stdio": "input or output could not be opened: ",
    "chdir": "the working directory cannot be entered: ",
    "exec": "",
    "interpreter": "its interpreter cannot be run: ",
}
_SPAWN_HINTS = {errno.ETXTBSY: " (a process has the program open for writing: start it when it is written)"}
_OVER = {
    "memory": lambda limit: f"memory limit of {format_size(limit)} reached",
    "processes": lambda limit: f"limit of {limit} processes reached",
    "output": lambda limit: f"output limit of {format_size(limit)} reached",
    "cpu": lambda limit: f"cpu time limit of {_span(limit)} reached",
    "session_memory": lambda limit: f"the session used more than its {format_size(limit)} of memory, and this run most",
    "session_processes": lambda limit: f"the session had more than its {limit} processes, and this run most",
}
_LOST = {
    "guard": "the guard died before it recorded an end",
    "host": "the host went down before an end was recorded",
}
_GUARD_LOST = {
    "died": "the guard died before it recorded an end",
    "stopped": "the guard was stopped over and over, and was replaced",
    "stuck": "the guard did not go on in time, and was replaced",
    "unseen": "the guard died before it recorded an end",
}
_CONTAINER_LOST = {
    "refused": "the container could not be entered",
    "gone": "the container went away before an end was recorded",
    "unreachable": "the connection into the container was lost before an end was recorded",
}


def _span(ns: int) -> str:
    return format_duration(ns / 1e9)


def _measured(ns: int) -> str:
    return format_duration(round(ns / 1e9, 1 if ns >= 995_000_000 else 2))


def _exit_reason(fact: Fact, ordered: list[Fact]) -> str:
    wait_status = fact.detail["wait_status"]
    code, signal = exit_of(wait_status)
    if signal is None:
        return f"exited with code {code}"
    before = [other for other in ordered[: ordered.index(fact)] if other.detail.get("signal") == signal]
    sent = {"signalled": ", sent on request", "warned": ", sent as the warning before its deadline"}
    why = next((sent[other.kind] for other in before if other.kind in sent), "")
    return f"ended by {signal_name(signal)}{why}{' (core dumped)' if wait_status & 0x80 else ''}"


def _stop_reason(fact: Fact, ordered: list[Fact]) -> str:
    detail = fact.detail
    text = _STOPPED.get(detail["cause"], f"cancelled ({detail['cause']})")
    text += "" if any(other.kind == "started" for other in ordered) else " before it started"
    text += f" by {signal_name(detail['signal'])}" if detail.get("signal") else ""
    return f"{text}: {detail['reason']}" if detail.get("reason") else text


def _spawn_reason(fact: Fact, _ordered: list[Fact]) -> str:
    why = os.strerror(fact.detail["error"])
    hint = _SPAWN_HINTS.get(fact.detail["error"], "")
    return _NOT_SPAWNED.get(fact.detail["step"], "could not be started: ") + why[:1].lower() + why[1:] + hint


def _container_reason(fact: Fact, _ordered: list[Fact]) -> str:
    text = _CONTAINER_LOST.get(fact.detail["why"], f"the container was lost ({fact.detail['why']})")
    said = fact.detail.get("reason")
    return f"{text}: {' '.join(said.split())}" if said else text


def _limit_reason(fact: Fact, _ordered: list[Fact]) -> str:
    over = _OVER.get(fact.detail["what"])
    return over(fact.detail["limit"]) if over else f"limit reached ({fact.detail['what']})"


def _oom_reason(fact: Fact, _ordered: list[Fact]) -> str:
    kills = fact.detail["kills"]
    return f"out of memory: the kernel killed {kills} process{'' if kills == 1 else 'es'}"


_REASONS: dict[str, Callable[[Fact, list[Fact]], str]] = {
    "exited": _exit_reason,
    "spawn_failed": _spawn_reason,
    "oom": _oom_reason,
    "limit": _limit_reason,
    "deadline": lambda fact, _: f"deadline of {_span(fact.detail['limit_ns'])} passed",
    "idle": lambda fact, _: f"no activity for {_span(fact.detail['limit_ns'])}",
    "queue_expired": lambda fact, _: f"did not start within {_span(fact.detail['limit_ns'])}",
    "stop_asked": _stop_reason,
    "container_lost": _container_reason,
    "vanished": lambda _fact, _: "the process ended, and only its parent could see how",
    "guard_lost": lambda fact, _: _GUARD_LOST.get(fact.detail["why"], f"the guard was lost ({fact.detail['why']})"),
    "lost": lambda fact, _: _LOST.get(fact.detail["why"], f"lost ({fact.detail['why']})"),
}


def _reason(decided_by: Fact, ordered: list[Fact]) -> str:
    stragglers = next((fact.detail["count"] for fact in ordered if fact.kind == "stragglers"), 0)
    left = f"left {stragglers} process{'' if stragglers == 1 else 'es'} behind" if stragglers else ""
    return "; ".join(filter(None, (_REASONS[decided_by.kind](decided_by, ordered), left, _climb(_rungs(ordered)))))


def _climb(rungs: list[Fact]) -> str:
    """`SIGTERM, then SIGKILL after 1s`; a rung that was repeated is told once."""
    steps = [rung for i, rung in enumerate(rungs) if i == 0 or rung.detail["rung"] != rungs[i - 1].detail["rung"]]
    text = signal_name(steps[0].detail["signal"]) if steps else ""
    for earlier, later in pairwise(steps):
        text += f", then {signal_name(later.detail['signal'])} after {_measured(later.at_ns - earlier.at_ns)}"
    return text
