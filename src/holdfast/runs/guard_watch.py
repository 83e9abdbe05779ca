"""Watching the guard of a live run, as its `watchdog` says: continue it, end its tree, kill it, go on without it."""

from __future__ import annotations

import select
import time

from ..guard.processes import continue_both, continue_one, has_exited
from ..values.fast_imports import TYPE_CHECKING
from .watchdog import ABANDON, END_TREE, KILL, PATIENCE_S

if TYPE_CHECKING:
    from .live import LiveRun

OVER = "over"  # no step: the run has ended, and its guard was stopped before it could tell, or nobody has heard it yet
_LONGEST_MS = 60_000


def look(live: LiveRun, now: float) -> str | None:
    """Continue a stopped guard; returns the step to `act` on past the bound, OVER, or None. Does not block.

    Raises as `LiveRun.refresh` does.
    """
    watchdog = live.watchdog
    if _sentinel_is_gone(live):
        live.refresh()
        if live.ended:  # just now, and nobody has taken it in: a search of /proc for its guard would find nothing
            return OVER
    _continue(live)
    if not watchdog.is_due(now, live.outcome):
        return None
    live.refresh()
    if live.ended:
        return OVER
    extended = next((fact for fact in reversed(live.reader.facts) if fact.kind == "extended"), None)
    step = watchdog.next_step(now, live.outcome, extended, live.reader.position)
    if step is not None:
        live.pool = None  # not for another run: the step may come after the end, and a leaf that was killed stays so
    return step


def act(live: LiveRun, step: str, pidfd: int) -> None:
    """Do a step that `look` returned. Blocks for a second at most. After the last one the caller cleans up.

    `pidfd`: of the sentinel. A thread has one of its own: the run may end meanwhile, and then the number of the run's
    own descriptor soon means the sentinel of another run.
    """
    if step == END_TREE:
        if live.spec.stragglers != "leave" or live.outcome.exited is None:
            _end_tree(live)
        _continue(live)
    elif step == KILL:
        live.kill_guard(PATIENCE_S, pidfd=pidfd)


def watch(live: LiveRun) -> bool:
    """`look` if it is time to, and `act`: for a waiter that may block. Returns whether the run is over.

    Raises as `LiveRun.clean_up` does.
    """
    now = time.monotonic()
    if live.ended or now < live.watchdog.next_at:
        return live.ended
    if (step := look(live, now)) is not None:
        act(live, step, live.pidfd)
    if step == ABANDON:
        live.clean_up()
    return step in (OVER, ABANDON)


def await_exec(live: LiveRun) -> tuple[str, int] | None:
    """Block until the command of a run with an entry is executed; the step that failed and its errno, if one did.

    A run that ends before the exec ends the wait. Raises as `LiveRun.clean_up` does.
    """
    poll = select.poll()
    poll.register(live.entry, select.POLLIN)
    while not poll.poll(ms_until(live.watchdog.next_at)) and not watch(live):
        pass
    return live.take_exec()


def ms_until(at: float) -> float:
    """How many milliseconds `poll` may wait until then: at least one, so that the time has come when it returns."""
    return max(1.0, min((at - time.monotonic()) * 1000 + 1, _LONGEST_MS))


def _sentinel_is_gone(live: LiveRun) -> bool:
    return live.pidfd < 0 or has_exited(live.pidfd)


def _continue(live: LiveRun) -> None:
    if _sentinel_is_gone(live):
        started = live.outcome.started
        guard_pid = 0 if started is None else int(started.detail["guard_pid"])
        continue_both(guard_pid, live.first_run)
    else:
        continue_one(live.pidfd)


def _end_tree(live: LiveRun) -> None:
    from ..guard.descendants import kill_below  # here, because it is seldom needed

    started = live.outcome.started
    kill_below(
        live.sentinel_pid,
        0 if started is None else int(started.detail["guard_pid"]),
        live.first_run,
        None if started is None else started.detail["cgroup"],
        PATIENCE_S,
    )
