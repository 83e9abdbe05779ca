"""`holdfast why`: the evidence as a story, and every fact in words."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.journal.facts import FACTS, OBSERVED, make_fact
from holdfast.outcome import decide
from holdfast.wording.timeline import timeline, words

from ..console import holdfast
from ..kept_runs import as_json

if TYPE_CHECKING:
    from ..kept_runs import Runs


def test_what_decided_is_marked(runs: Runs) -> None:
    run_id = runs.ended("sh", "-c", "echo out; exit 3")
    text = holdfast("why", run_id).stdout.decode()
    assert "failed, cause exit: exited with code 3" in text
    (decided,) = [line for line in text.splitlines() if line.startswith("=>      ")]
    assert decided.endswith("the command exited with code 3")
    assert "output on stdout: 4B" in text


def test_what_came_late_is_marked(runs: Runs) -> None:
    """Exit 0 after the deadline: the exit is late, and so is the output before it."""
    command = "trap 'echo last words; exit 0' TERM; echo ready; while :; do sleep 0.01; done"
    run_id = runs.ended("sh", "-c", command, options=("--timeout", "1500ms"))
    told = as_json(holdfast("why", "--json", run_id))
    assert (told["status"], told["cause"]) == ("timed_out", "deadline")
    marks = [(event["fact"], event["mark"]) for event in told["timeline"] if event["mark"]]
    assert marks[0] == ("deadline", "decided")
    assert set(marks[1:]) == {("output", "late"), ("exited", "late")}
    times = [event["at_s"] for event in told["timeline"]]
    assert times == sorted(times)
    text = holdfast("why", run_id).stdout.decode()
    assert "its deadline of 1.5s passed" in text
    assert "SIGTERM sent to" in text
    assert " ~ came too late to count." in text


def test_what_it_said_last_and_what_to_try(runs: Runs) -> None:
    run_id = runs.ended("sh", "-c", "echo out; for n in 1 2 3 4 5 6 7 8 9 10 11; do echo line $n >&2; done; exit 3")
    text = holdfast("why", run_id).stdout.decode()
    last = "".join(f"    line {number}\n" for number in range(2, 12))
    end = f"\nThe last lines of its stderr:\n{last}\nNext: holdfast logs {run_id} shows all that it wrote.\n"
    assert text.endswith(end)
    told = as_json(holdfast("why", "--json", run_id))
    assert told["last_output"] == {"stream": "stderr", "lines": [f"line {number}" for number in range(2, 12)]}
    assert told["next_step"] == f"holdfast logs {run_id} shows all that it wrote."


def test_what_it_said_is_stdout_when_stderr_is_silent_and_cannot_hurt_the_terminal(runs: Runs) -> None:
    text = holdfast("why", runs.ended("sh", "-c", "printf 'a\\033[31mb'; exit 1")).stdout.decode()
    assert "The last lines of its stdout:\n    a\\x1b[31mb\n" in text


def test_nothing_is_advised_after_a_success(runs: Runs) -> None:
    run_id = runs.ended("sh", "-c", "echo fine >&2")
    assert "Next:" not in (text := holdfast("why", run_id).stdout.decode())
    assert "last lines" not in text
    told = as_json(holdfast("why", "--json", run_id))
    assert (told["last_output"], told["next_step"]) == (None, None)


def test_what_it_was_doing_when_its_time_was_over(runs: Runs) -> None:
    run_id = runs.ended("sleep", "600", options=("--timeout", "1s"))
    text = holdfast("why", run_id).stdout.decode()
    assert re.search(r"^When the time was over, process \d+ \(.+\) ", text, re.MULTILINE)
    assert "It had written nothing." in text
    told = as_json(holdfast("why", "--json", run_id))
    assert told["circumstances"][1] == "It had written nothing."


def test_how_much_memory_it_had_and_could_have(runs: Runs) -> None:
    grow = "import signal; grown = bytearray(b'x') * (1 << 28); signal.pause()"
    run_id = runs.ended(sys.executable, "-c", grow, options=("--memory", "32M"))
    text = holdfast("why", run_id).stdout.decode()
    assert "Its memory limit was 32M." in text
    assert re.search(r"^Its largest process had .*[MG] at most\.$", text, re.MULTILINE)


def test_a_command_that_never_started_was_not_started() -> None:
    assert holdfast("run", "--", "/nowhere/at/all").returncode == 127
    text = holdfast("why", "@last").stdout.decode()
    assert "started as process" not in text
    assert "for it; the command never ran" in text


def test_who_asked_and_why(runs: Runs) -> None:
    run_id = runs.sleeper()
    holdfast("cancel", run_id, "--reason", "not needed\x1b[2J")
    text = holdfast("why", run_id).stdout.decode()
    assert "asked to stop by process" in text
    assert "cause user: not needed\\x1b[2J" in text


def test_a_live_run_has_a_story_so_far(runs: Runs) -> None:
    run_id = runs.sleeper()
    text = holdfast("why", run_id).stdout.decode()
    assert "running, no verdict yet" in text
    assert f"The run goes on: holdfast logs -f {run_id} follows it." in text


def test_a_run_whose_guard_died(runs: Runs) -> None:
    run_id = runs.sleeper()
    runs.kill_guard(run_id)
    text = holdfast("why", run_id).stdout.decode()
    assert "lost, cause guard" in text
    assert "the guard was found dead" in text
    assert "every process of the run is gone" not in text


EVERY: dict[str, dict[str, Any]] = {
    "started": {"pid": 5, "guard_pid": 4, "start_ticks": 1, "containment": "cgroup", "cgroup": None},
    "warned": {"signal": 10, "reached": 1},
    "stop_asked": {"cause": "user", "signal": 2, "by_pid": 3, "by_uid": 0, "reason": "r"},
    "deadline": {"limit_ns": 10**9},
    "idle": {"limit_ns": 10**9},
    "queue_expired": {"limit_ns": 10**9},
    "limit": {"what": "memory", "limit": 1024, "seen": 2048},
    "oom": {"kills": 1},
    "signalled": {"signal": 15, "rung": 0, "reached": 2, "refused": 1},
    "exited": {"wait_status": 0x8B, "user_us": 0, "system_us": 0, "max_rss_kib": 0},
    "stragglers": {"count": 2, "policy": "kill"},
    "drained": {"how": "idle", "stdout_bytes": 1, "stderr_bytes": 2, "late_bytes": 0, "dropped_bytes": 3},
    "tree": {"how": "survivors", "count": 1, "survivors": ({"pid": 7},)},
    "end": {"user_us": 1, "system_us": 1, "max_rss_kib": 1},
    "spawn_failed": {"step": "exec", "error": 2},
    "extended": {"limit_ns": 10**9},
    "stopped": {"signal": 19},
    "continued": {},
    "owner_gone": {"pid": 1, "uid": 0},
    "owner_came": {"pid": 1, "uid": 0},
    "recording_failed": {"error": 28},
    "recording_stalled": {"for_ns": 3_000_000_000},
    "lost": {"why": "host"},
    "entered": {"pid": 7, "agent_pid": 6, "start_ticks": 1, "container": "box"},
    "container_lost": {"why": "gone", "reason": None},
    "vanished": {},
    "order_unknown": {},
    "repeated": {"of": "stopped", "count": 39_000, "last_ns": 10**9},
    "grace_shortened": {"by_pid": 7, "by_uid": 0, "grace_ns": 2 * 10**9},
    "guard_lost": {"guard_pid": 6, "wait_status": 9, "why": "died", "stops": 0},
    "sentinel_lost": {"pid": 5},
    "output_rolling": {"limit": 1 << 20, "tail": 1 << 19},
    "output_rolled": {"stdout_bytes": 5, "stderr_bytes": 6},
    "kept_on": {"run_id": "01m7gh51c0se"},
}


@pytest.mark.parametrize("kind", [*(layout.name for layout in FACTS.values()), *OBSERVED])
def test_every_fact_has_words(kind: str) -> None:
    if kind in ("header", "spec", "output", "output_gap"):
        return
    told = words(make_fact(kind, 1, **EVERY[kind]))
    assert told
    assert "{" not in told  # no dump of its fields
    assert told.isprintable()


def test_only_the_policy_to_leave_them_leaves_processes_alone() -> None:
    tree = make_fact("tree", 1, **EVERY["tree"])
    for policy, told in (("kill", "could not be ended"), ("wait", "could not be ended"), ("leave", "left alone")):
        stragglers = make_fact("stragglers", 1, count=1, policy=policy)
        assert words(tree, {"stragglers": stragglers}) == f"1 process {told}: 7"
    assert words(tree) == "1 process could not be ended: 7"


def test_a_command_that_was_ended_while_it_was_held() -> None:
    """The facts are those of `test_a_command_is_not_started_before_storage_has_its_start`."""
    started = make_fact("started", 1, **EVERY["started"])
    gone: dict[str, Any] = {"how": "gone", "count": 0, "survivors": ()}
    facts = {kind: make_fact(kind, 2, **EVERY[kind]) for kind in ("stop_asked", "drained", "end")}
    facts |= {"started": started, "tree": make_fact("tree", 2, **gone)}
    assert words(started, facts).endswith("the end came first, and the command never ran")
    for kind in ("signalled", "exited", "guard_lost", "lost", "recording_failed"):
        assert words(started, {**facts, kind: make_fact(kind, 2, **EVERY[kind])}).startswith("started as process 5")
    for kind in ("stop_asked", "end", "tree"):
        assert words(started, {k: v for k, v in facts.items() if k != kind}).startswith("started as process 5")


def test_a_fact_of_a_newer_guard_is_told_by_its_name() -> None:
    fact = make_fact("continued", 1)._replace(kind="teleported")
    assert words(fact) == "teleported"
    (event,) = timeline(None, [fact], decide([fact]), [])
    assert (event.at_s, event.mark) == (None, "")
