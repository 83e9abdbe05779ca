"""The report: exactly the contract's fields, null where nothing is known, nothing of the environment."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from holdfast.journal.facts import Fact, make_fact
from holdfast.projections.report import IN_FORCE, OutputSeen, report

SECOND = 1_000_000_000
HEADER = {
    "run_id": "01abc",
    "boot_id": "b",
    "wall_ns": 1_700_000_000_123_456_789,
    "boottime_ns": 50 * SECOND,
    "host": "vm-1",
}
SPEC = {
    "argv": ["sh", "-c", "exit 3"],
    "name": "try",
    "session": "s1",
    "parent": None,
    "labels": {"a": "b"},
    "cwd": "/nowhere",
    "env": {"TOKEN": "hunter2"},
    "environment": {"TOKEN": "hunter2"},
}
FIELDS = [
    "run_id",
    "state",
    "name",
    "argv",
    "session",
    "parent",
    "labels",
    "status",
    "cause",
    "reason",
    "exit_code",
    "signal",
    "limit",
    "pid",
    "host",
    "ports",
    "queued_at",
    "started_at",
    "verdict_at",
    "exited_at",
    "settled_at",
    "duration_s",
    "escalated",
    "containment",
    "tree",
    "survivors",
    "stragglers",
    "output",
    "usage",
    "spec",
    "evidence",
]
NEVER_NULL = {"state", "labels", "escalated", "tree", "output", "usage", "evidence"}
STARTED = {"pid": 70, "guard_pid": 69, "start_ticks": 8, "containment": "cgroup", "cgroup": "/x"}
LEADER = {"user_us": 1000, "system_us": 2000, "max_rss_kib": 10}
WHOLE = {"user_us": 1_500_000, "system_us": 2_500_000, "max_rss_kib": 20}
DRAINED = {"how": "eof", "stdout_bytes": 5, "stderr_bytes": 6, "late_bytes": 2, "dropped_bytes": 0}


@pytest.fixture(autouse=True)
def nothing_left_behind() -> None:
    """Replace the check for processes and descriptors: this module tests a pure function."""


def made(*facts: tuple[str, float, dict[str, Any]]) -> list[Fact]:
    return [make_fact(k, int((50 + at) * SECOND), 100 * n, **detail) for n, (k, at, detail) in enumerate(facts, 1)]


NORMAL = made(
    ("started", 0.001, STARTED),
    ("exited", 1.5, {"wait_status": 3 << 8, **LEADER}),
    ("tree", 1.5, {"how": "gone", "count": 0, "survivors": ()}),
    ("drained", 1.6, DRAINED),
    ("end", 1.75, WHOLE),
)


def test_a_finished_run() -> None:
    found = report(HEADER, SPEC, NORMAL)
    assert list(found) == FIELDS
    evidence = found.pop("evidence")
    assert found == {
        "run_id": "01abc",
        "state": "settled",
        "name": "try",
        "argv": ["sh", "-c", "exit 3"],
        "session": "s1",
        "parent": None,
        "labels": {"a": "b"},
        "status": "failed",
        "cause": "exit",
        "reason": "exited with code 3",
        "exit_code": 3,
        "signal": None,
        "limit": None,
        "pid": 70,
        "host": "vm-1",
        "ports": None,
        "queued_at": None,
        "started_at": "2023-11-14T22:13:20.124456Z",
        "verdict_at": "2023-11-14T22:13:21.623456Z",
        "exited_at": "2023-11-14T22:13:21.623456Z",
        "settled_at": "2023-11-14T22:13:21.873456Z",
        "duration_s": 1.499,
        "escalated": False,
        "containment": "cgroup",
        "tree": "gone",
        "survivors": [],
        "stragglers": 0,
        "output": {"stdout_bytes": 5, "stderr_bytes": 6, "late_bytes": 2, "dropped_bytes": 0, "complete": True},
        "usage": {"cpu_user_s": 1.5, "cpu_system_s": 2.5, "max_rss_bytes": 20480},
        "spec": {**dict.fromkeys(IN_FORCE), "cwd": "/nowhere"},
    }
    assert [(entry["at_s"], entry["fact"]) for entry in evidence] == [
        (0.001, "started"),
        (1.5, "exited"),
        (1.5, "tree"),
        (1.6, "drained"),
        (1.75, "end"),
    ]
    assert evidence[0] == {"at_s": 0.001, "fact": "started", **STARTED}
    assert evidence[1] == {
        "at_s": 1.5,
        "fact": "exited",
        "wait_status": 768,
        **LEADER,
        "exit_code": 3,
        "signal": None,
    }


@pytest.mark.parametrize(
    ("fact", "limit"),
    [
        (("limit", 1.0, {"what": "memory", "limit": 1, "seen": 2}), "memory"),
        (("limit", 1.0, {"what": "processes", "limit": 1, "seen": 2}), "processes"),
        (("limit", 1.0, {"what": "output", "limit": 1, "seen": 2}), "output"),
        (("limit", 1.0, {"what": "cpu", "limit": 1, "seen": 2}), "cpu"),
        (("oom", 1.0, {"kills": 1}), "memory"),
        (("deadline", 1.0, {"limit_ns": 1}), None),
    ],
)
def test_the_spent_budget_has_a_name(fact: tuple[str, float, dict[str, Any]], limit: str | None) -> None:
    late = ("limit", 2.0, {"what": "output", "limit": 1, "seen": 2})
    assert report(HEADER, SPEC, made(("started", 0.1, STARTED), fact))["limit"] == limit
    assert report(HEADER, SPEC, made(("started", 0.1, STARTED), fact, late))["limit"] == limit, "it did not decide"


def test_nothing_known_is_null() -> None:
    for header, spec in ((HEADER, SPEC), (None, None), ({}, {})):
        found = report(header, spec, [])
        assert list(found) == FIELDS
        assert found["state"] == "starting"
        known = {field for field in FIELDS if found[field] is not None}
        assert known - {"run_id", "name", "argv", "session", "host", "spec"} == NEVER_NULL
        assert (found["escalated"], found["tree"], found["evidence"]) == (False, "unknown", [])
        assert set(found["output"].values()) == set(found["usage"].values()) == {None}
    assert (found["run_id"], found["argv"], found["labels"]) == (None, None, {})


def test_without_a_header_there_are_facts_and_no_times() -> None:
    found = report(None, None, NORMAL)
    assert (found["status"], found["started_at"], found["verdict_at"]) == ("failed", None, None)
    assert found["duration_s"] == 1.499
    assert {entry["at_s"] for entry in found["evidence"]} == {None}


def test_a_running_run_shows_the_output_seen_so_far() -> None:
    found = report(HEADER, SPEC, NORMAL[:1], OutputSeen(10, 20, 0))
    assert (found["state"], found["status"], found["duration_s"], found["stragglers"]) == ("running", None, None, None)
    assert found["output"] == {
        "stdout_bytes": 10,
        "stderr_bytes": 20,
        "late_bytes": 0,
        "dropped_bytes": None,
        "complete": None,
    }


def test_a_usage_that_nobody_saw_is_unknown() -> None:
    nothing = {"user_us": 0, "system_us": 0, "max_rss_kib": 0}
    found = report(
        HEADER, SPEC, made(("started", 0.001, STARTED), ("lost", 2.0, {"why": "guard"}), ("end", 2.0, nothing))
    )
    assert found["usage"] == {"cpu_user_s": None, "cpu_system_s": None, "max_rss_bytes": None}


def test_usage_is_the_leaders_until_the_end() -> None:
    assert report(HEADER, SPEC, NORMAL[:3])["usage"]["max_rss_bytes"] == 10240


@pytest.mark.parametrize(
    ("drained", "more", "complete"),
    [
        ({}, [], True),
        ({"how": "idle"}, [], False),
        ({"how": "absolute"}, [], False),
        ({"how": "interrupted"}, [], False),
        ({"dropped_bytes": 1}, [], False),
        ({}, [("recording_failed", 2.0, {"error": 28})], False),
    ],
)
def test_output_is_complete_only_at_end_of_file_with_nothing_dropped(
    drained: dict[str, Any], more: list[tuple[str, float, dict[str, Any]]], complete: bool
) -> None:
    facts = made(("started", 0, STARTED), ("drained", 1, {**DRAINED, **drained}), *more)
    assert report(HEADER, SPEC, facts)["output"]["complete"] is complete


def test_a_lost_run_claims_nothing() -> None:
    found = report(HEADER, SPEC, made(("started", 0, STARTED), ("lost", 9, {"why": "guard"})))
    assert (found["state"], found["status"], found["cause"]) == ("settled", "lost", "guard")
    assert (found["exit_code"], found["signal"], found["exited_at"], found["stragglers"]) == (None, None, None, None)
    assert (found["tree"], found["survivors"], found["output"]["complete"]) == ("unknown", None, False)
    assert found["settled_at"] == found["verdict_at"] == "2023-11-14T22:13:29.123456Z"
    assert found["duration_s"] == 9.0


def test_what_the_recovery_of_a_lost_run_adds_is_no_count() -> None:
    nothing = {"user_us": 0, "system_us": 0, "max_rss_kib": 0}
    end: list[tuple[str, float, dict[str, Any]]] = [
        ("tree", 9, {"how": "gone", "count": 0, "survivors": ()}),
        ("lost", 9, {"why": "guard"}),
        ("end", 9, nothing),
    ]
    found = report(HEADER, SPEC, made(("started", 0, STARTED), *end))
    assert (found["state"], found["status"], found["tree"]) == ("settled", "lost", "gone")
    assert found["stragglers"] is None
    assert set(found["usage"].values()) == {None}
    exited = ("exited", 1, {"wait_status": 0, **LEADER})
    found = report(HEADER, SPEC, made(("started", 0, STARTED), exited, *end))
    assert (found["status"], found["stragglers"], found["usage"]["max_rss_bytes"]) == ("succeeded", None, 10240)


def test_survivors_are_pids_and_the_evidence_says_more() -> None:
    survivor = {"pid": 71, "start_ticks": 5, "state": "D", "wait_channel": "nfs_wait", "error": 0}
    tree = {"how": "survivors", "count": 2, "survivors": (survivor, {"text": "odd"})}
    found = report(
        HEADER,
        SPEC,
        made(("started", 0, STARTED), ("stragglers", 1, {"count": 3, "policy": "leave"}), ("tree", 1, tree)),
    )
    assert (found["tree"], found["survivors"], found["stragglers"]) == ("survivors", [71], 3)
    assert json.loads(json.dumps(found))["evidence"][2]["survivors"] == [survivor, {"text": "odd"}]
    unknown = report(HEADER, SPEC, made(("tree", 1, {"how": "unknown", "count": 0, "survivors": ()})))
    assert (unknown["tree"], unknown["survivors"]) == ("unknown", None)


@pytest.mark.parametrize(
    ("step", "error", "reason"),
    [
        ("exec", 2, "no such file or directory: 'sh'"),
        ("exec", 13, "permission denied: 'sh'"),
        ("interpreter", 2, "its interpreter cannot be run: no such file or directory: 'sh'"),
        ("chdir", 2, "the working directory cannot be entered: no such file or directory: '/nowhere'"),
        ("fork", 11, "no process could be made: resource temporarily unavailable"),
    ],
)
def test_a_spawn_that_failed_names_what_is_wrong(step: str, error: int, reason: str) -> None:
    facts = made(("started", 0, STARTED), ("spawn_failed", 0, {"step": step, "error": error}), ("end", 1, WHOLE))
    found = report(HEADER, SPEC, facts)
    assert found["reason"] == reason
    assert (found["pid"], found["started_at"], found["duration_s"], found["exit_code"]) == (None, None, None, None)


def test_no_value_of_the_environment_gets_in() -> None:
    assert "hunter2" in json.dumps(SPEC)
    assert "hunter2" not in json.dumps(report(HEADER, SPEC, NORMAL))


def test_the_order_of_arrival_does_not_matter() -> None:
    facts = [*NORMAL, *made(("deadline", 1, {"limit_ns": SECOND}))]
    expected = report(HEADER, SPEC, facts)
    assert expected["cause"] == "deadline"
    for seed in range(20):
        shuffled = random.Random(seed).sample(facts, len(facts))
        assert report(HEADER, SPEC, shuffled) == expected
        assert report(HEADER, SPEC, shuffled + facts) == expected


def test_labels_may_come_as_pairs() -> None:
    assert report(HEADER, {"labels": [["k", "v"]]}, [])["labels"] == {"k": "v"}
