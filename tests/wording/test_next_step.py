"""What to try next: a sentence for each way to end that is not a success, and none for the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from holdfast.outcome import STATUSES, decide
from holdfast.wording.next_step import next_step

if TYPE_CHECKING:
    from holdfast import Cause, Status

ENDS = [(status, cause) for status, causes in STATUSES.items() for cause in causes]
NOTHING = ("succeeded", "cancelled")


@pytest.mark.parametrize(("status", "cause"), ENDS)
def test_every_end_has_a_next_step_or_needs_none(status: Status, cause: Cause) -> None:
    step = next_step(decide(())._replace(status=status, cause=cause), "r1", None)
    assert bool(step) == (status not in NOTHING)
    assert "{" not in step
    assert not step or step.endswith(".")


@pytest.mark.parametrize(
    ("limit", "option"),
    [("memory", "--memory"), ("processes", "--pids"), ("output", "--max-output"), ("cpu", "--cpu-time")],
)
def test_the_option_of_a_spent_budget_is_named(limit: str, option: str) -> None:
    for cause in ("limit", "oom"):
        assert option in next_step(decide(())._replace(status="failed", cause=cause), "r1", limit)


def test_nothing_before_the_verdict() -> None:
    assert next_step(decide(()), "r1", None) == ""
