"""Admission: which run may start next."""

from __future__ import annotations

from holdfast.daemon.queue.admission import Admission, AdmissionLimits, WaitingRun, keys_of


def waiting(
    run_id: str, *, priority: int = 0, key: str | None = None, session: str | None = None, **labels: str
) -> WaitingRun:
    waiting.count += 1  # type: ignore[attr-defined]
    return WaitingRun(waiting.count, run_id, priority, keys_of(key, session, labels))  # type: ignore[attr-defined]


waiting.count = 0  # type: ignore[attr-defined]


def queue(limits: AdmissionLimits, *runs: WaitingRun) -> Admission:
    admission = Admission(limits)
    for run in runs:
        admission.enqueue(run)
    return admission


def taken(admission: Admission) -> list[str]:
    found = []
    while (run := admission.take_next()) is not None:
        found.append(run.run_id)
    return found


def test_no_more_than_max_runs_take_place_and_the_next_comes_when_one_is_over() -> None:
    admission = queue(AdmissionLimits(2, {}), *map(waiting, "abc"))
    assert taken(admission) == ["a", "b"]
    assert (admission.running, admission.waiting) == (2, 1)
    admission.vacate("a")
    admission.vacate("a")  # a second call does no harm
    assert taken(admission) == ["c"]


def test_the_higher_priority_comes_first_and_then_the_longer_wait() -> None:
    runs = [waiting("low", priority=-1), waiting("first"), waiting("second"), waiting("high", priority=7)]
    assert taken(queue(AdmissionLimits(9, {}), *runs)) == ["high", "first", "second", "low"]


def test_a_run_that_waits_for_its_key_holds_up_only_those_that_share_it() -> None:
    limits = AdmissionLimits(9, {"gpu": 1, "session:ci": 2, "label:team=core": 1})
    runs = [waiting("g1", key="gpu"), waiting("g2", key="gpu"), waiting("other")]
    runs += [waiting(f"s{number}", session="ci") for number in range(3)]
    runs += [waiting("l1", team="core"), waiting("l2", team="core"), waiting("l3", team="web")]
    admission = queue(limits, *runs)
    assert sorted(taken(admission)) == ["g1", "l1", "l3", "other", "s0", "s1"]
    admission.vacate("g1")
    assert taken(admission) == ["g2"]


def test_a_run_needs_room_under_each_of_its_keys() -> None:
    admission = queue(
        AdmissionLimits(9, {"gpu": 1, "session:ci": 1}),
        waiting("a", session="ci"),
        waiting("b", key="gpu", session="ci"),
    )
    assert taken(admission) == ["a"]
    admission.vacate("a")
    assert taken(admission) == ["b"]


def test_every_other_key_or_session_has_the_general_limit_and_labels_have_none() -> None:
    runs = [waiting("a1", session="a"), waiting("a2", session="a"), waiting("b1", key="b"), waiting("b2", key="b")]
    runs += [waiting("x1", x="1"), waiting("x2", x="1")]
    assert sorted(taken(queue(AdmissionLimits(9, {}, per_key=1), *runs))) == ["a1", "b1", "x1", "x2"]


def test_whoever_queued_many_does_not_shut_out_the_others() -> None:
    runs = [waiting(f"many{number}", session="many") for number in range(4)] + [waiting("one", session="few")]
    assert taken(queue(AdmissionLimits(2, {}), *runs)) == ["many0", "one"]


def test_a_run_that_was_put_back_is_at_its_old_place() -> None:
    first, second = waiting("first"), waiting("second")
    admission = queue(AdmissionLimits(1, {}), first, second)
    assert admission.take_next() == first
    admission.vacate("first")
    admission.enqueue(first)
    assert taken(admission) == ["first"]


def test_a_withdrawn_run_is_had_by_one_only() -> None:
    run = waiting("a")
    admission = queue(AdmissionLimits(1, {}), run)
    assert admission.withdraw("a") == run
    assert admission.withdraw("a") is None
    assert admission.take_next() is None


def test_found_runs_take_up_room_whatever_the_limits_say() -> None:
    admission = queue(AdmissionLimits(1, {}), waiting("new"))
    for run_id in ("x", "y"):
        admission.occupy(run_id, keys_of(None, None, None))
        admission.occupy(run_id, keys_of(None, None, None))
    assert taken(admission) == []
    admission.vacate("x")
    assert taken(admission) == []
    admission.vacate("y")
    assert taken(admission) == ["new"]


def test_new_limits_count_from_now_on() -> None:
    admission = queue(AdmissionLimits(1, {}), waiting("a", key="k"), waiting("b", key="k"), waiting("c"))
    assert taken(admission) == ["a"]
    admission.change(AdmissionLimits(9, {"k": 1}))
    assert taken(admission) == ["c"]
    admission.change(AdmissionLimits(9, {}))
    assert taken(admission) == ["b"]


def test_labels_that_differ_in_every_run_make_no_lanes() -> None:
    admission = queue(AdmissionLimits(1, {}), *(waiting(f"r{number}", task=str(number)) for number in range(100)))
    assert [len(lanes) for lanes in admission._lanes.values()] == [1]  # noqa: SLF001 - the promise is about cost
