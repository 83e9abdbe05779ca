"""The contract's exit codes, by table."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from holdfast.journal.facts import CAUSES, SPAWN_STEPS, make_fact
from holdfast.outcome import decide
from holdfast.projections.exit_code import exit_code

USAGE = {"user_us": 0, "system_us": 0, "max_rss_kib": 0}


@pytest.fixture(autouse=True)
def nothing_left_behind() -> None:
    """Replace the check for processes and descriptors: this module tests a pure function."""


def exited(wait_status: int) -> tuple[str, dict[str, Any]]:
    return "exited", {"wait_status": wait_status, **USAGE}


def stopped(cause: str = "user", signal: int = 0, reason: str | None = None) -> tuple[str, dict[str, Any]]:
    return "stop_asked", {"cause": cause, "signal": signal, "by_pid": 0, "by_uid": 0, "reason": reason}


def not_spawned(step: str, error: int) -> tuple[str, dict[str, Any]]:
    return "spawn_failed", {"step": step, "error": error}


TIMERS: list[tuple[str, dict[str, Any]]] = [
    ("deadline", {"limit_ns": 1}),
    ("idle", {"limit_ns": 1}),
    ("queue_expired", {"limit_ns": 1}),
]
BUDGETS: list[tuple[str, dict[str, Any]]] = [
    ("oom", {"kills": 1}),
    *[("limit", {"what": w, "limit": 1, "seen": 2}) for w in ("memory", "processes", "output", "cpu")],
]
LATER: list[tuple[str, dict[str, Any]]] = [exited(0), exited(9), stopped(signal=2), *TIMERS, *BUDGETS]


@pytest.mark.parametrize(
    ("decisive", "code"),
    [
        *[(exited(code << 8), code) for code in (0, 1, 2, 124, 125, 126, 127, 130, 137, 143, 255)],
        *[(exited(signal), 128 + signal) for signal in (1, 2, 9, 11, 15, 64)],
        (exited(0x80 | 6), 134),
        *[(timer, 124) for timer in TIMERS],
        *[(budget, 137) for budget in BUDGETS],
        *[(("lost", {"why": why}), 125) for why in ("guard", "host")],
        *[(stopped(cause), 143) for cause in CAUSES.words.values()],
        *[(stopped(cause, signal=2), 130) for cause in CAUSES.words.values()],
        (stopped(signal=15), 143),
        (stopped(reason="SIGINT"), 143),  # a reason is for people: no code reads it
        (not_spawned("exec", errno.ENOENT), 127),
        *[(not_spawned("exec", error), 126) for error in (errno.EACCES, errno.ENOEXEC, errno.ENOTDIR, errno.ETXTBSY)],
        (not_spawned("interpreter", errno.ENOENT), 126),
        (not_spawned("chdir", errno.ENOENT), 125),
        (not_spawned("stdio", errno.ENOENT), 125),
        (not_spawned("fork", errno.EAGAIN), 125),
        (not_spawned("setup", errno.ENOMEM), 125),
    ],
)
def test_each_outcome_has_its_code(decisive: tuple[str, dict[str, Any]], code: int) -> None:
    fact = make_fact(decisive[0], 5, 50, **decisive[1])
    assert exit_code(decide([fact])) == code
    # Later facts are detail: the code stays, whatever the child does afterwards.
    for late in LATER:
        if decisive[0] not in ("lost", "exited"):
            assert exit_code(decide([fact, make_fact(late[0], 6, 60, **late[1])])) == code


def test_every_step_of_a_spawn_has_a_code() -> None:
    for step in (*SPAWN_STEPS.words.values(), "unknown:9"):
        assert exit_code(decide([make_fact("spawn_failed", 1, 1, step=step, error=errno.EIO)])) in (125, 126)


def test_no_code_before_the_verdict() -> None:
    with pytest.raises(ValueError, match="no verdict yet"):
        exit_code(decide([]))
