"""A stop request with a grace of its own: it may shorten the grace of the run, and never makes it longer."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from holdfast.guard import packets
from tests.support.driven import Driven
from tests.support.evidence import all_of, kinds, one

if TYPE_CHECKING:
    from tests.support.children import Children

pytestmark = pytest.mark.guard

USR1, USR2, KILL = int(signal.SIGUSR1), int(signal.SIGUSR2), int(signal.SIGKILL)
SLOW = "USR1:10m,USR2:10m,KILL"
SHORT_S = 0.3


def stop(run: Driven, grace_s: float | None, *, person: bool = False, now: bool = False) -> None:
    assert run.ask(lambda ticket: packets.stop(ticket, "user", "", now=now, person=person, grace_s=grace_s)) == 0


def rungs(run: Driven) -> list[int]:
    """The signals of the ladder so far, without repetitions of the last."""
    found = [fact.detail["signal"] for fact in all_of(run.facts, "signalled")]
    return found[: found.index(KILL) + 1] if KILL in found else found


def seconds_to_kill(run: Driven, request: int = -1) -> float:
    """From one stop request to SIGKILL, as the guard recorded both."""
    killed = next(fact for fact in all_of(run.facts, "signalled") if fact.detail["signal"] == KILL)
    return (killed.at_ns - all_of(run.facts, "stop_asked")[request].at_ns) / 1e9


def test_a_request_that_begins_the_ladder_bounds_its_whole_grace(child: Children) -> None:
    with Driven(child("reports_signals"), ladder=SLOW) as run:
        run.until_ready()
        stop(run, SHORT_S)
        run.until("tree")
        assert rungs(run) == [USR1, KILL]
        assert SHORT_S <= seconds_to_kill(run) < 10
        shortened = one(run.facts, "grace_shortened").detail
        assert shortened == {"by_pid": os.getpid(), "by_uid": os.getuid(), "grace_ns": round(SHORT_S * 1e9)}
        order = kinds(run.facts)
        assert order.index("stop_asked") < order.index("grace_shortened") < order.index("signalled")


@pytest.mark.parametrize("person", [False, True])
def test_a_request_that_joins_shortens_what_is_left(person: bool, child: Children) -> None:
    with Driven(child("reports_signals"), ladder=SLOW) as run:
        run.until_ready()
        stop(run, None)
        stop(run, SHORT_S, person=person)
        run.until("tree")
        assert rungs(run) == [USR1, KILL]
        assert SHORT_S <= seconds_to_kill(run) < 10
        assert len(all_of(run.facts, "grace_shortened")) == 1
        assert (run.live.outcome.status, run.live.outcome.cause) == ("cancelled", "user")


def test_a_person_who_insists_climbs_and_shortens(child: Children) -> None:
    with Driven(child("reports_signals"), ladder=SLOW) as run:
        run.until_ready()
        stop(run, None, person=True)
        stop(run, SHORT_S, person=True)
        run.until("tree")
        assert rungs(run) == [USR1, USR2, KILL]


def test_a_longer_grace_changes_nothing(child: Children) -> None:
    """The control: the clock of the ladder stays, and nothing is on record but the request."""
    with Driven(child("reports_signals"), ladder=f"USR1:{SHORT_S}s,KILL") as run:
        run.until_ready()
        stop(run, 600)
        stop(run, 600)
        run.until("tree")
        assert rungs(run) == [USR1, KILL]
        assert seconds_to_kill(run, 0) < 10
        assert "grace_shortened" not in kinds(run.facts)


def test_the_shortest_of_several_counts(child: Children) -> None:
    with Driven(child("reports_signals"), ladder=SLOW) as run:
        run.until_ready()
        for grace_s in (500, 600, SHORT_S, 400, None):
            stop(run, grace_s)
        run.until("tree")
        assert seconds_to_kill(run, 0) < 10
        graces = [fact.detail["grace_ns"] / 1e9 for fact in all_of(run.facts, "grace_shortened")]
        assert graces == [500, SHORT_S]


def test_rungs_that_fit_are_climbed(child: Children) -> None:
    with Driven(child("reports_signals"), ladder="USR1:100ms,USR2:10m,KILL") as run:
        run.until_ready()
        stop(run, SHORT_S)
        run.until("tree")
        assert rungs(run) == [USR1, USR2, KILL]
        assert SHORT_S <= seconds_to_kill(run) < 10


def test_no_grace_at_all_is_the_last_rung_at_once(child: Children) -> None:
    with Driven(child("reports_signals"), ladder=SLOW) as run:
        run.until_ready()
        stop(run, 0)
        run.until("tree")
        assert rungs(run) == [KILL]


def test_a_shorter_grace_shortens_no_drain(child: Children) -> None:
    """The bound is the ladder's: output that is still open is read for as long as the spec says."""
    with Driven(child("reports_signals"), ladder=SLOW, drain=60, drain_idle=60) as run:
        run.until_ready()
        holder = os.open(f"/proc/{run.command_pid}/fd/1", os.O_WRONLY)
        try:
            stop(run, 0.05)
            run.until("tree")
            run.take_turns()
            assert "drained" not in kinds(run.facts)
        finally:
            os.close(holder)
        run.until("drained")


def test_now_needs_no_grace(child: Children) -> None:
    with Driven(child("reports_signals"), ladder=SLOW) as run:
        run.until_ready()
        stop(run, 600, now=True)
        run.until("tree")
        assert rungs(run) == [KILL]
        assert "grace_shortened" not in kinds(run.facts)
