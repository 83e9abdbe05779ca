"""A run that was cancelled before it could be started: it has an outcome and a report like any other, and no guard."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ...journal.facts import make_fact
from ...values.spec import public_spec

if TYPE_CHECKING:
    from typing import Any

    from ...journal.facts import Fact
    from ...values.spec import RunSpec


def facts_of(number: int) -> tuple[Fact, ...]:
    """What a guard would have recorded: this signal asked for the end before anything ran."""
    at_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    return (
        make_fact("stop_asked", at_ns, cause="user", signal=number, by_pid=0, by_uid=0, reason=""),
        make_fact("tree", at_ns, how="gone", count=0, survivors=()),
        make_fact("end", at_ns, user_us=0, system_us=0, max_rss_kib=0),
    )


def report_of(spec: RunSpec, facts: tuple[Fact, ...]) -> dict[str, Any]:
    """The report."""
    from ...projections.report import report

    header = {"run_id": spec.run_id, "wall_ns": time.time_ns(), "boottime_ns": facts[0].at_ns}
    return report(header, public_spec(spec), facts)
