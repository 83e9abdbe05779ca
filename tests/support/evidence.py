"""Reading a run's evidence in tests."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from holdfast import Fact, Result


def kinds(facts: Iterable[Fact]) -> list[str]:
    """The kinds of the facts, in order."""
    return [fact.kind for fact in facts]


def all_of(facts: Iterable[Fact], kind: str) -> list[Fact]:
    """Every fact of that kind."""
    return [fact for fact in facts if fact.kind == kind]


def one(facts: Iterable[Fact], kind: str) -> Fact:
    """The one fact of that kind. AssertionError if there is none, or several."""
    (fact,) = all_of(facts, kind)
    return fact


def outcome_of(result: Result) -> tuple[str, str]:
    """Status and cause."""
    return result.status, result.cause


def assert_all_gone(report: Mapping[str, Any]) -> None:
    """Check that the report says: the run is over, no process of it is alive, and all of its output was read."""
    assert report["state"] == "settled"
    assert report["tree"] == "gone"
    assert report["survivors"] == []
    # Behind END only one fact may come: how long the disk had kept the end from being recorded.
    assert [fact["fact"] for fact in report["evidence"] if fact["fact"] != "recording_stalled"][-1] == "end"


# What a busy machine may add to a promised time. Where a protection is missing, the test would wait longer than that.
BUSY_S = 30.0


class Stopwatch:
    """How long a block took: `with Stopwatch() as watch: ...`, then `watch.seconds`."""

    def __enter__(self) -> Stopwatch:
        self._begin = time.monotonic()
        self.seconds = 0.0
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.monotonic() - self._begin
