"""Every rule of the outcome: each decisive fact against each later one, and any order of arrival."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.journal.facts import CAUSES, FACTS, LOST_WHYS, OBSERVED, Fact, make_fact
from holdfast.outcome import DECISIVE, STATUSES, LostOutput, decide, exit_of, join, lost_output

USAGE = {"user_us": 0, "system_us": 0, "max_rss_kib": 0}
SIGKILLED, EXIT_0, EXIT_3, DUMPED = 9, 0, 3 << 8, 0x80 | 11

# (kind, detail, status, cause): each decisive fact in each of its forms, and its meaning when it comes first.
DECIDES: list[tuple[str, dict[str, Any], str, str]] = [
    ("exited", {"wait_status": EXIT_0, **USAGE}, "succeeded", "exit"),
    ("exited", {"wait_status": EXIT_3, **USAGE}, "failed", "exit"),
    ("exited", {"wait_status": 124 << 8, **USAGE}, "failed", "exit"),
    ("exited", {"wait_status": 137 << 8, **USAGE}, "failed", "exit"),
    ("exited", {"wait_status": SIGKILLED, **USAGE}, "failed", "signal"),
    ("exited", {"wait_status": DUMPED, **USAGE}, "failed", "signal"),
    ("spawn_failed", {"step": "exec", "error": 2}, "failed", "spawn"),
    ("spawn_failed", {"step": "chdir", "error": 2}, "failed", "spawn"),
    ("oom", {"kills": 1}, "failed", "oom"),
    *[
        ("limit", {"what": what, "limit": 10, "seen": 11}, "failed", "limit")
        for what in ("memory", "processes", "output", "cpu")
    ],
    ("deadline", {"limit_ns": 2_000_000_000}, "timed_out", "deadline"),
    ("idle", {"limit_ns": 500_000_000}, "timed_out", "idle"),
    ("queue_expired", {"limit_ns": 1_000_000_000}, "timed_out", "queue"),
    *[
        ("stop_asked", {"cause": cause, "signal": 0, "by_pid": 0, "by_uid": 0, "reason": None}, "cancelled", cause)
        for cause in CAUSES.words.values()
    ],
    ("container_lost", {"why": "refused", "reason": "no such container"}, "failed", "spawn"),
    ("container_lost", {"why": "gone", "reason": None}, "lost", "host"),
    ("container_lost", {"why": "unreachable", "reason": None}, "lost", "host"),
    ("vanished", {}, "lost", "unseen"),
    ("guard_lost", {"guard_pid": 6, "wait_status": 9, "why": "died", "stops": 0}, "lost", "guard"),
]
LOST = [("lost", {"why": why}, "lost", why) for why in LOST_WHYS.words.values()]
DETAIL: list[tuple[str, dict[str, Any]]] = [
    ("started", {"pid": 5, "guard_pid": 4, "start_ticks": 1, "containment": "cgroup", "cgroup": None}),
    ("warned", {"signal": 10, "reached": 1}),
    ("signalled", {"signal": 15, "rung": 0, "reached": 1, "refused": 0}),
    ("signalled", {"signal": 9, "rung": 1, "reached": 1, "refused": 0}),
    ("signalled", {"signal": 9, "rung": -1, "reached": 1, "refused": 0}),
    ("stragglers", {"count": 1, "policy": "kill"}),
    ("drained", {"how": "eof", "stdout_bytes": 1, "stderr_bytes": 0, "late_bytes": 0, "dropped_bytes": 0}),
    ("tree", {"how": "gone", "count": 0, "survivors": ()}),
    ("end", USAGE),
    ("extended", {"limit_ns": 9}),
    ("stopped", {"signal": 19}),
    ("continued", {}),
    ("owner_gone", {"pid": 1, "uid": 0}),
    ("owner_came", {"pid": 1, "uid": 0}),
    ("recording_failed", {"error": 28}),
    ("recording_stalled", {"for_ns": 3_000_000_000}),
    ("order_unknown", {}),
    ("repeated", {"of": "stop_asked", "count": 39_000, "last_ns": 9}),
    ("grace_shortened", {"by_pid": 7, "by_uid": 0, "grace_ns": 9}),
    ("sentinel_lost", {"pid": 5}),
    ("output_rolling", {"limit": 4, "tail": 2}),
    ("output_rolled", {"stdout_bytes": 5, "stderr_bytes": 0}),
    ("kept_on", {"run_id": "r2"}),
    ("entered", {"pid": 7, "agent_pid": 6, "start_ticks": 1, "container": "box"}),
]
EVERYTHING = [(kind, detail) for kind, detail, _, _ in (*DECIDES, *LOST)] + DETAIL


@pytest.fixture(autouse=True)
def nothing_left_behind() -> None:
    """Replace the check for processes and descriptors: this module tests pure functions, with many cases."""


def name(value: Any) -> str | None:
    return f"{value[0]}-{'-'.join(str(part) for part in value[1].values())}" if isinstance(value, tuple) else None


def test_the_tables_here_leave_no_kind_of_fact_out() -> None:
    kinds = {layout.name for layout in FACTS.values()} - {"header", "spec", "output", "output_gap"} | set(OBSERVED)
    assert {kind for kind, _ in EVERYTHING} == kinds
    assert {kind for kind, _, _, _ in (*DECIDES, *LOST)} == set(DECISIVE)


def test_every_status_and_cause_is_in_the_table_and_comes_from_a_fact() -> None:
    found = {(status, cause) for _, _, status, cause in (*DECIDES, *LOST)}
    assert found == {(status, cause) for status, causes in STATUSES.items() for cause in causes}


def test_output_is_lost_when_it_could_not_be_recorded_and_not_when_it_was_dropped() -> None:
    drained: dict[str, Any] = {"how": "eof", "stdout_bytes": 1, "stderr_bytes": 0, "late_bytes": 0}
    failed, whole = make_fact("recording_failed", 3, error=28), make_fact("drained", 2, dropped_bytes=0, **drained)
    dropped = make_fact("drained", 2, dropped_bytes=7, **drained)
    assert lost_output([dropped, failed]) == LostOutput(28, 7)
    assert lost_output([failed]) == LostOutput(28, None), "how much was said where it could not be written"
    for facts in ([], [dropped], [whole, failed]):
        assert lost_output(facts) is None, facts


@pytest.mark.parametrize(
    ("size", "words"),
    [(1, "1 byte is lost"), (7, "7 bytes are lost"), (None, "it is not known how much is lost")],
)
def test_lost_output_in_words(size: int | None, words: str) -> None:
    assert str(LostOutput(28, size)) == f"No space left on device; {words}"


@pytest.mark.parametrize("case", [*DECIDES, *LOST], ids=name)
def test_a_decisive_fact_alone(case: tuple[str, dict[str, Any], str, str]) -> None:
    kind, detail, status, cause = case
    outcome = decide([make_fact(kind, 10, 100, **detail)])
    assert (outcome.status, outcome.cause) == (status, cause)
    assert outcome.decided_by == make_fact(kind, 10, 100, **detail)
    assert outcome.reason


@pytest.mark.parametrize("later", EVERYTHING, ids=name)
@pytest.mark.parametrize("first", DECIDES, ids=name)
def test_no_later_fact_changes_the_verdict(
    first: tuple[str, dict[str, Any], str, str], later: tuple[str, dict[str, Any]]
) -> None:
    kind, detail, status, cause = first
    decisive = make_fact(kind, 10, 100, **detail)
    for at_ns in (10, 11):  # the same moment, in the journal's order, and a later one
        for facts in itertools.permutations([decisive, make_fact(later[0], at_ns, 200, **later[1])]):
            outcome = decide(facts)
            assert (outcome.status, outcome.cause, outcome.decided_by) == (status, cause, decisive)


@pytest.mark.parametrize("known", DECIDES, ids=name)
@pytest.mark.parametrize("lost", LOST, ids=name)
def test_lost_never_decides_when_anything_decisive_is_known(
    known: tuple[str, dict[str, Any], str, str], lost: tuple[str, dict[str, Any], str, str]
) -> None:
    for lost_at in (1, 10, 20):  # also before: a reader that gave the run up too early is overruled
        facts = [make_fact("lost", lost_at, **lost[1]), make_fact(known[0], 10, 100, **known[1])]
        assert decide(facts)[:2] == known[2:]
        assert decide(reversed(facts)) == decide(facts)
        assert decide(facts).state == "settled"


@pytest.mark.parametrize("fact", DETAIL, ids=name)
def test_other_facts_decide_nothing(fact: tuple[str, dict[str, Any]]) -> None:
    outcome = decide([make_fact(fact[0], 1, 1, **fact[1])])
    assert (outcome.status, outcome.cause, outcome.reason, outcome.decided_by) == (None, None, None, None)


def test_the_journals_order_holds_at_equal_times() -> None:
    exited = {"wait_status": 0, **USAGE}
    assert (
        decide([make_fact("deadline", 5, 10, limit_ns=1), make_fact("exited", 5, 20, **exited)]).status == "timed_out"
    )
    assert (
        decide([make_fact("deadline", 5, 20, limit_ns=1), make_fact("exited", 5, 10, **exited)]).status == "succeeded"
    )


def test_facts_outside_any_journal_tie_as_exit_timer_stop() -> None:
    stop = make_fact("stop_asked", 5, cause="user", signal=0, by_pid=0, by_uid=0)
    timer = make_fact("queue_expired", 5, limit_ns=1)
    exited = make_fact("exited", 5, wait_status=0, **USAGE)
    for facts in itertools.permutations([stop, timer, exited]):
        assert decide(facts).decided_by == exited
    assert decide([stop, timer]).decided_by == decide([timer, stop]).decided_by == timer
    recorded = make_fact("stop_asked", 5, 300, cause="shutdown", signal=0, by_pid=0, by_uid=0)
    assert decide([exited, recorded]).decided_by == recorded


def test_a_kind_nobody_knows_is_ignored() -> None:
    news = make_fact("continued", 1, 1)._replace(kind="teleported")
    assert decide([news]).state == "starting"
    assert decide([news, make_fact("idle", 2, 2, limit_ns=1)]).cause == "idle"


def made(*kinds: str | tuple[str, dict[str, Any]]) -> list[Fact]:
    details = dict(EVERYTHING)
    pairs = [kind if isinstance(kind, tuple) else (kind, details[kind]) for kind in kinds]
    return [make_fact(kind, 10 * number, 100 * number, **detail) for number, (kind, detail) in enumerate(pairs, 1)]


@pytest.mark.parametrize(
    ("kinds", "state"),
    [
        ([], "starting"),
        (["started"], "running"),
        (["started", "stopped", "extended"], "running"),
        (["started", "deadline"], "stopping"),
        (["started", "exited", "tree", "drained"], "stopping"),
        (["started", "exited", "tree", "drained", "end"], "settled"),
        (["stop_asked"], "stopping"),
        (["stop_asked", "tree", "drained", "end"], "settled"),
        (["spawn_failed"], "stopping"),
        (["started", "lost"], "settled"),
        (["lost"], "settled"),
        (["started", "deadline", "lost"], "settled"),
        (["queue_expired"], "settled"),
    ],
)
def test_state(kinds: list[str], state: str) -> None:
    assert decide(made(*kinds)).state == state


def test_exit_code_and_signal_are_detail_whatever_the_status() -> None:
    timed_out = decide(made("started", "deadline", ("exited", {"wait_status": 0, **USAGE})))
    assert (timed_out.status, timed_out.exit_code, timed_out.signal) == ("timed_out", 0, None)
    killed = decide(made("started", "stop_asked", ("exited", {"wait_status": SIGKILLED, **USAGE})))
    assert (killed.status, killed.exit_code, killed.signal) == ("cancelled", None, 9)
    unseen = decide(made("started", "deadline", "lost"))
    assert (unseen.status, unseen.exit_code, unseen.signal) == ("timed_out", None, None)


@pytest.mark.parametrize("wait_status", [0, 1 << 8, 255 << 8, 9, 15, 0x80 | 11, 64])
def test_exit_of_agrees_with_the_standard_library(wait_status: int) -> None:
    import os

    code, signal = exit_of(wait_status)
    expected = os.waitstatus_to_exitcode(wait_status)
    assert (code, signal) == ((expected, None) if expected >= 0 else (None, -expected))


def test_escalated_means_that_the_ladder_came_to_sigkill() -> None:
    term, kill, asked = DETAIL[2], DETAIL[3], DETAIL[4]
    assert not decide(made("started", "deadline", term, "exited", "end")).escalated
    assert decide(made("started", "deadline", term, kill, "exited", "end")).escalated
    assert not decide(made("started", asked, "exited", "end")).escalated


def test_the_tree_is_what_was_seen_last() -> None:
    survivors = ("tree", {"how": "survivors", "count": 1, "survivors": ()})
    outcome = decide(made("started", "deadline", survivors, "tree"))
    assert outcome.tree is not None
    assert outcome.tree.detail["how"] == "gone"


SECOND = 1_000_000_000
STOP = {"cause": "user", "signal": 0, "by_pid": 0, "by_uid": 0, "reason": None}
RUNG = {"reached": 1, "refused": 0}


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ([("exited", 1, {"wait_status": EXIT_3})], "exited with code 3"),
        ([("exited", 1, {"wait_status": DUMPED})], "ended by SIGSEGV (core dumped)"),
        (
            [("warned", 1, {"signal": 10}), ("exited", 1, {"wait_status": 10})],
            "ended by SIGUSR1, sent as the warning before its deadline",
        ),
        (
            [("signalled", 1, {"signal": 15, "rung": -1, **RUNG}), ("exited", 1, {"wait_status": 15})],
            "ended by SIGTERM, sent on request",
        ),
        (
            [
                ("deadline", 2, {"limit_ns": 2 * SECOND}),
                ("signalled", 2, {"signal": 15, "rung": 0, **RUNG}),
                ("signalled", 3.0002, {"signal": 9, "rung": 1, **RUNG}),
                ("signalled", 3.0003, {"signal": 9, "rung": 1, **RUNG}),
                ("exited", 3.1, {"wait_status": SIGKILLED}),
            ],
            "deadline of 2s passed; SIGTERM, then SIGKILL after 1s",
        ),
        (
            [
                ("exited", 1, {"wait_status": EXIT_0}),
                ("stragglers", 1, {"count": 2, "policy": "kill"}),
                ("signalled", 1, {"signal": 15, "rung": 0, **RUNG}),
            ],
            "exited with code 0; left 2 processes behind; SIGTERM",
        ),
        ([("idle", 1, {"limit_ns": SECOND // 4})], "no activity for 250ms"),
        ([("queue_expired", 1, {"limit_ns": 60 * SECOND})], "did not start within 1m"),
        ([("limit", 1, {"what": "memory", "limit": 64 << 20, "seen": 0})], "memory limit of 64M reached"),
        ([("limit", 1, {"what": "processes", "limit": 12, "seen": 0})], "limit of 12 processes reached"),
        ([("limit", 1, {"what": "cpu", "limit": 90 * 10**9, "seen": 0})], "cpu time limit of 90s reached"),
        ([("limit", 1, {"what": "unknown:9", "limit": 1, "seen": 0})], "limit reached (unknown:9)"),
        ([("oom", 1, {"kills": 1})], "out of memory: the kernel killed 1 process"),
        ([("spawn_failed", 1, {"step": "exec", "error": 2})], "no such file or directory"),
        (
            [("spawn_failed", 1, {"step": "fork", "error": 11})],
            "no process could be made: resource temporarily unavailable",
        ),
        ([("stop_asked", 1, STOP)], "cancelled before it started"),
        ([("started", 0, {}), ("stop_asked", 1, {**STOP, "reason": "not needed"})], "cancelled: not needed"),
        ([("started", 0, {}), ("stop_asked", 1, {**STOP, "signal": 15})], "cancelled by SIGTERM"),
        ([("started", 0, {}), ("stop_asked", 1, {**STOP, "cause": "owner"})], "cancelled because its owner went away"),
        ([("started", 0, {}), ("stop_asked", 1, {**STOP, "cause": "unknown:9"})], "cancelled (unknown:9)"),
        ([("lost", 1, {"why": "guard"})], "the guard died before it recorded an end"),
        ([("started", 0, {}), ("vanished", 1, {})], "the process ended, and only its parent could see how"),
        (
            [("container_lost", 1, {"why": "refused", "reason": "a warning\nError: no such container"})],
            "the container could not be entered: a warning Error: no such container",
        ),
        (
            [("started", 0, {}), ("container_lost", 1, {"why": "gone", "reason": None})],
            "the container went away before an end was recorded",
        ),
    ],
)
def test_reasons(facts: list[tuple[str, float, dict[str, Any]]], reason: str) -> None:
    made_facts = [make_fact(kind, int(at * SECOND), 10 * n, **detail) for n, (kind, at, detail) in enumerate(facts)]
    assert decide(made_facts).reason == reason


FACT = st.builds(
    lambda pair, at_ns, offset: make_fact(pair[0], at_ns, offset, **pair[1]),
    st.sampled_from(EVERYTHING),
    st.integers(0, 3),
    st.sampled_from([-1, 0, 10, 20, 30]),
)
OBSERVATION = st.lists(FACT, max_size=6)
THOROUGH = settings(max_examples=300, deadline=None, derandomize=True, database=None)


@THOROUGH
@given(st.lists(FACT, max_size=8), st.randoms())
def test_any_order_of_arrival_gives_one_outcome(facts: list[Fact], random: Any) -> None:
    shuffled = random.sample(facts, len(facts))
    assert decide(shuffled) == decide(facts) == decide(join(facts))
    assert join(shuffled) == join(facts)


@THOROUGH
@given(OBSERVATION, OBSERVATION, OBSERVATION)
def test_join_is_commutative_associative_and_idempotent(a: list[Fact], b: list[Fact], c: list[Fact]) -> None:
    assert join(a, b) == join(b, a)
    assert join(join(a, b), c) == join(a, join(b, c)) == join(a, b, c)
    assert join(a, a) == join(join(a)) == join(a)
    assert set(join(a, b)) == {*a, *b}


@THOROUGH
@given(st.lists(st.sampled_from(EVERYTHING), max_size=10), st.lists(st.integers(0, 2), min_size=10, max_size=10))
def test_a_verdict_once_read_from_a_journal_stays(pairs: list[tuple[str, dict[str, Any]]], steps: list[int]) -> None:
    times = list(itertools.accumulate(steps))
    pairs.sort(key=lambda pair: pair[0] == "lost")  # the guard is gone when it is written
    facts = [make_fact(kind, times[n], 10 * n, **detail) for n, (kind, detail) in enumerate(pairs)]
    verdict: Any = None
    for length in range(len(facts) + 1):
        outcome = decide(facts[:length])
        assert (outcome.status is None) == (outcome.cause is None) == (outcome.decided_by is None)
        assert verdict is None or verdict == (outcome.status, outcome.cause, outcome.decided_by)
        verdict = (outcome.status, outcome.cause, outcome.decided_by) if outcome.status else None
