"""The circumstances of an end: what a run was doing at its timeout, and the memory that it had."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.journal.facts import Detail, Fact, make_fact
from holdfast.outcome import decide
from holdfast.projections.report import report
from holdfast.wording.circumstances import circumstances
from holdfast.wording.timeline import OutputPeriod

SECOND = 10**9
STARTED = make_fact("started", 0, 0, pid=7, guard_pid=6, start_ticks=1, containment="cgroup", cgroup=None)


def told(*facts: Fact, spec: dict[str, Any] | None = None, output: list[OutputPeriod] | None = None) -> list[str]:
    every = [STARTED, *facts]
    return circumstances(decide(every), report(None, spec, every), spec, output or [])


def timeout(**doing: Any) -> Fact:
    detail = {"pid": 9, "state": "S", "wait_channel": None, "name": "curl"} | doing
    return make_fact("deadline", 5 * SECOND, 50, limit_ns=5 * SECOND, doing=Detail(detail))


@pytest.mark.parametrize(
    ("doing", "words"),
    [
        ({"wait_channel": "hrtimer_nanosleep"}, "was sleeping (in the kernel function hrtimer_nanosleep)."),
        ({"wait_channel": "sk_wait_data"}, "was waiting for the network (in the kernel function sk_wait_data)."),
        ({"wait_channel": "new_one"}, "was sleeping in the kernel (in the kernel function new_one)."),
        ({"state": "R"}, "was running."),
        ({"state": "T", "wait_channel": "do_signal_stop"}, "was stopped."),
        ({"state": "?"}, "did something unknown."),
    ],
)
def test_what_it_was_doing(doing: dict[str, Any], words: str) -> None:
    assert told(timeout(**doing)) == [
        f"When the time was over, process 9 (curl) {words}",
        "It had written nothing.",
    ]


def test_a_name_cannot_hurt_the_terminal() -> None:
    assert "(\\x1b[2J)" in told(timeout(name="\x1b[2J"))[0]


def test_a_guard_that_did_not_look() -> None:
    assert told(make_fact("idle", 5, 50, limit_ns=5)) == ["It had written nothing."]


def test_its_last_output() -> None:
    early, late = OutputPeriod("stderr", False, SECOND), OutputPeriod("stdout", True, 6 * SECOND)
    early.last_ns = 3 * SECOND
    assert told(timeout(), output=[early, late])[1] == "Its last output, on stderr, came 2.0s before that."


def test_memory_that_the_kernel_kept() -> None:
    end = make_fact("end", 2, 60, user_us=1, system_us=1, max_rss_kib=1024)
    assert told(make_fact("oom", 1, 50, kills=1), end, spec={"memory_bytes": 2 << 20}) == [
        "Its memory limit was 2M.",
        "Its largest process had 1.0M at most.",
    ]


def test_memory_that_the_guard_kept() -> None:
    assert told(make_fact("limit", 1, 50, what="memory", limit=1 << 20, seen=3 << 20)) == [
        "Its memory limit was 1M.",
        "All its processes had 3.0M when the guard looked.",
        "How much its processes had at most is not known.",
    ]


def test_nothing_is_added_to_an_exit() -> None:
    exited = make_fact("exited", 1, 50, wait_status=256, user_us=0, system_us=0, max_rss_kib=1)
    assert told(exited) == []
